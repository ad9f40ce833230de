"""The Slack surface against the strict fake: the real Bolt app, over signed HTTP and a socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal
from urllib.parse import urlencode

import pytest
from aiohttp import web

from adapters.slack import limits, open_surface, sockets
from adapters.slack.transport import SlackSurface
from bot.card import Argument, Card, CardState, Kind
from bot.field import AnswerError, Choice, Field, FieldType, coerce
from bot.secrets import ConfigError
from bot.surface import (
    Actor,
    Command,
    Decision,
    DeliveryError,
    Look,
    Message,
    Place,
    Reply,
    Response,
    Verb,
)
from storage.database import DatabaseUnavailable
from tests.fakes.clock import FakeClock
from tests.fakes.slack import (
    APP_TOKEN,
    BOT_TOKEN,
    SIGNING_SECRET,
    TEAM,
    FakeSlack,
    buttons_of,
    delivery,
    text_of,
)

Mode = Literal["http", "socket"]
COLOURS = (Choice("r", "Red", "Like a rose"), Choice("g", "Green", "Like grass"))


def card(kind: Kind = Kind.APPROVAL, **given: Any) -> Card:
    base: dict[str, Any] = {
        "nonce": "n0nce",
        "version": 1,
        "state": CardState.OPEN,
        "title": "ops wants to run refund",
        "agent": "ops",
        "tool": "refund",
        "deciders": (f"slack:{TEAM}/U_ANA",),
    }
    return Card(kind=kind, **(base | given))


APPROVAL = card(arguments=(Argument("order", "4711"),), remember="Approve and remember here")
FORM = card(Kind.FORM, fields=(Field("amount", FieldType.INTEGER, maximum=100), Field("why")))
ASK = card(Kind.FORM, choosing=True, fields=(Field("q1", choices=COLOURS, allow_other=True),))
PAGE = card(Kind.PAGE, message="Log in first.", url="https://login.test/auth?x=1")


class StubEntry:
    """The product as the adapter sees it: takes everything, decides by the real coercion."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.decisions: list[Decision] = []
        self.looks: list[tuple[str, Verb, Actor, Place | None]] = []
        self.seen: set[str] = set()
        self.card = APPROVAL
        self.refusal = ""
        self.failing = 0
        self.pause: Callable[[], Awaitable[object]] | None = None
        self.answer: Response | None = None

    async def message(self, event: Message) -> bool:
        await self._trouble()
        new = not self.seen.intersection(event.keys)
        self.seen.update(event.keys)
        if new:
            self.messages.append(event)
        return new

    async def decide(self, event: Decision) -> Response:
        await self._trouble()
        self.decisions.append(event)
        if self.answer is not None:
            return self.answer
        if event.verb is Verb.ANSWER:
            try:
                coerce(self.card.fields, event.response, lenient=True)
            except AnswerError as error:
                return Response(done=False, errors=error.errors)
        return Response(done=True)

    async def look(
        self, nonce: str, verb: Verb, actor: Actor, *, place: Place | None = None
    ) -> Look:
        await self._trouble()
        self.looks.append((nonce, verb, actor, place))
        return Look(card=None, refusal=self.refusal) if self.refusal else Look(card=self.card)

    async def command(self, event: Command) -> str:
        raise AssertionError("the manifest has no command")

    async def _trouble(self) -> None:
        if self.pause is not None:
            await self.pause()
        if self.failing:
            self.failing -= 1
            raise DatabaseUnavailable


class World:
    """The fake workspace, the surface running against it, and a thread of the bot."""

    def __init__(self, slack: FakeSlack, entry: StubEntry, clock: FakeClock) -> None:
        self.slack = slack
        self.entry = entry
        self.clock = clock
        self.surface: SlackSurface

    async def thread(self) -> Place:
        """A place where a message of ana is the root."""
        ts = await self.slack.mention("U_ANA", "C_OPS", "refund 4711")
        self.entry.messages.clear()
        return Place("slack", TEAM, "C_OPS", ts)

    async def posted(self, drawn: Card) -> str:
        """A card in a thread; its message id."""
        self.entry.card = drawn
        return await self.surface.post(await self.thread(), drawn, "post-1")

    def told(self, user: str = "U_ANA") -> list[str]:
        return [text_of(message) for message in self.slack.ephemerals(user)]


