"""`rules add` and `rules revoke`: standing rules made and ended by a command, on every surface.

A rule is shown before it is saved: what it says in full, and which past calls it would have met."""

from __future__ import annotations

import re
from typing import Final

from bot import rulebook
from bot.core import Core
from bot.markdown import code, short_ids
from bot.question import QuestionError
from bot.remember import sentence
from bot.rule_grammar import Unread, is_command, wish
from bot.rule_wish import rule_of
from bot.rules import Effect, effect_of
from bot.surface import Command
from storage import chats, scope
from storage.database import Tx
from storage.place import Place
from storage.rules import RuleRow, Scope

_TOLD: Final = 1_500  # characters of all that a rule says
_CALL: Final = 300
_ID: Final = re.compile(r"(?:rule_)?([0-9a-hjkmnp-tv-z]{4,20})")
_TYPED_ID: Final = 6  # in a mention

_NO_THREAD: Final = (
    "Nothing says which thread is meant here: mention me in the thread with this command, or say "
    "`in channel`."
)
_NO_CHAT: Final = (
    "No chat lives in this thread, so a rule for it would decide nothing: say `in channel`."
)


def read(argument: str) -> bool:
    """Whether what follows `rules` in a text is exactly a command of here."""
    word, _, rest = argument.strip().partition(" ")
    if word.casefold() == "revoke":
        found = _ID.fullmatch(_typed(rest))
        return found is not None and len(found[1]) >= _TYPED_ID
    return is_command(argument)


def meant(argument: str) -> bool:
    """Whether it begins as a command of here does."""
    return argument.strip().partition(" ")[0].casefold() in ("add", "revoke")


async def run(core: Core, event: Command) -> str:
    """The answer, in Markdown. Raises DatabaseUnavailable."""
    word, _, rest = event.argument.strip().partition(" ")
    if word.casefold() == "revoke":
        return await _revoke(core, event, rest)
    return await _add(core, event, rest)


async def _add(core: Core, event: Command, rest: str) -> str:
    try:
        wished = wish(rest)
    except Unread as unread:
        return str(unread)
    async with core.db.read() as tx:
        found = await _where(tx, event.place, wished.scope)
    if isinstance(found, str):
        return found
    rule = await rule_of(core, wished, *found, event.actor)
    if wished.mine and effect_of(rule) is Effect.ALLOW and not _for_itself(core, rule):
        return (
            f"No policy lets its rule makers allow {code(rule.tool)} for what they ask themselves, "
            "so `only for me` would allow nothing: leave it out."
        )
    if wished.sure:
        return await _save(core, event, rule)
    refused = rulebook.refused_to_make(core, rule, event.actor)
    if refused is not None:
        return refused
    async with core.db.read() as tx:
        first, *calls = (await rulebook.preview(tx, rule)).lines
    return "\n".join(
        [
            f"Not saved yet: {_told(rule)}",
            first,
            *(f"- {code(one, _CALL)}" for one in calls),
            "Send it again with `yes` at its end to save it.",
        ]
    )


def _for_itself(core: Core, rule: RuleRow) -> bool:
    """Whether the gate would let a rule that allows speak for who made it."""
    return any(one.for_own for one in rulebook.policies_of(core, rule))


async def _where(tx: Tx, place: Place, asked: Scope | None) -> tuple[Scope, str] | str:
    """The scope of a rule that is asked for here and its key, or why there is none."""
    match asked:
        case Scope.CHANNEL:
            return Scope.CHANNEL, place.channel_key
        case Scope.ORGANISATION:
            return Scope.ORGANISATION, f"{place.surface}:{place.organisation}"
        case Scope.SURFACE:
            return Scope.SURFACE, place.surface
        case None if not place.root:
            return Scope.CHANNEL, place.channel_key
        case Scope.CHAT if not place.root:
            return _NO_THREAD
        case _:
            chat = await chats.at_place(tx, place)
            return _NO_CHAT if chat is None else (Scope.CHAT, chat.id)


async def _save(core: Core, event: Command, rule: RuleRow) -> str:
    """Saves it, and looks whether it is there before it says so (row B67)."""
    try:
        rule = await rulebook.make(core, rule, by=event.actor, via=_via(event))
    except QuestionError as error:
        return str(error)
    listed = short_ids(await _listed(core, event.place))
    if rule.id not in listed:
        return (
            f"`{rule.id}` was saved, but it is not among the rules in force here, so do not rely "
            "on it: look with `rules`."
        )
    short = listed[rule.id]
    return f"Saved as `{short}`: {_told(rule)} `rules` lists it and `rules revoke {short}` ends it."


async def _revoke(core: Core, event: Command, word: str) -> str:
    typed = _ID.fullmatch(_typed(word))
    ids = await _listed(core, event.place) if typed else []
    match [one for one in ids if typed and one.startswith(f"rule_{typed[1]}")]:
        case []:
            named = f"{code(word, 40)} is no rule that is in force here" if word else "Which one"
            return f"{named}: give an id, as `rules` lists it."
        case [rule_id]:
            try:
                rule = await rulebook.revoke(core, rule_id, by=event.actor, via=_via(event))
            except QuestionError as error:
                return str(error)
            ended = _told(rule, here=False)
            return f"No longer in force: {ended} What it let run before is not called back."
        case _:
            return f"Several ids begin with {code(word, 40)}: give more of it."


async def _listed(core: Core, place: Place) -> list[str]:
    """The ids of the rules that `rules` lists here."""
    async with core.db.read() as tx:
        found = await scope.rules_in_force(tx, scope.Scope.of_channel(place), core.now())
    return [rule.id for rule, _ in found]


def _told(rule: RuleRow, *, here: bool = True) -> str:
    return code(sentence(rule, here=here), _TOLD)


def _typed(word: str) -> str:
    return word.strip().strip("`").casefold()


def _via(event: Command) -> str:
    return f"{event.place.surface} command"
