"""Telling people of what they would not see otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from bot.approvers import askers_of, is_group, unreachable
from bot.core import Core, Job
from bot.markdown import code
from bot.question import new_nonce
from bot.reply import say
from bot.surface import Place, person_of
from storage import audit, messages, outbox, seen
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.database import Tx


async def notify_approvers(
    core: Core,
    tx: Tx,
    chat: ChatRow,
    *,
    subject: str,
    deciders: Collection[str],
    call_id: str | None,
) -> None:
    """A copy of the card `subject` to each decider who is not in the thread: who neither asked the
    agent nor wrote there. `deciders` as of `audience`; groups, and those whom no surface reaches,
    are left out. A copy settles as every other does, and holds `call_id`
    until it did."""
    for place in await strangers(core, tx, chat, deciders):
        await outbox.post(
            tx,
            place,
            nonce=new_nonce(),
            subject=subject,
            chat_id=chat.id,
            call_id=call_id,
            now=core.now(),
        )
        await core.wake(tx, Job.DELIVER, place.channel_key)


async def strangers(core: Core, tx: Tx, chat: ChatRow, deciders: Collection[str]) -> list[Place]:
    """Where those of these people are written to alone who are not in the thread; on another
    surface only who is not reached on the chat's own."""
    who = core.policies.who
    there = {chat.requester, *await messages.authors(tx, chat.id)}
    people = sorted(one for one in set(deciders) - there if not is_group(one))
    found = [(one, place) for one in people if (place := _direct(core, chat, one)) is not None]
    reached = {who(one) for one in there}
    reached |= {who(one) for one, place in found if place.surface == chat.surface}
    return [
        place for one, place in found if place.surface == chat.surface or who(one) not in reached
    ]


async def tell_unreachable(core: Core, tx: Tx, chat: ChatRow, why: str) -> None:
    """Tells the person who began the chat that nothing gets to its thread (`why`: as of
    DeliveryError.unreachable); once for a channel and a reason, whatever fails there."""
    place = _direct(core, chat, chat.requester)
    if place is None:
        return
    what = "\n".join((chat.place.channel_key, chat.requester, why))
    key = f"unreachable:{hashlib.sha256(what.encode()).hexdigest()}"
    if not await seen.first_time(tx, (key,), core.now()):
        return
    link = core.surfaces[chat.surface].link(chat.place)
    thread = f"[our thread]({link})" if link else "our thread"
    await _notice(core, tx, chat, place, f"I cannot go on in {thread}: {why}.")


async def tell_impossible(core: Core, tx: Tx, chat: ChatRow, call: CallRow, why: str) -> None:
    """Tells the thread that nobody could approve a call, if that is why it was refused, once for
    all such calls of a response; and the admins, each in a direct message, at most once a week for
    a policy and a tool (storage.seen)."""
    policies = core.policies
    policy, askers = policies.of_call(chat.agent, call), askers_of(call, chat)
    if why != unreachable(policy, askers=askers, tool=call.name, who=policies.who):
        return
    told = unreachable(policy, askers=askers, tool=code(call.name), who=policies.who)
    what = "\n".join((policy.name, call.server, call.name))
    key = f"nobody:{hashlib.sha256(what.encode()).hexdigest()}"
    await say(core, tx, chat, f"{key[:40]}:{call.message_id}", f"{told} The call was refused.")
    if not policies.admins or not await seen.first_time(tx, (key,), core.now()):
        return
    await audit.record(
        tx,
        "admins_told",
        now=core.now(),
        chat_id=chat.id,
        call_id=call.id,
        policy=policy.name,
        admins=sorted(policies.admins),
        why=why,
    )
    for admin in sorted(policies.admins):
        person = person_of(admin)
        surface = None if person is None else core.surfaces.get(person.surface)
        if person is None or surface is None:
            continue
        place = surface.direct(person.organisation, person.user)
        if place is None:
            continue
        text = f"{told} The call was refused: interlock.toml says who may approve."
        await _notice(core, tx, chat, place, text)


async def _notice(core: Core, tx: Tx, chat: ChatRow, place: Place, text: str) -> None:
    nonce = new_nonce()
    await outbox.post(
        tx,
        place,
        nonce=nonce,
        subject=f"notice:{nonce}",
        chat_id=chat.id,
        text=text,
        now=core.now(),
    )
    await core.wake(tx, Job.DELIVER, place.channel_key)


def _direct(core: Core, chat: ChatRow, key: str) -> Place | None:
    """Where a person of the chat's own organisation, or of another surface, is written to alone."""
    person = person_of(key)
    surface = None if person is None else core.surfaces.get(person.surface)
    if person is None or surface is None:
        return None
    if person.surface == chat.surface and person.organisation != chat.organisation:
        return None
    return surface.direct(person.organisation, person.user)
