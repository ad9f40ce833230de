"""The standing rules on a person's home page, and the form in which they make one there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bot import rulebook
from bot.approvers import may_make
from bot.core import Core
from bot.field import AnswerError, Choice, Field, coerce
from bot.markdown import moment
from bot.question import NotAllowed, QuestionError
from bot.remember import UNTIL, USES, seconds_of, sentence, used
from bot.rule_grammar import Unread, conditions
from bot.rule_wish import NOTE, Wish, rule_of
from bot.rules import Effect
from bot.surface import Actor, Form, NewRule, Response, Standing
from storage import audit, scope
from storage.chats import ChatRow
from storage.database import Tx
from storage.place import Place
from storage.redact import mask
from storage.rules import RuleRow, Scope

SHOWN: Final = 8  # rules on one page
_GONE: Final = "There is no such rule in force here."


# On the page


async def standing(
    core: Core, tx: Tx, actor: Actor, where: scope.Scope
) -> tuple[tuple[Standing, ...], int]:
    """The rules that this person made or may revoke, newest first, and how many more there are."""
    who = core.policies.who
    found = []
    for rule, chat in reversed(await scope.rules_in_force(tx, where, core.now())):
        may = rulebook.refused_to_revoke(core, rule, actor, chat) is None
        if may or who(rule.created_by) == who(actor.key):
            found.append((rule, chat, may))
    shown = tuple(_standing(core, *one) for one in found[:SHOWN])
    return shown, len(found[SHOWN:])


def is_maker(core: Core, actor: Actor) -> bool:
    """Whether a policy names this person as one who makes rules."""
    if actor.by_name_only:
        return False
    who = core.policies.who
    return any(may_make(one, actor.key, who=who) for one in core.policies.policies)


def _standing(core: Core, rule: RuleRow, chat: ChatRow | None, may: bool) -> Standing:
    about = [f"{rule.created_name} said so on {moment(rule.created_at)}; {used(rule)}"]
    about += [one for one in (rulebook.suspended(core, rule), mask(rule.note or "")) if one]
    return Standing(
        id=rule.id,
        sentence=sentence(rule, here=rule.scope == Scope.ORGANISATION),
        about="; ".join(about),
        link=_link(core, rule, chat),
        may=may,
    )


def _link(core: Core, rule: RuleRow, chat: ChatRow | None) -> str | None:
    """The address of the thread or channel where the rule holds."""
    place = None if chat is None else chat.place
    if rule.scope == Scope.CHANNEL:
        surface, _, rest = rule.scope_key.partition(":")
        organisation, _, channel = rest.partition("/")
        place = Place(surface, organisation, channel, "")
    if place is None or (surface_of := core.surfaces.get(place.surface)) is None:
        return None
    return surface_of.link(place)


async def revoke(
    core: Core, rule_id: str, actor: Actor, organisation: str, *, via: str
) -> Response:
    """Ends a rule of this organisation for somebody who may. Raises DatabaseUnavailable."""
    async with core.db.read() as tx:
        where = scope.Scope.of_organisation(actor.surface, organisation)
        found = await scope.rules_in_force(tx, where, core.now())
    if rule_id not in [rule.id for rule, _ in found]:
        return Response(done=False, sentence=_GONE)
    try:
        rule = await rulebook.revoke(core, rule_id, by=actor, via=via)
    except QuestionError as error:
        return Response(done=False, sentence=str(error))
    return Response(done=True, sentence=f"No longer in force: {sentence(rule, here=False)}")


# The form


async def form(core: Core, actor: Actor, organisation: str) -> Form:
    """What a rule says, to be filled in."""
    try:
        return Form(card=None, fields=await _fields(core, actor, organisation))
    except QuestionError as error:
        return Form(card=None, refusal=str(error))


async def take(core: Core, event: NewRule) -> Response:
    """Shows what the rule would do, or saves it. Raises DatabaseUnavailable."""
    actor = event.actor
    try:
        fields = await _fields(core, actor, event.organisation)
    except QuestionError as error:
        if event.sure:
            await _refused(core, event, str(error))
        return Response(done=False, sentence=str(error))
    try:
        wish = _wish(coerce(fields, event.answer, lenient=True))
        assert wish.scope is not None
        key = actor.surface
        if wish.scope is Scope.ORGANISATION:
            key = f"{actor.surface}:{event.organisation}"
        rule = await rule_of(core, wish, wish.scope, key, actor)
        if event.sure:
            rule = await rulebook.make(core, rule, by=actor, via=event.via)
            return await _saved(core, rule, event.organisation)
        refused = rulebook.refused_to_make(core, rule, actor)
        if refused is not None:
            raise NotAllowed(refused)
        async with core.db.read() as tx:
            shown = await rulebook.preview(tx, rule)
    except AnswerError as error:
        return Response(done=False, sentence=str(error), errors=error.errors)
    except QuestionError as error:
        return Response(done=False, sentence=str(error))
    return Response(done=True, sentence=f"{sentence(rule)}\n{shown.sentence}")


async def _refused(core: Core, event: NewRule, why: str) -> None:
    """Puts on record that somebody tried who has no such form."""
    async with core.db.transaction("refuse_rule") as tx:
        await audit.record(
            tx, "refused", now=core.now(), actor=event.actor.key, via=event.via, why=why
        )


async def _saved(core: Core, rule: RuleRow, organisation: str) -> Response:
    """That it is in force, once that was looked up (row B67)."""
    async with core.db.read() as tx:
        where = scope.Scope.of_organisation(rule.scope_key.partition(":")[0], organisation)
        found = await scope.rules_in_force(tx, where, core.now())
    if rule.id in [one.id for one, _ in found]:
        return Response(done=True, sentence=f"Saved: {sentence(rule)}")
    why = f"{rule.id} was saved, but it is not among the rules in force: do not rely on it."
    return Response(done=False, sentence=why)


async def _fields(core: Core, actor: Actor, organisation: str) -> tuple[Field, ...]:
    """Raises QuestionError."""
    if actor.organisation != organisation or not is_maker(core, actor):
        raise NotAllowed("You are not among the rule makers of any policy, so ask one of them.")
    tools = sorted({tool.name for one in core.agents.values() for tool in await one.offered()})
    if not tools:
        raise QuestionError("No tool is known here now, so there is nothing to make a rule about.")
    effects = [
        Choice(Effect.ALLOW.value, "It runs without asking"),
        Choice(Effect.ASK.value, "It is asked about"),
        Choice(Effect.DENY.value, "It is refused"),
    ]
    scopes = [
        Choice(Scope.ORGANISATION.value, "In this whole workspace"),
        Choice(Scope.SURFACE.value, f"Everywhere on {actor.surface.capitalize()}"),
    ]
    return (
        Field("tool", title="Tool", choices=tools),
        Field("effect", title="What becomes of its calls", choices=effects),
        Field(
            "when",
            title="Only when",
            description="A condition on each line, such as amount>=100, env=prod, host in a,b or "
            "path under /srv. Without one it is about every call.",
            required=False,
            multiline=True,
            max_length=1_000,
        ),
        Field("where", title="Where", choices=scopes, default=Scope.ORGANISATION.value),
        UNTIL,
        USES,
        Field("note", title="Note, for whoever reads it later", required=False, max_length=NOTE),
    )


def _wish(given: Mapping[str, Any]) -> Wish:
    """What was filled in. Raises bot.field.AnswerError."""
    try:
        tests = conditions(given.get("when") or "")
    except Unread as unread:
        raise AnswerError({"when": str(unread)}) from unread
    return Wish(
        tool=given["tool"],
        effect=Effect(given["effect"]),
        conditions=tests,
        scope=Scope(given["where"]),
        seconds=seconds_of(given["until"]),
        uses=given.get("uses"),
        note=given.get("note") or "",
    )