@contextlib.asynccontextmanager
async def running(slack: FakeSlack, entry: StubEntry, mode: Mode) -> AsyncIterator[SlackSurface]:
    surface = open_surface({"mode": mode, "base_url": slack.base_url}, entry, slack.clock)
    assert isinstance(surface, SlackSurface)
    app = web.Application()
    app.add_routes(surface.routes())
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    slack.events_url = f"http://{host}:{port}/slack/events" if mode == "http" else None
    started = asyncio.Event()
    task = asyncio.create_task(surface.run(started))
    waiting = asyncio.create_task(started.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=5)
        if task.done():
            await task
        assert started.is_set()
        yield surface
    finally:
        waiting.cancel()
        task.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)
        await runner.cleanup()


@pytest.fixture(autouse=True)
def _tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", BOT_TOKEN)
    monkeypatch.setenv("SLACK_APP_TOKEN", APP_TOKEN)
    monkeypatch.setenv("SLACK_SIGNING_SECRET", SIGNING_SECRET)


async def _world(mode: Mode) -> AsyncIterator[World]:
    clock = FakeClock()
    entry = StubEntry()
    async with FakeSlack(clock=clock) as slack:
        world = World(slack, entry, clock)
        async with running(slack, entry, mode) as world.surface:
            yield world
        entry.pause = None


@pytest.fixture(params=["http", "socket"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async for made in _world(request.param):
        yield made


@pytest.fixture
async def http() -> AsyncIterator[World]:
    async for made in _world("http"):
        yield made


@pytest.fixture
async def socket() -> AsyncIterator[World]:
    async for made in _world("socket"):
        yield made


# --- What people say


async def test_a_mention_is_taken_in_once_though_two_events_tell_of_it(world: World) -> None:
    ts = await world.slack.mention("U_ANA", "C_OPS", "restart the &lt;web&gt; server")
    [message] = world.entry.messages
    assert message.text == "restart the <web> server"
    assert message.starts
    assert message.place == Place("slack", TEAM, "C_OPS", ts)
    assert message.actor == Actor("slack", TEAM, "U_ANA", name="ana")


async def test_a_direct_message_starts_a_chat(world: World) -> None:
    await world.slack.direct("U_BEN", "hello")
    [message] = world.entry.messages
    assert (message.text, message.starts, message.actor.user) == ("hello", True, "U_BEN")


async def test_other_bots_edits_deletions_and_talk_to_others_are_not_heard(world: World) -> None:
    place = await world.thread()
    await world.slack.bot_message("C_OPS", "<@U_BOT> deploy", place.root)
    reply = await world.slack.say("U_BEN", "C_OPS", "<@U_CYN> look at this", place.root)
    await world.slack.edit("U_BEN", "C_OPS", reply, "<@U_BOT> look at this")
    await world.slack.delete("U_BEN", "C_OPS", reply)
    await world.slack.say("U_BEN", "C_OPS", "no thread, no mention")
    assert world.entry.messages == []
    assert all(delivery.acked for _, delivery in world.slack.deliveries.sent)


async def test_a_person_of_another_organisation_and_a_guest_are_marked(world: World) -> None:
    for user, flags in (("U_EXT", {"team": "T9"}), ("U_GUEST", {"guest": True})):
        world.slack.add_user(user, **flags)
        world.slack.world.channels["C_OPS"].members.append(user)
        await world.slack.mention(user, "C_OPS", "hi")
    external, guest = (message.actor for message in world.entry.messages)
    assert (external.organisation, external.is_external) == ("T9", True)
    assert (guest.is_guest, guest.is_external) == (True, False)


async def test_an_event_is_not_acknowledged_until_it_is_stored_and_comes_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "ACK_SECONDS", 0.5)
    world.entry.failing = 2  # of each delivery, the first try and Slack's immediate retry
    ts = await world.slack.direct("U_ANA", "hello")
    assert world.entry.messages == []
    assert not any(delivery.acked for _, delivery in world.slack.deliveries.sent)
    world.clock.advance(61)
    assert await world.slack.redeliver() == 1
    [message] = world.entry.messages
    assert message.source == ts


async def test_a_person_slack_says_nothing_about_is_not_heard_until_it_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "ACK_SECONDS", 0.5)
    world.slack.fail_next("users.info", "internal_error", times=2)
    await world.slack.direct("U_ANA", "hello")
    assert world.entry.messages == []
    world.clock.advance(61)
    await world.slack.redeliver()
    assert len(world.entry.messages) == 1


