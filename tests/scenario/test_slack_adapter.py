"""The Slack surface against the strict fake: the real Bolt app, over signed HTTP and a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from adapters.slack import limits
from bot.card import CardState, Kind
from bot.field import coerce
from bot.remember import THREAD, Remember
from bot.surface import (
    Actor,
    Place,
    Response,
    Verb,
)
from tests.fakes.slack import (
    TEAM,
    buttons_of,
    delivery,
    text_of,
)
from tests.scenario.slack_world import (
    APPROVAL,
    ASK,
    FORM,
    PAGE,
    World,
    card,
    living,
)


@pytest.fixture(params=["http", "socket"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async for made in living(request.param):
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
        ("Approve for this thread", Verb.APPROVE, THREAD),
        ("Decline", Verb.DECLINE, None),
    ],
)
async def test_a_button_decides(
    world: World, button: str, verb: Verb, remember: Remember | None
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
    world.entry.answer = Response(done=False, sentence=late, card=settled)
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
