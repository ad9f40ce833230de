"""The whole product on Slack while it answers: what grows, what is shown beside the thread, and
what is left when the process, the stream or the person ends it (row B78)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic_ai.models.function import DeltaToolCalls

from bot.approvers import Policy
from bot.scripted import Reply
from bot.tool import tool
from storage.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.model import call
from tests.fakes.slack import FakeSlack, buttons_of, text_of
from tests.scenario.slack_product import ANA, BEN, OPS, POLICY, product
from tests.scenario.slack_world import Mode

ALONE = Policy(name="ops", approvers=frozenset({f"slack:T1/{ANA}"}), self_approval=True)


@dataclass(frozen=True)
class Paced(Reply):
    """A response whose text comes when the test gives it; None ends the text."""

    parts: tuple[Any, ...] = ()
    pieces: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)

    async def stream(self, position: int) -> AsyncIterator[str | DeltaToolCalls]:
        yield ""
        while (piece := await self.pieces.get()) is not None:
            yield piece
        async for rest in super().stream(position):
            if rest:
                yield rest

    def say(self, *pieces: str | None) -> None:
        for piece in pieces:
            self.pieces.put_nowait(piece)


@pytest.fixture(autouse=True)
def _every_piece_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.reply.LIVE_SECONDS", 0.0)


@pytest.fixture
def mortal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the process is a death: nobody waits for an answer that comes. (SQLite is left
    locked by a transaction that is cancelled as it begins: so there is none by then.)"""
    monkeypatch.setattr("bot.embedded.GRACE_SECONDS", 0.5)
    monkeypatch.setattr("bot.lease.BEAT_SECONDS", 3600.0)


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack(FakeClock()) as workspace:
        yield workspace


@dataclass
class Talk:
    """A thread as a person reads it."""

    slack: FakeSlack
    channel: str
    root: str

    @classmethod
    async def begun(cls, slack: FakeSlack, where: str) -> Talk:
        if where == "direct":
            return cls(slack, slack.direct_channel(ANA), await slack.direct(ANA, "why?"))
        return cls(slack, OPS, await slack.mention(ANA, OPS, "why?"))

    def read(self) -> list[str]:
        messages = self.slack.thread(self.channel, self.root)[1:]
        return [text_of(one).strip() for one in messages]

    async def reads(self, *texts: str) -> None:
        await self.slack.until(lambda: self.read() == list(texts), seconds=10)

    def statuses(self) -> list[str]:
        calls = self.slack.calls_of("agents.sessions.setStatus")
        return [str(one.args["status"]) for one in calls if one.args["thread_ts"] == self.root]

    async def shows(self, status: str) -> None:
        await self.slack.until(lambda: self.session() == status, seconds=10)

    def session(self) -> str:
        found = self.slack.world.sessions.get((self.channel, self.root), {})
        return str(found.get("status", ""))

    async def card(self) -> str:
        def found() -> str:
            thread = self.slack.thread(self.channel, self.root)
            return next((one["ts"] for one in thread if "Approve" in buttons_of(one)), "")

        return await self.slack.until(found, seconds=10)

    def streams(self) -> int:
        return len(self.slack.calls_of("chat.startStream"))


@pytest.mark.row("B78")
@pytest.mark.parametrize("mode", ["http", "socket"])
@pytest.mark.parametrize("where", ["direct", "channel"])
async def test_a_reply_grows_pauses_for_six_minutes_and_is_whole(
    sqlite_db: Database, slack: FakeSlack, mode: Mode, where: str
) -> None:
    answer = Paced()
    async with product(sqlite_db, answer, workspace=slack, mode=mode):
        talk = await Talk.begun(slack, where)
        answer.say("one, ")
        await talk.reads("one,")
        answer.say("two, ")
        await talk.reads("one, two,")
        slack.clock.advance(360)  # type: ignore[attr-defined]
        answer.say("three, ")
        await talk.reads("one, two, three,")
        answer.say("four.", None)
        await talk.reads("one, two, three, four.")
        await talk.shows("closed")
        assert talk.streams() == (1 if where == "direct" else 0)
        assert not slack.world.streaming(
            talk.channel, slack.thread(talk.channel, talk.root)[1]["ts"]
        )


@pytest.mark.usefixtures("mortal")
@pytest.mark.parametrize("where", ["direct", "channel"])
async def test_a_process_that_dies_in_the_middle_is_gone_on_for(
    sqlite_db: Database, slack: FakeSlack, where: str
) -> None:
    answer = Paced()
    async with product(sqlite_db, answer, workspace=slack):
        talk = await Talk.begun(slack, where)
        answer.say("one, ", "two, ")
        await talk.reads("one, two,")
    again = Paced()
    async with product(sqlite_db, again, workspace=slack):
        again.say("one, ")
        await talk.reads("one,")
        again.say("two, ", "three.", None)
        await talk.reads("one, two, three.")
        await talk.shows("closed")
    assert talk.streams() == (1 if where == "direct" else 0)