async def test_events_nobody_asked_for_are_acknowledged(world: World) -> None:
    assert (await world.slack.send_event({"type": "reaction_added", "user": "U_ANA"})).acked


# --- Buttons


@pytest.mark.parametrize(
    ("button", "verb", "remember"),
    [
        ("Approve", Verb.APPROVE, None),
        ("Approve and remember here", Verb.APPROVE, "chat"),
        ("Decline", Verb.DECLINE, None),
    ],
)
async def test_a_button_decides(
    world: World, button: str, verb: Verb, remember: str | None
) -> None:
    ts = await world.posted(APPROVAL)
    pressed = await world.slack.click("U_ANA", "C_OPS", ts, button)
    assert pressed.acked
    [decision] = world.entry.decisions
    assert (decision.nonce, decision.verb, decision.remember) == ("n0nce", verb, remember)
    assert decision.actor.key == f"slack:{TEAM}/U_ANA"
    root = world.slack.message("C_OPS", ts)["thread_ts"]
    assert decision.place == Place("slack", TEAM, "C_OPS", root)
    assert world.told() == []


async def test_a_refusal_is_told_to_the_clicker_alone(world: World) -> None:
    ts = await world.posted(APPROVAL)
    world.entry.answer = Response(done=False, sentence="Only <ana> may decide this.")
    await world.slack.click("U_BEN", "C_OPS", ts, "Approve")
    await world.slack.until(lambda: world.told("U_BEN"))
    assert world.told("U_BEN") == ["Only <ana> may decide this."]
    assert world.told("U_ANA") == []
    assert buttons_of(world.slack.message("C_OPS", ts))


async def test_where_no_ephemeral_goes_the_click_is_answered_by_its_own_address(
    world: World,
) -> None:
    ts = await world.posted(APPROVAL)
    world.entry.answer = Response(done=False, sentence="Too late: ben was first.")
    world.slack.fail_next("chat.postEphemeral", "user_not_in_channel")
    await world.slack.click("U_ANA", "C_OPS", ts, "Approve")
    assert await world.slack.until(lambda: world.told()) == ["Too late: ben was first."]


async def test_a_database_that_is_gone_decides_nothing_and_says_so(world: World) -> None:
    ts = await world.posted(APPROVAL)
    world.entry.failing = 1
    assert (await world.slack.click("U_ANA", "C_OPS", ts, "Approve")).acked
    [told] = await world.slack.until(lambda: world.told())
    assert "nothing was decided" in told
    assert world.entry.decisions == []


async def test_a_person_slack_does_not_vouch_for_decides_nothing(world: World) -> None:
    ts = await world.posted(APPROVAL)
    world.slack.fail_next("users.info", status=503)
    await world.slack.click("U_BEN", "C_OPS", ts, "Approve")
    [told] = await world.slack.until(lambda: world.told("U_BEN"))
    assert "did not say who you are" in told
    assert world.entry.decisions == []


async def test_a_person_is_asked_about_again_after_a_minute(world: World) -> None:
    ts = await world.posted(APPROVAL)
    await world.slack.click("U_BEN", "C_OPS", ts, "Approve")
    world.slack.world.users["U_BEN"].guest = True
    await world.slack.click("U_BEN", "C_OPS", ts, "Approve")
    world.clock.advance(61)
    await world.slack.click("U_BEN", "C_OPS", ts, "Approve")
    assert [decision.actor.is_guest for decision in world.entry.decisions] == [False, False, True]


