"""Copies of a card for approvers who are not in the thread, and what an outage does to both."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from bot.approvers import Policy
from bot.chat import Chat
from bot.closing import redraw
from bot.core import Job
from bot.deliver import LEASE_SECONDS, Deliverer
from bot.question import Question, Verb
from bot.reply import reply_subject
from bot.surface import Actor, Content, Decision, DeliveryError, Place, Posted
from storage import chats, messages, outbox
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.surface import MemorySurface
from tests.world import ANA, BEN, CYN, World, audited, copies, effect, only_question, world

DAN = Actor("slack", "T1", "DAN", "dan")
EVERYBODY = Policy(
    name="ops",
    approvers=frozenset(
        {ANA.key, BEN.key, CYN.key, DAN.key, "slack:T2/EVE", "teams:T1/FAY", "console:local/gus"}
    ),
)
BEN_ALONE = Policy(name="ops", approvers=frozenset({BEN.key}))
ARCHIVED = DeliveryError("is_archived", unreachable="its channel is archived")
LOCKED_OUT = DeliveryError("token_revoked", locked_out=True)
DISABLED = DeliveryError("user_disabled", permanent=True)
HERE = "C1"


@dataclass
class Slack(MemorySurface):
    """People can be written to alone; `broken` channels take nothing, and "" is all of them."""

    directs: bool = True
    broken: dict[str, DeliveryError] = field(default_factory=dict)
    tried: list[str] = field(default_factory=list)

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        self._check(place)
        return await super().post(place, content, nonce)

    async def edit(self, place: Place, message_id: str, content: Content) -> None:
        self._check(place)
        await super().edit(place, message_id, content)

    def _check(self, place: Place) -> None:
        self.tried.append(place.channel)
        error = self.broken.get("") or self.broken.get(place.channel)
        if error is not None:
            raise error

    def told(self, user: str) -> list[str]:
        """The texts that a person was written to alone."""
        found = [one for one in self.shown.values() if one.place.channel == f"D-{user}"]
        return [getattr(one.content, "text", "a card") for one in found]


def here(db: Database, *steps: Any, policy: Policy = BEN_ALONE) -> tuple[World, Slack]:
    surface = Slack()
    return world(db, *steps, tools=[effect([])], policies=[policy], surface=surface), surface


async def pressed(w: World, question: Question, by: Actor, place: Place) -> bool:
    """Whether Approve counted there."""
    decision = Decision(
        nonce=question.nonce, verb=Verb.APPROVE, actor=by, via="button", place=place
    )
    return (await w.service.decide(decision)).done


async def started_again(w: World) -> World:
    again = await w.restart()
    await again.settle()
    return again


async def say(w: World, chat: Chat, text: str) -> None:
    """A reply of the agent in the thread of the chat."""
    async with w.db.transaction("test_say") as tx:
        row = await chats.get(tx, chat.id)
        assert row is not None
        await outbox.post(
            tx, row.place, nonce=text, subject=f"reply:{text}", text=text, now=w.clock.now()
        )
        await w.core.wake(tx, Job.DELIVER, row.place.channel_key)


# Copies


async def test_those_get_a_copy_who_may_decide_and_are_not_in_the_thread(db: Database) -> None:
    w, _ = here(db, "Hello.", call("refund"), policy=EVERYBODY)
    chat = await w.chat("hi", by=DAN)
    await w.settle()
    await chat.say("refund it", by=ANA)
    await w.settle()

    channels = [copy.channel for copy in await copies(chat, await only_question(chat))]

    assert sorted(channels) == [HERE, "D-BEN", "D-CYN"]


async def test_who_wrote_long_ago_and_who_opened_the_thread_are_in_it(db: Database) -> None:
    w, _ = here(db, "Hello.", call("refund"), policy=EVERYBODY)
    chat = await w.chat(None, by=CYN)
    await chat.say("hi", by=DAN)
    await w.settle()
    await chat.say("refund it", by=ANA)
    await w.settle()

    channels = [copy.channel for copy in await copies(chat, await only_question(chat))]

    assert sorted(channels) == [HERE, "D-BEN"]


@pytest.mark.row("B38")
async def test_a_decision_by_a_program_settles_every_copy(db: Database) -> None:
    w, slack = here(db, call("refund"), "Done.", policy=EVERYBODY)
    chat = await w.chat()
    await w.settle()
    assert [card.open for card in slack.cards()] == [True] * 4

    await (await only_question(chat)).approve(by=BEN)
    await w.settle()

    assert [card.open for card in slack.cards()] == [False] * 4
    assert slack.replies() == ["Done."]


@pytest.mark.row("B30")
async def test_a_click_in_a_direct_message_counts_before_its_post_is_on_record(
    db: Database,
) -> None:
    w, slack = here(db, call("refund"), "Done.")
    slack.failures += [DeliveryError("the line dropped", maybe_sent=True)] * 2
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)
    assert await copies(chat, question) == []
    there = next(one.place for one in slack.shown.values() if one.place.channel == "D-BEN")

    assert not await pressed(w, question, CYN, there)
    assert await pressed(w, question, BEN, there)
    w.clock.advance(LEASE_SECONDS)
    await w.settle()

    assert [card.open for card in slack.cards()] == [False, False]
    assert slack.replies() == ["Done."]


async def test_nobody_decides_from_a_place_where_no_copy_is(db: Database) -> None:
    w, _ = here(db, call("refund"))
    chat = await w.chat()
    await w.settle()
    question = await only_question(chat)

    for elsewhere in (Place("slack", "T1", "D-BEN", "x"), Place("slack", "T2", "D-BEN", "x")):
        assert not await pressed(w, question, BEN, elsewhere)

    refused = await audited(chat, "refused")
    assert [row.detail["why"] for row in refused] == ["another thread"] * 2


@pytest.mark.row("B39")
async def test_a_copy_that_is_posted_as_its_question_is_decided_holds_the_call_until_then(
    db: Database,
) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)], surface=Slack())
    chat = await w.chat()
    await chat.complete()  # both copies wait to be posted
    to_ben = "slack:T1/BEN"
    async with db.transaction("test_claim") as tx:
        row = await outbox.claim(
            tx, to_ben, now=w.clock.now(), until=w.clock.now() + 60, quiet=False
        )
    assert row is not None
    await (await only_question(chat)).approve(by=BEN)
    await w.settle()
    assert effects == []

    await Deliverer(w.core)._send(row, time.monotonic())
    await w.settle()  # no time has passed

    assert effects == ["refund A1"]
    assert [card.open for card in w.surface.cards()] == [False, False]


@pytest.mark.row("B33")
@pytest.mark.parametrize("error", [DISABLED, ARCHIVED], ids=str)
async def test_a_copy_that_cannot_be_delivered_is_on_record_and_stops_no_other(
    error: DeliveryError, db: Database
) -> None:
    w, slack = here(db, call("refund"), "Done.", policy=EVERYBODY)
    slack.broken["CYN"] = error
    chat = await w.chat()
    await w.settle()
    lost = await audited(chat, "not_delivered")
    assert [row.detail["error"] for row in lost] == [str(error)]

    await (await only_question(chat)).approve(by=BEN)
    await w.settle()

    assert slack.tried.count("CYN") == 1
    assert slack.told("ANA") == []
    assert slack.replies() == ["Done."]


# Outages


@pytest.mark.row("B33")
async def test_the_requester_is_told_once_of_a_channel_and_a_reason(db: Database) -> None:
    w, slack = here(db, "One.", "Two.", "Three.")
    slack.broken[HERE] = ARCHIVED
    chat = await w.chat()
    await w.chat()
    await w.settle()
    w = await started_again(w)
    await w.here(chat).say("and?", by=ANA)
    await w.settle()
    assert slack.told("ANA") == ["I cannot go on in our thread: its channel is archived."]

    await w.chat(by=CYN)
    await w.settle()
    slack.broken[HERE] = DeliveryError("not_in_channel", unreachable="I am not in its channel")
    await w.here(chat).say("and now?", by=ANA)
    await w.settle()
    assert slack.told("CYN") == ["I cannot go on in our thread: its channel is archived."]
    assert slack.told("ANA")[1:] == ["I cannot go on in our thread: I am not in its channel."]


async def test_a_notice_that_cannot_be_delivered_makes_no_other_notice(db: Database) -> None:
    w, slack = here(db, "One.")
    slack.broken[""] = ARCHIVED
    chat = await w.chat()
    await w.settle()
    assert slack.tried == [HERE, "ANA"]
    assert len(await audited(chat, "not_delivered")) == 2


@pytest.mark.parametrize("outage", [ARCHIVED, LOCKED_OUT], ids=["channel", "organisation"])
async def test_what_an_outage_kept_back_and_still_counts_goes_out_after_the_next_start(
    outage: DeliveryError, db: Database
) -> None:
    w, slack = here(db, ["Let me see.", call("refund"), call("refund", order="A2")])
    slack.broken[""] = outage
    chat = await w.chat()
    await w.settle()
    (settled,) = [q for q in await chat.pending_questions() if q.arguments["order"] == "A1"]
    await settled.decline(by=BEN)
    await w.settle()
    assert slack.cards() == []

    del slack.broken[""]
    w = await started_again(w)
    await started_again(w)

    shown = [(card.open, card.arguments[0].value) for card in slack.cards()]
    assert shown == [(True, "A2"), (True, "A2")]
    assert slack.posts == 2


async def test_an_outage_that_goes_on_is_tried_once_at_each_start(db: Database) -> None:
    w, slack = here(db, call("refund"))
    slack.broken[""] = LOCKED_OUT
    await w.chat()
    await w.settle()
    for start in range(1, 4):
        assert sorted(slack.tried) == ["BEN"] * start + [HERE] * start
        w = await started_again(w)


@pytest.mark.row("B38")
async def test_the_last_redraw_of_each_copy_is_made_good(db: Database) -> None:
    w, slack = here(db, call("refund"), "Done.")
    chat = await w.chat()
    await w.settle()
    slack.broken[""] = LOCKED_OUT
    await (await only_question(chat)).approve(by=BEN)
    await w.settle()
    assert [card.open for card in slack.cards()] == [True, True]

    del slack.broken[""]
    await started_again(w)

    assert [card.open for card in slack.cards()] == [False, False]
    assert [one.edits for one in slack.shown.values()] == [1, 1]


async def test_of_many_lost_redraws_of_one_message_the_last_is_made_good(db: Database) -> None:
    w, slack = here(db, "Hello.")
    chat = await w.chat()
    await w.settle()
    slack.broken[""] = LOCKED_OUT
    for text in ("One.", "Two.", "Three."):
        async with db.transaction("test_rewrite") as tx:
            row = await outbox.post_of(tx, await _reply_subject(w, chat))
            assert row is not None
            await outbox.rewrite(tx, row.id, text)
            await redraw(w.core, tx, row.subject)
        await w.settle()

    del slack.broken[""]
    await started_again(w)

    assert slack.replies() == ["Three."]
    assert [one.edits for one in slack.shown.values()] == [1]


async def _reply_subject(w: World, chat: Chat) -> str:
    async with w.db.read() as tx:
        row = await chats.get(tx, chat.id)
        last = await messages.last(tx, chat.id)
    assert row is not None
    assert last is not None
    assert last.position is not None
    return reply_subject(row, last.position)


async def test_what_failed_for_another_reason_is_not_tried_again(db: Database) -> None:
    w, slack = here(db, call("refund"))
    slack.broken[""] = DeliveryError("invalid_blocks", permanent=True)
    await w.chat()
    await w.settle()
    del slack.broken[""]
    await started_again(w)
    assert slack.cards() == []


@pytest.mark.parametrize("outage", [ARCHIVED, LOCKED_OUT], ids=["channel", "organisation"])
async def test_an_outage_that_ends_is_made_good_when_something_is_taken_there(
    outage: DeliveryError, db: Database
) -> None:
    w, slack = here(db, call("refund"))
    slack.broken |= {HERE: outage, "BEN": DISABLED}
    chat = await w.chat()
    await w.settle()
    assert slack.cards() == []

    del slack.broken[HERE]
    await say(w, chat, "Hello.")
    await w.settle()
    await say(w, chat, "Once more.")
    await w.settle()

    assert [card.open for card in slack.cards()] == [True]
    assert slack.posts == 3 + len(slack.told("ANA"))


async def test_what_is_taken_in_one_channel_says_nothing_of_another(db: Database) -> None:
    w, slack = here(db, call("refund"))
    slack.broken |= {HERE: ARCHIVED, "C2": ARCHIVED}
    chat = await w.chat()
    there = await Chat.open(w.core, Place("slack", "T1", "C2", "1.0"), agent="agent", requester=ANA)
    await say(w, there, "Hello.")
    await w.settle()
    tried = slack.tried.count(HERE)

    slack.broken.clear()
    await say(w, there, "Hello again.")
    await w.settle()

    assert slack.replies()[-1] == "Hello again."
    assert slack.tried.count(HERE) == tried
    assert [copy.channel for copy in await copies(chat, await only_question(chat))] == ["D-BEN"]
