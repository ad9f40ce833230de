"""The home page of a person: what waits for them, what runs for them, what was decided lately,
their standing rules.

A page is drawn from rows when it is shown. Whoever opened theirs within a day has it drawn anew, by
the outbox, whenever something that concerns them opens, changes or settles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bot import drawing, home_rules
from bot.approvers import askers_of, may_speak, may_stop
from bot.card import draw_task
from bot.core import Core
from bot.listing import may_decide
from bot.open_homes import draw_anew
from bot.surface import Actor, Home, Item
from storage import homes, scope
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.database import Tx
from storage.homes import Concerned, HomeRow
from storage.scope import Asked, Scope

PAGE: Final = 10  # questions and tasks of one page
DECIDED: Final = 10
DECIDED_SECONDS: Final = 7 * 86_400.0
OUTSIDER: Final = "This page is for people of this organisation."


async def show(core: Core, actor: Actor, organisation: str, page: int | None) -> Home:
    """The page; None: the one that was open. A person of another organisation, or a bot, gets a
    sentence and nothing else. Raises DatabaseUnavailable."""
    if not may_speak(actor) or actor.organisation != organisation:
        return Home(refusal=OUTSIDER)
    surface = core.surfaces.get(actor.surface)
    if page is not None and (surface is None or surface.keeps_homes):
        row = HomeRow(actor.surface, organisation, actor.user, page, core.now())
        async with core.db.transaction("open_home") as tx:
            await homes.opened(tx, row)
    async with core.db.read() as tx:
        if page is None:
            before = await homes.get(tx, actor.surface, organisation, actor.user)
            page = 1 if before is None else before.page
        return await _page(
            core, tx, actor, Scope.of_organisation(actor.surface, organisation), page
        )


async def redraw(core: Core, tx: Tx, subject: str) -> None:
    """What a card of questions or of a task shows has changed: has the open home pages of those
    whom it concerns drawn anew."""
    keys: set[str] = set()
    for one in await homes.concerned(tx, subject):
        ours = f"{one.surface}:{one.organisation}/"
        found = _people(core, one, subject.startswith("task:"))
        keys |= {key for key in found if key.startswith(ours)}
    await draw_anew(core, tx, keys)


def _people(core: Core, one: Concerned, task: bool) -> set[str]:
    """The keys of those whom a call may concern: who asked for it, who decides about it."""
    keys = {one.requester, *(one.askers or ()), *(one.audience or {}).get("deciders", ())}
    if task:  # the approvers of an agent may stop what it began
        for policy in core.policies.policies:
            keys |= policy.approvers if policy.of_agent(one.agent) else set()
    return keys


async def _page(core: Core, tx: Tx, actor: Actor, where: Scope, page: int) -> Home:
    asked = [one for one in await scope.open_questions(tx, where) if may_decide(core, one, actor)]
    asked.sort(key=_asked_when)
    running = [
        (call, chat)
        for call, chat in await scope.running(tx, where)
        if call.task is not None and _concerns(core, call, chat, actor)
    ]
    since = core.now() - DECIDED_SECONDS
    decided = await homes.decided(tx, where, actor.key, since=since, limit=DECIDED)
    rules, more_rules = await home_rules.standing(core, tx, actor, where)
    pages = max(1, -(-(len(asked) + len(running)) // PAGE))
    page = min(max(1, page), pages)
    skip = (page - 1) * PAGE
    here = asked[skip : skip + PAGE]
    skip = max(0, skip - len(asked))
    return Home(
        waiting=tuple(
            [await _question(core, tx, one, one.question.opened_at, may=True) for one in here]
        ),
        running=_tasks(core, running[skip : skip + PAGE - len(here)], actor),
        decided=tuple(
            [
                await _question(core, tx, one, one.question.settled_at or 0.0, may=False)
                for one in decided
            ]
        ),
        rules=rules,
        more_rules=more_rules,
        maker=home_rules.is_maker(core, actor),
        page=page,
        pages=pages,
    )


def _asked_when(asked: Asked) -> tuple[float, int, int, int]:
    """Oldest first; what was asked at once, in the order of the calls."""
    call = asked.call
    return asked.question.opened_at, call.message_id, call.position, asked.question.ordinal


async def _question(core: Core, tx: Tx, asked: Asked, since: float, *, may: bool) -> Item:
    card = await drawing.card(tx, asked.question, asked.call, asked.chat)
    return Item(card=card, link=_link(core, asked.chat), since=since, may=may)


def _tasks(core: Core, found: Sequence[tuple[CallRow, ChatRow]], actor: Actor) -> tuple[Item, ...]:
    return tuple(
        Item(
            card=draw_task(call, chat.agent, 0),
            link=_link(core, chat),
            since=call.claimed_at or call.created_at,
            may=_may_stop(core, chat, actor),
        )
        for call, chat in found
    )


def _concerns(core: Core, call: CallRow, chat: ChatRow, actor: Actor) -> bool:
    who = core.policies.who
    return who(actor.key) in map(who, askers_of(call, chat)) or _may_stop(core, chat, actor)


def _may_stop(core: Core, chat: ChatRow, actor: Actor) -> bool:
    return may_stop(actor, agent=chat.agent, requester=chat.requester, policies=core.policies)


def _link(core: Core, chat: ChatRow) -> str | None:
    surface = core.surfaces.get(chat.surface)
    return None if surface is None else surface.link(chat.place)