async def test_a_slow_decision_is_acknowledged_and_its_outcome_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ACK_SECONDS", 0.05)
    ts = await world.posted(APPROVAL)
    go = asyncio.Event()
    world.entry.pause = go.wait
    assert (await world.slack.click("U_ANA", "C_OPS", ts, "Approve")).acked
    assert world.entry.decisions == []
    go.set()
    assert await world.slack.until(lambda: world.told()) == ["It is recorded."]
    assert len(world.entry.decisions) == 1


async def test_a_choice_is_picked_by_its_button(world: World) -> None:
    ts = await world.posted(ASK)
    await world.slack.click("U_ANA", "C_OPS", ts, "Green")
    [decision] = world.entry.decisions
    assert decision.verb is Verb.ANSWER
    assert coerce(ASK.fields, decision.response) == {"q1": {"selected": ["g"], "other_text": None}}


async def test_a_finished_page_is_answered_without_a_value(world: World) -> None:
    ts = await world.posted(PAGE)
    await world.slack.click("U_ANA", "C_OPS", ts, "I have finished")
    [decision] = world.entry.decisions
    assert (decision.verb, decision.response) == (Verb.ANSWER, None)


async def test_a_page_opens_only_after_its_whole_address_was_shown(world: World) -> None:
    ts = await world.posted(PAGE)
    assert "https://login.test/auth" not in json.dumps(
        [
            e
            for b in world.slack.message("C_OPS", ts)["blocks"]
            for e in b.get("elements", ())
            if e["type"] == "button"
        ]
    )
    pressed = await world.slack.click("U_ANA", "C_OPS", ts, "Show the link")
    assert pressed.view is not None
    assert PAGE.url in text_of(pressed.view.body)
    assert (await world.slack.click_view("U_ANA", pressed.view, "Open the page")).acked
    assert world.entry.decisions == []


async def test_a_button_that_is_not_ours_is_acknowledged_and_does_nothing(world: World) -> None:
    ts = await world.posted(APPROVAL)
    message = world.slack.world.channels["C_OPS"].messages[ts]
    message["blocks"][-1]["elements"][0]["action_id"] = "somebody.else"
    assert (await world.slack.click("U_ANA", "C_OPS", ts, "somebody.else")).acked
    assert world.entry.decisions == []


# --- Modals


async def test_errors_of_a_form_stand_at_their_inputs_until_it_is_right(world: World) -> None:
    ts = await world.posted(FORM)
    pressed = await world.slack.click("U_ANA", "C_OPS", ts, "Answer")
    view = pressed.view
    assert view is not None
    refused = await world.slack.submit("U_ANA", view, {"amount": "250", "why": "late"})
    assert refused.errors == {"field.0": "amount must be at most 100."}
    accepted = await world.slack.submit("U_ANA", view, {"amount": "50"})
    assert (accepted.action, accepted.trouble) == (None, "")
    assert world.entry.decisions[-1].response == {"amount": "50", "why": "late"}
    assert world.slack.open_views("U_ANA") == []


async def test_a_note_goes_with_a_refusal(world: World) -> None:
    ts = await world.posted(APPROVAL)
    pressed = await world.slack.click("U_ANA", "C_OPS", ts, "Decline with a note")
    assert pressed.view is not None
    sent = await world.slack.submit("U_ANA", pressed.view, {"note": "It shipped already"})
    assert sent.trouble == ""
    [decision] = world.entry.decisions
    assert (decision.verb, decision.response) == (Verb.DECLINE, "It shipped already")
    assert world.entry.looks[0][1] is Verb.DECLINE


async def test_who_may_not_answer_sees_no_form_and_is_told_why(world: World) -> None:
    ts = await world.posted(FORM)
    await world.slack.click("U_BEN", "C_OPS", ts, "Decline")  # so that ben is known
    world.entry.refusal = "Only ana may answer this."
    pressed = await world.slack.click("U_BEN", "C_OPS", ts, "Answer")
    assert pressed.view is None
    assert await world.slack.until(lambda: world.told("U_BEN")) == ["Only ana may answer this."]


async def test_opening_a_form_is_the_first_call_and_a_stranger_is_looked_up_after(
    world: World,
) -> None:
    ts = await world.posted(FORM)
    world.slack.calls.clear()
    pressed = await world.slack.click("U_BEN", "C_OPS", ts, "Answer")
    view = pressed.view
    assert view is not None
    await world.slack.until(lambda: "submit" in view.body)
    first = [call.method for call in world.slack.calls]
    assert set(first[:2]) == {"views.open", "users.info"}
    assert first[2:] == ["views.update"]


