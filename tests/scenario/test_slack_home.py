"""App Home on Slack: a person's inbox, which can be decided there and follows what happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from adapters.slack import limits
from bot.approvers import Policy
from bot.ask_user_tool import ask_user_tool, in_thread
from bot.question import Verb
from bot.surface import DeliveryError, Home, Response
from storage.database import Database
from storage.schema import homes
from tests.fakes.background import background
from tests.fakes.clock import WallClock
from tests.fakes.model import call
from tests.fakes.slack import TEAM, FakeSlack, View, buttons_of, text_of, validate_view
from tests.fakes.slack.blocks import view_too_large
from tests.fakes.slack.pings import pings_in
from tests.scenario.slack_product import ANA, BEN, CYN, OPS, POLICY, product
from tests.scenario.slack_world import ANYWHERE, Mode, World, living
from tests.scenario.test_slack_product import WHEN
from tests.world import effect

EVIL = "x` <!channel> <@U_BEN> <https://evil.test|Approve> [a](https://evil.test) :tada: *b*\n```"
DEV = "C_DEV"


@pytest.fixture(params=["http", "socket"])
def mode(request: pytest.FixtureRequest) -> Mode:
    found: Mode = request.param
    return found


@pytest.fixture
async def world(mode: Mode) -> AsyncIterator[World]:
    async for made in living(mode):
        yield made


@pytest.fixture
async def http() -> AsyncIterator[World]:
    async for made in living("http"):
        yield made


async def shows(slack: FakeSlack, user: str, *texts: str, seconds: float = 5) -> View:
    """The home of this person, as soon as all of this is read on it."""

    def home() -> View | None:
        view = slack.home(user)
        read = "" if view is None else text_of(view.body)
        return view if all(text in read for text in texts) else None

    return await slack.until(home, seconds=seconds)


async def opened(slack: FakeSlack, user: str, *texts: str) -> View:
    await slack.open_home(user)
    return await shows(slack, user, *texts)


async def turned_to(slack: FakeSlack, user: str, page: int) -> View:
    def home() -> View | None:
        view = slack.home(user)
        there = view is not None and view.body["private_metadata"] == str(page)
        return view if there else None

    return await slack.until(home)


# The whole product


async def test_a_question_of_another_channel_is_approved_on_the_home_and_its_call_runs_once(
    mode: Mode, sqlite_db: Database
) -> None:
    effects: list[str] = []
    tools = [effect(effects)]
    async with product(
        sqlite_db, call("refund", order="A1"), "Done.", tools=tools, mode=mode
    ) as one:
        one.slack.add_channel(DEV, [ANA, "U_BOT"])  # ben is not there
        root = await one.slack.mention(ANA, DEV, "please")
        await one.slack.until(lambda: len(one.slack.thread(DEV, root)) > 1)
        view = await opened(one.slack, BEN, "ops wants to run refund", "order:\nA1")
        address = f"https://t1.slack.test/archives/{DEV}/p{root.replace('.', '')}"
        assert address in str(view.body)

        pressed = await one.slack.click_view(BEN, view, "Approve")

        assert pressed.acked
        settled = await shows(one.slack, BEN, "ops wants to run refund — Approved by ben")
        assert not set(buttons_of(settled.body)) & {"Approve", "Decline"}
        await one.slack.until(
            lambda: any("Done." in text_of(said) for said in one.slack.thread(DEV, root)), seconds=5
        )
        assert effects == ["refund A1"]
        (card,) = [said for said in one.slack.thread(DEV, root) if said.get("blocks")][:1]
        assert "Approved by ben" in text_of(card)
        assert buttons_of(card) == []


async def test_what_is_decided_elsewhere_leaves_every_home_without_anyone_opening_it(
    mode: Mode, sqlite_db: Database
) -> None:
    async with product(
        sqlite_db, call("refund", order="A1"), "Done.", tools=[effect([])], mode=mode
    ) as one:
        await opened(one.slack, BEN, "Nothing waits for you.")
        await opened(one.slack, ANA, "Nothing waits for you.")
        await opened(one.slack, CYN, "Nothing waits for you.")

        await one.mention()
        await shows(one.slack, BEN, "ops wants to run refund", "Waiting for you")
        await one.click(BEN, "wants to run refund", "Decline")

        for who in (BEN, ANA):
            await shows(one.slack, who, "ops wants to run refund — Declined by ben")
        assert buttons_of((await shows(one.slack, BEN)).body) == []
        published = [made.args["user_id"] for made in one.slack.calls_of("views.publish")]
        assert published.count(CYN) == 1
        assert not one.slack.refused


async def test_a_home_follows_after_a_restart(
    mode: Mode, sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.home.PAGE", 1)
    asks = [call("refund", order=f"A{n}") for n in range(3)]
    async with FakeSlack(WallClock()) as slack:
        async with product(sqlite_db, asks, tools=[effect([])], workspace=slack, mode=mode) as one:
            await one.mention()
            await slack.until(lambda: one.count("wants to run refund") == 3, seconds=10)
            view = await opened(slack, BEN, "Page 1 of 3")
            await slack.click_view(BEN, view, "More")
            await shows(slack, BEN, "Page 2 of 3", "order:\nA1")
            root = one.root
        async with product(
            sqlite_db, asks, tools=[effect([])], workspace=slack, root=root, mode=mode
        ) as one:
            (card,) = [said for said in one.thread() if "\nA1\n" in text_of(said)]
            await slack.click(BEN, OPS, card["ts"], "Decline")
            view = await shows(slack, BEN, "Declined by ben", "Page 2 of 2", "order:\nA2")
            assert "order:\nA1" not in text_of(view.body)


async def test_the_second_to_press_reads_who_was_first_on_their_home(sqlite_db: Database) -> None:
    both = Policy(name="ops", approvers=POLICY.approvers | {f"slack:{TEAM}/{CYN}"})
    tools = [effect([])]
    async with product(sqlite_db, call("refund"), "Done.", tools=tools, policies=[both]) as one:
        await one.mention()
        await one.card("wants to run refund")
        mine = await opened(one.slack, BEN, "ops wants to run refund")
        theirs = await opened(one.slack, CYN, "ops wants to run refund")

        await asyncio.gather(
            one.slack.click_view(BEN, mine, "Approve"), one.slack.click_view(CYN, theirs, "Decline")
        )

        await one.slack.until(lambda: one.count("by ben") or one.count("by cyn"), seconds=5)
        loser = CYN if one.count("by ben") else BEN
        view = await shows(one.slack, loser, "This was settled before.")
        assert text_of(view.body).startswith("This was settled before.")


async def test_what_is_not_for_a_person_is_not_on_their_home(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund", order="A1"), tools=[effect([])]) as one:
        one.slack.add_user("U_GUEST", guest=True)
        one.slack.add_user("U_OUT", team="T_OUT")
        one.slack.add_user("U_ROBOT", bot=True)
        await one.mention()
        await one.card("wants to run refund")

        for who in (ANA, CYN, "U_GUEST"):
            view = await opened(one.slack, who, "Nothing waits for you.")
            assert "refund" not in text_of(view.body)
        for who in ("U_OUT", "U_ROBOT"):
            view = await opened(one.slack, who, "This page is for people of this organisation.")
            assert len(view.body["blocks"]) == 1
        async with sqlite_db.read() as tx:
            kept = (await tx.run(sa.select(homes.c.user))).scalars().all()
        assert sorted(kept) == [ANA, CYN, "U_GUEST"]


async def test_sixty_questions_are_reached_by_turning_pages(sqlite_db: Database) -> None:
    asks = [call("refund", order=f"{n:02} {'x' * 200}") for n in range(30)]
    async with product(sqlite_db, asks, tools=[effect([])]) as one:
        await opened(one.slack, BEN, "Nothing waits for you.")
        for _ in range(2):
            await one.mention()
        view = await shows(one.slack, BEN, "Page 1 of 6", seconds=10)
        seen: set[str] = set()
        for page in range(1, 7):
            view = await turned_to(one.slack, BEN, page)
            assert validate_view(view.body) == []
            assert not view_too_large(view.body)
            assert len(view.body["blocks"]) <= limits.VIEW_BLOCKS
            seen |= set(nonces(view.body, "interlock.approve"))
            if page < 6:
                await one.slack.click_view(BEN, view, "More")
        assert len(seen) == 60
        await one.slack.click_view(BEN, view, "Earlier")
        await turned_to(one.slack, BEN, 5)


def nonces(shown: dict[str, Any], action: str) -> list[str]:
    return [
        element["value"]
        for block in shown["blocks"]
        if block["type"] == "actions"
        for element in block["elements"]
        if element["action_id"] == action
    ]


async def test_long_arguments_are_not_approved_from_the_home(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund", order="x" * 4_000), tools=[effect([])]) as one:
        await one.mention()
        view = await opened(one.slack, BEN, "“Show everything” has all of it.")
        assert buttons_of(view.body) == ["Show everything", "Decline", "Decline with a note"]


async def test_a_question_is_answered_from_the_home_in_a_modal_and_by_a_pick(
    mode: Mode, sqlite_db: Database
) -> None:
    asks = call("ask_user", questions=[WHEN])
    tools = [ask_user_tool(in_thread)]
    async with product(sqlite_db, asks, asks, "Fine.", tools=tools, mode=mode) as one:
        await one.mention()
        view = await opened(one.slack, ANA, "ops asks")
        await one.slack.click_view(ANA, view, "Other…")
        modal = await one.modal(ANA)
        labels = [b["label"]["text"] for b in modal.body["blocks"] if b["type"] == "input"]
        await one.slack.submit(ANA, modal, {labels[0]: "Tonight"})
        view = await shows(one.slack, ANA, "Answered by ana", "Waiting for you")
        await one.slack.click_view(ANA, view, "Now")
        await one.reads("Fine.")
        await one.slack.until(
            lambda: text_of((one.slack.home(ANA) or view).body).count("Answered by ana") == 2
        )


async def test_a_decline_with_a_note_is_written_from_the_home(sqlite_db: Database) -> None:
    async with product(sqlite_db, call("refund"), "I see.", tools=[effect([])]) as one:
        await one.mention()
        view = await opened(one.slack, BEN, "ops wants to run refund")
        await one.slack.click_view(BEN, view, "Decline with a note")
        modal = await one.modal(BEN)
        await one.slack.submit(BEN, modal, {"Your note to the agent": "Not now"})
        await shows(one.slack, BEN, "Declined by ben", "Not now")
        await one.reads("I see.")


async def test_a_background_call_is_cancelled_from_the_home_and_says_so(
    mode: Mode, sqlite_db: Database
) -> None:
    tool = background()
    async with product(sqlite_db, call("rollout"), tools=[tool], mode=mode) as one:
        await opened(one.slack, ANA, "Nothing waits for you.")
        await one.mention()
        view = await shows(one.slack, ANA, "rollout is running", "half way (working)")

        await one.slack.click_view(ANA, view, "Cancel")

        # Also when the home is drawn anew because the task changed.
        await shows(one.slack, ANA, "The server was asked to stop.", "Asked to stop.")
        assert tool.cancelled == ["t1"]


async def test_hostile_texts_are_inert_on_the_home(sqlite_db: Database) -> None:
    asking = replace(effect([], name="refund"), name=EVIL)
    working = replace(background(message=EVIL), name=f"{EVIL} too")
    declined = replace(effect([], name="other"), name=f"{EVIL} three")
    steps = [[call(EVIL, order=EVIL), call(working.name, what=EVIL), call(declined.name)]]
    async with product(sqlite_db, *steps, tools=[asking, working, declined]) as one:
        one.slack.world.users[BEN].name = EVIL
        await one.mention()
        await one.slack.until(lambda: one.count("wants to run") == 2, seconds=10)
        view = await opened(one.slack, BEN, "wants to run", "too is running")
        await one.slack.click_view(BEN, view, "Decline", nonces(view.body, "interlock.decline")[-1])
        view = await shows(one.slack, BEN, "Decided lately", "Declined by")

        pings = pings_in({"ts": "1", **view.body}, "home")
        assert pings
        assert all("https://t1.slack.test/archives/" in ping.token for ping in pings)


async def test_a_home_that_slack_refuses_holds_up_neither_others_nor_the_call(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    tools = [effect(effects)]
    async with product(sqlite_db, call("refund"), "Done.", tools=tools) as one:
        await opened(one.slack, ANA, "Nothing waits for you.")
        await opened(one.slack, BEN, "Nothing waits for you.")
        one.slack.fail_next("views.publish", error="token_revoked")
        await one.mention()
        await one.slack.until(
            lambda: any(made.error for made in one.slack.calls_of("views.publish"))
        )
        await one.click(BEN, "wants to run refund", "Approve")
        await one.reads("Done.")
        assert effects == ["refund A1"]
        for who in (ANA, BEN):
            await shows(one.slack, who, "Approved by ben")


# The adapter alone


async def test_opening_the_home_is_asked_for_as_the_person_slack_names(world: World) -> None:
    await opened(world.slack, BEN, "ops wants to run refund")

    ((actor, organisation, page),) = world.entry.homes
    assert actor.key == f"slack:{TEAM}/{BEN}"
    assert (organisation, page) == (TEAM, 1)
    assert world.entry.messages == []


async def test_the_messages_tab_publishes_nothing(http: World) -> None:
    await http.slack.open_home(BEN, tab="messages")

    await asyncio.sleep(0.05)
    assert http.slack.home(BEN) is None
    assert http.entry.homes == []


@pytest.mark.parametrize("given", [{"user": "U BEN"}, {"tab": ""}, {"tab": 7}, {"user": None}])
async def test_a_malformed_opening_is_acknowledged_and_does_nothing(
    given: dict[str, Any], http: World
) -> None:
    event = {"type": "app_home_opened", "user": BEN, "tab": "home", "channel": "D1"} | given
    delivery = await http.slack.send_event(event)

    assert delivery.acked
    await asyncio.sleep(0.05)
    assert http.entry.homes == []


async def test_what_a_person_is_told_stands_at_the_top_of_the_page_they_pressed(
    world: World,
) -> None:
    world.entry.answer = Response(done=False, sentence="You are not among the approvers.")
    world.entry.page = replace(world.entry.page, page=2)
    view = await opened(world.slack, CYN, "ops wants to run refund")

    await world.slack.click_view(CYN, view, "Approve")

    view = await shows(world.slack, CYN, "You are not among the approvers.")
    assert text_of(view.body).startswith("You are not among the approvers.")
    assert [page for *_, page in world.entry.homes] == [1, 2]
    (decision,) = world.entry.decisions
    assert (decision.nonce, decision.verb, decision.place) == ("n0nce", Verb.APPROVE, ANYWHERE)
    assert not world.told(CYN)
    # It stays for a minute, whatever is drawn, and goes with what the person does next.
    await world.surface.show_home(TEAM, CYN)
    assert "not among" in text_of(view.body)
    world.clock.advance(61)
    await world.surface.show_home(TEAM, CYN)
    assert "not among" not in text_of(view.body)


async def test_what_the_person_does_next_takes_the_sentence_away(http: World) -> None:
    http.entry.answer = Response(done=False, sentence="No.")
    view = await opened(http.slack, CYN, "ops wants to run refund")
    await http.slack.click_view(CYN, view, "Approve")
    await shows(http.slack, CYN, "No.")

    await http.slack.click_view(CYN, view, "More")
    await http.slack.until(lambda: "No." not in text_of(view.body))
    assert http.entry.homes[-1][2] == 2


async def test_a_modal_that_may_not_be_opened_is_explained_on_the_home(world: World) -> None:
    world.entry.refusal = "This is for the person who asked the agent."
    view = await opened(world.slack, CYN, "ops wants to run refund")
    await world.slack.click_view(CYN, view, "Decline with a note")

    await shows(world.slack, CYN, "This is for the person")
    assert not world.slack.open_views(CYN)


async def test_a_home_on_which_something_was_decided_is_drawn_anew_and_followed(
    http: World,
) -> None:
    view = await opened(http.slack, BEN, "ops wants to run refund")
    http.entry.page = Home()
    await http.slack.click_view(BEN, view, "Approve")

    await shows(http.slack, BEN, "Nothing waits for you.")
    assert [page for *_, page in http.entry.homes] == [1, 1]


async def test_a_home_that_a_form_was_opened_from_is_followed_from_then_on(http: World) -> None:
    view = await opened(http.slack, BEN, "ops wants to run refund")
    await http.slack.click_view(BEN, view, "Decline with a note")

    await http.slack.until(lambda: http.slack.open_views(BEN))
    await http.slack.until(lambda: [page for *_, page in http.entry.homes] == [1, 1])


async def test_whom_slack_does_not_know_is_told_so_on_the_home(http: World) -> None:
    http.slack.fail_next("users.info", error="internal_error")
    await opened(http.slack, BEN, "Slack did not say who you are")
    assert http.entry.homes == []


async def test_a_home_that_fails_says_so(http: World) -> None:
    http.entry.failing = 1
    await opened(http.slack, BEN, "Something went wrong here")


@pytest.mark.parametrize("error", ["invalid_arguments", "view_too_large"])
async def test_a_view_that_slack_refuses_is_replaced_by_a_sentence(
    error: str, http: World, caplog: pytest.LogCaptureFixture
) -> None:
    http.slack.fail_next("views.publish", error=error)
    with caplog.at_level(logging.ERROR):
        await opened(http.slack, BEN, "My open questions")
    assert error in caplog.text


@pytest.mark.parametrize("error", ["hash_conflict", "user_not_found", "not_enabled"])
async def test_a_home_that_there_cannot_be_is_left_out(error: str, http: World) -> None:
    http.slack.fail_next("views.publish", error=error)
    await http.surface.show_home(TEAM, BEN)
    assert len(http.slack.calls_of("views.publish")) == 1


async def test_a_person_who_is_gone_is_left_out_and_one_slack_cannot_name_is_tried_again(
    http: World,
) -> None:
    http.slack.world.users[CYN].deleted = True
    await http.surface.show_home(TEAM, CYN)
    await http.surface.show_home(TEAM, "U_NOBODY")
    assert http.slack.calls_of("views.publish") == []

    http.slack.fail_next("users.info", error="internal_error")
    with pytest.raises(DeliveryError) as raised:
        await http.surface.show_home(TEAM, BEN)
    assert not raised.value.permanent


async def test_slack_asking_to_wait_is_told_to_the_outbox(http: World) -> None:
    http.slack.fail_next("views.publish", status=429, retry_after=7)
    with pytest.raises(DeliveryError) as raised:
        await http.surface.show_home(TEAM, BEN)
    assert raised.value.retry_after == 7


async def test_an_older_look_never_comes_to_stand_over_a_newer_one(http: World) -> None:
    http.slack.delay_next("views.publish", 5.0)
    first = asyncio.create_task(http.surface.show_home(TEAM, BEN))
    await http.slack.until(lambda: http.entry.homes)
    http.entry.page = Home()
    second = asyncio.create_task(http.surface.show_home(TEAM, BEN))
    await asyncio.sleep(0.05)
    http.clock.advance(5.0)
    await asyncio.gather(first, second)

    await shows(http.slack, BEN, "Nothing waits for you.")


async def test_a_slow_decision_is_acknowledged_and_the_home_says_that_it_is_recorded(
    http: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = await opened(http.slack, BEN, "ops wants to run refund")
    monkeypatch.setattr(limits, "ACK_SECONDS", 0.05)
    held = asyncio.Event()
    http.entry.pause = held.wait
    pressed = await http.slack.click_view(BEN, view, "Approve")
    assert pressed.acked
    held.set()
    await shows(http.slack, BEN, "It is recorded.")