@pytest.mark.usefixtures("mortal")
async def test_a_process_that_dies_before_its_stream_is_recorded_leaves_one_message(
    sqlite_db: Database, slack: FakeSlack
) -> None:
    died = asyncio.Event()

    def crash(point: str) -> None:
        if point == "before record_delivery":
            died.set()
            raise RuntimeError("the process dies here")

    answer = Paced()
    async with product(sqlite_db, answer, workspace=slack):
        sqlite_db.points = crash
        talk = await Talk.begun(slack, "direct")
        answer.say("one, ")
        await asyncio.wait_for(died.wait(), 10)
    sqlite_db.points = lambda _point: None
    assert talk.read() == ["one,"]
    again = Paced()
    async with product(sqlite_db, again, workspace=slack):
        again.say("one, ", "two, ", "three.", None)
        await talk.reads("one, two, three.")
        await talk.shows("closed")
    assert talk.streams() == 1


@pytest.mark.row("L3")
@pytest.mark.parametrize("where", ["direct", "channel"])
async def test_the_stop_button_stops_the_answer(
    sqlite_db: Database, slack: FakeSlack, where: str
) -> None:
    answer = Paced()
    async with product(sqlite_db, answer, "On we go.", workspace=slack):
        talk = await Talk.begun(slack, where)
        answer.say("one, ")
        await talk.reads("one,")
        await talk.shows("processing")
        await slack.press_stop(ANA, talk.channel, talk.root)
        await talk.reads("Stopped.")
        await talk.shows("closed")


async def test_who_may_not_stop_is_told_and_the_answer_goes_on(
    sqlite_db: Database, slack: FakeSlack
) -> None:
    answer = Paced()
    async with product(sqlite_db, answer, workspace=slack) as one:
        talk = await Talk.begun(slack, "channel")
        answer.say("one, ")
        await talk.shows("processing")
        await slack.press_stop("U_CYN", talk.channel, talk.root)
        await one.told("U_CYN", "Only the person who asked the agent")
        answer.say("two.", None)
        await talk.reads("one, two.")
        await talk.shows("closed")


async def test_a_token_that_is_refused_in_the_middle_loses_nothing(
    sqlite_db: Database, slack: FakeSlack
) -> None:
    answer = Paced()
    async with product(sqlite_db, answer, workspace=slack):
        talk = await Talk.begun(slack, "direct")
        answer.say("one, ")
        await talk.reads("one,")
        slack.fail_next("chat.appendStream", "token_revoked")
        slack.fail_next("chat.update", "token_revoked")
        answer.say("two, ")
        await slack.until(lambda: len(slack.refused) >= 2)
        answer.say("three.", None)
        await talk.reads("one, two, three.")


async def test_where_slack_has_no_agents_nothing_else_is_missing(
    sqlite_db: Database, slack: FakeSlack
) -> None:
    for method in ("chat.startStream", "agents.sessions.setStatus"):
        slack.fail_next(method, "feature_disabled", times=99)
    answer = Paced()
    async with product(sqlite_db, answer, workspace=slack):
        talk = await Talk.begun(slack, "direct")
        answer.say("one, ")
        await talk.reads("one,")
        answer.say("two.", None)
        await talk.reads("one, two.")
    assert talk.streams() == 1
    assert len(slack.calls_of("agents.sessions.setStatus")) == 1


@pytest.mark.parametrize("where", ["direct", "channel"])
@pytest.mark.parametrize("restarted", [False, True])
async def test_around_an_approval_the_session_works_waits_works_and_is_closed(
    sqlite_db: Database, slack: FakeSlack, where: str, restarted: bool
) -> None:
    approver, policy = (ANA, ALONE) if where == "direct" else (BEN, POLICY)
    answer = Paced(parts=(call("refund", order="A1"),))
    gate = asyncio.Event()

    @tool
    async def refund(order: str) -> str:
        """Refunds an order."""
        await gate.wait()
        return f"refunded {order}"

    async def approved(talk: Talk) -> None:
        await slack.click(approver, talk.channel, await talk.card(), "Approve")
        await talk.shows("processing")
        gate.set()
        await slack.until(lambda: "Done." in talk.read(), seconds=10)
        await talk.shows("closed")

    steps = (answer, "Done.")
    given: dict[str, Any] = {"tools": [refund], "policies": [policy], "workspace": slack}
    async with product(sqlite_db, *steps, **given):
        talk = await Talk.begun(slack, where)
        answer.say("Let me ")
        await talk.reads("Let me")
        await talk.shows("processing")
        answer.say("refund it.", None)
        await talk.card()
        await talk.shows("suspended")
        if not restarted:
            await approved(talk)
    if restarted:
        async with product(sqlite_db, *steps, **given):
            await approved(talk)
    assert talk.statuses() == ["processing", "suspended", "processing", "closed"]
    assert talk.read()[0] == "Let me refund it."
    assert talk.read().count("Done.") == 1


async def test_a_command_in_a_direct_message_is_answered_and_begins_no_chat(
    sqlite_db: Database, slack: FakeSlack
) -> None:
    async with product(sqlite_db, workspace=slack) as one:
        await slack.direct(ANA, "pending")
        await one.told(ANA, "Nothing waits")
        assert not one.model.requests