async def test_a_slow_look_opens_a_modal_that_is_filled_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOOK_SECONDS", 0.05)
    ts = await world.posted(FORM)
    go = asyncio.Event()
    world.entry.pause = go.wait
    pressed = await world.slack.click("U_ANA", "C_OPS", ts, "Answer")
    view = pressed.view
    assert view is not None
    assert "One moment" in text_of(view.body)
    go.set()
    await world.slack.until(lambda: "submit" in view.body)
    sent = await world.slack.submit("U_ANA", view, {"amount": "5", "why": "x"})
    assert sent.trouble == ""
    assert len(world.entry.decisions) == 1


async def test_a_modal_that_does_not_open_is_said(world: World) -> None:
    ts = await world.posted(FORM)
    world.slack.fail_next("views.open", "expired_trigger_id")
    assert (await world.slack.click("U_ANA", "C_OPS", ts, "Answer")).acked
    [told] = await world.slack.until(lambda: world.told())
    assert "click again" in told


async def test_a_form_sent_after_the_question_settled_says_who_was_first(world: World) -> None:
    ts = await world.posted(FORM)
    pressed = await world.slack.click("U_ANA", "C_OPS", ts, "Answer")
    assert pressed.view is not None
    entered = {"amount": "1", "why": "x"}
    world.entry.refusal = "ben answered this at 10:00."
    sent = await world.slack.submit("U_ANA", pressed.view, entered)
    assert sent.errors == {"field.0": "ben answered this at 10:00."}
    world.entry.refusal = ""  # and if it settles between the look and the decision
    settled = card(Kind.FORM, state=CardState.DONE, outcome="Answered.")
    late = "This was settled before."
    world.entry.answer = Response(done=False, sentence=late, settled=settled)
    sent = await world.slack.submit("U_ANA", pressed.view, entered)
    assert sent.action == "update"
    assert late in text_of(pressed.view.body)


async def test_a_refusal_without_fields_keeps_what_was_typed(world: World) -> None:
    ts = await world.posted(APPROVAL)
    pressed = await world.slack.click("U_ANA", "C_OPS", ts, "Decline with a note")
    assert pressed.view is not None
    world.entry.answer = Response(done=False, sentence="Only ben may decide this.")
    sent = await world.slack.submit("U_ANA", pressed.view, {"note": "no"})
    assert sent.errors == {"note": "Only ben may decide this."}


async def test_a_form_sent_while_the_database_is_gone_stays_open(world: World) -> None:
    ts = await world.posted(FORM)
    pressed = await world.slack.click("U_ANA", "C_OPS", ts, "Answer")
    assert pressed.view is not None
    world.entry.failing = 1
    sent = await world.slack.submit("U_ANA", pressed.view, {"amount": "1", "why": "x"})
    assert "nothing was decided" in sent.errors["field.0"]
    again = await world.slack.submit("U_ANA", pressed.view, {})
    assert (again.action, len(world.entry.decisions)) == (None, 1)


@pytest.mark.parametrize(("amount", "told"), [("5", "It is recorded."), ("250", "at most 100")])
async def test_a_form_that_takes_long_is_answered_later_with_what_was_typed_kept(
    world: World, monkeypatch: pytest.MonkeyPatch, amount: str, told: str
) -> None:
    ts = await world.posted(FORM)
    pressed = await world.slack.click("U_ANA", "C_OPS", ts, "Answer")
    form = pressed.view
    assert form is not None
    monkeypatch.setattr(limits, "ACK_SECONDS", 0.05)
    go = asyncio.Event()
    world.entry.pause = go.wait
    sent = await world.slack.submit("U_ANA", form, {"amount": amount, "why": "x"})
    assert (sent.action, sent.trouble) == ("push", "")
    shown = world.slack.open_views("U_ANA")[-1]
    go.set()
    await world.slack.until(lambda: told in text_of(shown.body))
    await world.slack.close("U_ANA", shown)
    kept = world.slack.open_views("U_ANA")
    assert [view.id for view in kept] == ([] if amount == "5" else [form.id])


# --- Posting


async def test_a_card_is_posted_into_its_thread_and_its_buttons_go_when_it_settles(
    world: World,
) -> None:
    place = await world.thread()
    ts = await world.surface.post(place, APPROVAL, "post-1")
    [_, posted] = world.slack.thread("C_OPS", place.root)
    assert posted["ts"] == ts
    assert posted["metadata"]["event_payload"] == {"nonce": "post-1"}
    assert posted["unfurls"] == {"unfurl_links": False, "unfurl_media": False}
    assert "4711" in text_of(posted)
    assert "Approve" in buttons_of(posted)
    settled = card(state=CardState.DONE, outcome="Approved by ana at 10:00.")
    await world.surface.edit(place, ts, settled)
    assert buttons_of(world.slack.message("C_OPS", ts)) == []
    assert "Approved by ana at 10:00." in text_of(world.slack.message("C_OPS", ts))
    assert world.slack.message("C_OPS", ts)["metadata"]["event_payload"] == {"nonce": "post-1"}


async def test_a_post_whose_connection_dropped_may_be_there_and_is_found(http: World) -> None:
    place = await http.thread()
    http.slack.drop_next("chat.postMessage")
    with pytest.raises(DeliveryError) as failed:
        await http.surface.post(place, APPROVAL, "post-1")
    assert failed.value.maybe_sent
    assert not failed.value.permanent
    assert len(http.slack.calls_of("chat.postMessage")) == 1
    found = await http.surface.find(place, "post-1")
    assert found == http.slack.thread("C_OPS", place.root)[1]["ts"]
    assert await http.surface.find(place, "post-2") is None


async def test_only_our_own_post_is_found_on_whatever_page_it_stands(http: World) -> None:
    place = await http.thread()
    forged = {"event_type": "interlock", "event_payload": {"nonce": "post-1"}}
    channel = http.slack.world.channels["C_OPS"]
    for number in range(250):
        said = {"user": "U_BEN", "text": str(number), "thread_ts": place.root}
        http.slack.world.store(channel, {**said, "metadata": forged})
    ts = await http.surface.post(place, Reply("here"), "post-1")
    assert await http.surface.find(place, "post-1") == ts


@pytest.mark.parametrize(
    ("fault", "retry_after", "maybe_sent", "permanent"),
    [
        ({"error": "ratelimited", "retry_after": 7.0}, 7.0, False, False),
        ({"error": "channel_not_found"}, None, False, True),
        ({"error": "is_archived"}, None, False, True),
        ({"error": "token_revoked"}, None, False, True),
        ({"error": "internal_error"}, None, True, False),
        ({"error": "service_unavailable"}, None, False, False),
        ({"status": 503}, None, True, False),
        ({"status": 500}, None, True, False),
    ],
)
async def test_a_failed_post_says_whether_and_when_to_try_again(
    http: World,
    fault: dict[str, Any],
    retry_after: float | None,
    maybe_sent: bool,
    permanent: bool,
) -> None:
    place = await http.thread()
    http.slack.fail_next("chat.postMessage", **fault)
    with pytest.raises(DeliveryError) as failed:
        await http.surface.post(place, Reply("hi"), "post-1")
    error = failed.value
    assert (error.retry_after, error.maybe_sent, error.permanent) == (
        retry_after,
        maybe_sent,
        permanent,
    )
    assert BOT_TOKEN not in str(error)


async def test_an_edit_that_failed_is_never_maybe_sent(http: World) -> None:
    place = await http.thread()
    ts = await http.surface.post(place, Reply("hi"), "post-1")
    http.slack.drop_next("chat.update")
    with pytest.raises(DeliveryError) as failed:
        await http.surface.edit(place, ts, Reply("ho"))
    assert not failed.value.maybe_sent
    with pytest.raises(DeliveryError) as gone:
        await http.surface.edit(place, "1.000001", Reply("ho"))
    assert gone.value.permanent


async def test_content_that_slack_refuses_goes_out_plain_with_its_buttons(
    http: World, caplog: pytest.LogCaptureFixture
) -> None:
    place = await http.thread()
    http.slack.fail_next("chat.postMessage", "invalid_blocks")
    ts = await http.surface.post(place, APPROVAL, "post-1")
    assert "4711" in text_of(http.slack.message("C_OPS", ts))
    assert "Approve" in buttons_of(http.slack.message("C_OPS", ts))
    assert "invalid_blocks" in caplog.text


async def test_a_hostile_reply_pings_nobody(http: World) -> None:
    place = await http.thread()
    await http.surface.post(place, Reply("<!channel> <@U_BEN> <https://x.test|ok>"), "post-1")
    assert [ping for ping in http.slack.pings if ping.kind != "link"] == []


async def test_a_whisper_reaches_one_person_in_the_thread_and_is_inert(http: World) -> None:
    place = await http.thread()
    await http.surface.whisper(place, "U_BEN", "not you, <!channel>")
    [told] = http.slack.ephemerals("U_BEN")
    assert told["thread_ts"] == place.root
    assert http.slack.pings == []
    with pytest.raises(DeliveryError):
        await http.surface.whisper(place, "U_NOBODY", "hi")


# --- Requests and sockets


async def test_unsigned_stale_and_malformed_requests_are_refused(http: World) -> None:
    slack = http.slack
    event = json.dumps({"type": "event_callback", "team_id": TEAM, "event": {"type": "message"}})
    assert (await slack.deliver_http(event, signed=False)).status == 401
    assert (await slack.deliver_http(event, secret="wrong")).status == 401
    assert (await slack.deliver_http(event, timestamp=1)).status == 401
    assert (await slack.deliver_http(event, timestamp="soon")).status == 401
    assert (await slack.deliver_http("{no json")).status == 400
    assert (await slack.deliver_http("payload={no json")).status == 400
    assert (await slack.deliver_http("payload=[1]")).status == 400
    assert http.entry.messages == []


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "block_actions"},
        {"type": "block_actions", "actions": []},
        {"type": "block_actions", "actions": [{"action_id": "interlock.approve"}]},
        {"type": "view_submission", "view": {"callback_id": "interlock.form"}},
        {"type": "view_submission", "view": {"callback_id": "x", "state": 1}, "user": {"id": "U1"}},
        {
            "type": "event_callback",
            "team_id": TEAM,
            "event": {"type": "message", "user": 7, "channel": []},
        },
        {"type": "event_callback", "event": "message"},
        {"type": "event_callback", "team_id": TEAM, "event": {"type": "app_mention", "user": "x"}},
    ],
)
async def test_a_signed_payload_that_slack_does_not_send_is_refused_with_a_log_line(
    http: World, payload: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps(payload)
    if payload["type"] != "event_callback":
        body = urlencode({"payload": body})
    delivered = await http.slack.deliver_http(body)
    assert delivered.status in (200, 400), "a 500 would only bring it again"
    assert "refused" in caplog.text
    assert (http.entry.messages, http.entry.decisions) == ([], [])


async def test_the_address_is_verified_by_its_challenge(http: World) -> None:
    body = json.dumps({"type": "url_verification", "challenge": "abc", "token": "t"})
    delivered = await http.slack.deliver_http(body)
    assert (delivered.status, delivered.body) == (200, {"challenge": "abc"})


async def test_before_slack_said_who_we_are_requests_come_again() -> None:
    async with FakeSlack(clock=FakeClock()) as slack:
        surface = open_surface(
            {"mode": "http", "base_url": slack.base_url}, StubEntry(), slack.clock
        )
        app = web.Application()
        app.add_routes(surface.routes())
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        slack.events_url = f"http://{host}:{port}/slack/events"
        assert (await slack.send_event({"type": "message"})).status == 503
        with pytest.raises(DeliveryError) as early:
            await surface.post(Place("slack", TEAM, "C_OPS", "1.000001"), Reply("hi"), "n")
        assert not early.value.permanent
        await runner.cleanup()


async def test_a_refreshed_and_a_cut_socket_are_replaced(socket: World) -> None:
    await socket.slack.sockets.refresh()
    await socket.slack.until(lambda: len(socket.slack.sockets) == 1)
    await socket.slack.direct("U_ANA", "after the refresh")
    assert [message.text for message in socket.entry.messages] == ["after the refresh"]


async def test_a_deaf_socket_is_made_anew(socket: World, caplog: pytest.LogCaptureFixture) -> None:
    [reading] = [t for t in asyncio.all_tasks() if "receive_messages" in repr(t.get_coro())]
    reading.cancel()  # connected, and nobody reads
    for _ in range(sockets.DEAF_CHECKS + 1):
        await asyncio.sleep(0.02)
        socket.clock.advance(sockets.WATCH_SECONDS)
    await socket.slack.until(lambda: "made anew" in caplog.text)
    await socket.slack.until(lambda: len(socket.slack.calls_of("apps.connections.open")) == 3)
    await socket.slack.until(lambda: len(socket.slack.sockets) == 1)
    await socket.slack.direct("U_ANA", "hello")
    assert len(socket.entry.messages) == 1


async def test_nothing_of_the_sdks_is_logged_below_warning_and_no_secret_at_all(
    http: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await http.slack.deliver_http('{"secret": "body"}', secret="wrong")
        ts = await http.posted(APPROVAL)
        await http.slack.click("U_ANA", "C_OPS", ts, "Approve")
    assert "body" not in caplog.text
    for secret in (BOT_TOKEN, APP_TOKEN, SIGNING_SECRET, "4711"):
        assert secret not in caplog.text


# --- Starting


async def test_a_missing_scope_is_said_at_start(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeSlack(clock=FakeClock()) as slack:
        slack.world.scopes.discard("users:read")
        async with running(slack, StubEntry(), "socket"):
            assert "lacks the scope users:read" in caplog.text
            assert caplog.text.count("lacks the scope") == 1


@pytest.mark.parametrize(
    ("name", "value", "mode", "said"),
    [
        ("SLACK_BOT_TOKEN", "", "socket", "SLACK_BOT_TOKEN is missing"),
        ("SLACK_APP_TOKEN", "", "socket", "SLACK_APP_TOKEN is missing"),
        ("SLACK_APP_TOKEN", "xoxb-wrong", "socket", "SLACK_APP_TOKEN is missing"),
        ("SLACK_SIGNING_SECRET", "", "http", "SLACK_SIGNING_SECRET is missing"),
        ("SLACK_BOT_TOKEN", "xoxb-wrong", "http", "SLACK_BOT_TOKEN is refused"),
        ("SLACK_APP_TOKEN", "xapp-wrong", "socket", "SLACK_APP_TOKEN is refused"),
    ],
)
async def test_a_wrong_setting_is_named_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, mode: Mode, said: str
) -> None:
    monkeypatch.setenv(name, value)
    async with FakeSlack(clock=FakeClock()) as slack:
        with pytest.raises(ConfigError) as wrong:
            async with running(slack, StubEntry(), mode):
                pass
    assert said in str(wrong.value)
    assert not value or value not in str(wrong.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "carrier pigeon"}, "surfaces.slack.mode"),
        ({"path": "no slash"}, "surfaces.slack.path"),
        ({"colour": "red"}, "surfaces.slack.colour"),
    ],
)
def test_an_option_that_does_not_fit_is_named(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        open_surface(options, StubEntry(), FakeClock())


def test_the_mode_follows_the_secrets_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_surface({}, StubEntry(), FakeClock()).routes() == []
    monkeypatch.setenv("SLACK_APP_TOKEN", "")
    assert len(open_surface({}, StubEntry(), FakeClock()).routes()) == 1


async def test_a_slack_that_is_not_there_yet_is_waited_for() -> None:
    clock = FakeClock()
    async with FakeSlack(clock=clock) as slack:
        slack.fail_next("auth.test", status=503)
        surface = open_surface({"mode": "http", "base_url": slack.base_url}, StubEntry(), clock)
        started = asyncio.Event()
        task = asyncio.create_task(surface.run(started))
        await slack.until(lambda: slack.calls_of("auth.test"))
        await asyncio.sleep(0.05)
        assert not started.is_set()
        clock.advance(1.0)
        await asyncio.wait_for(started.wait(), 3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
