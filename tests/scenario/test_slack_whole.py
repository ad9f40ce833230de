"""Nothing cut silently, on Slack: what a message cannot hold is read page by page or in a file of
the thread, and decided there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapters.slack import blocks
from bot.card import PAGES_BUDGET, Argument
from bot.remember import THREAD, Remember
from bot.surface import Response, Verb
from bot.tool import Tool, tool
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.slack import FakeSlack, View, buttons_of, text_of
from tests.scenario.slack_product import ANA, BEN, CYN, OPS, Product, product
from tests.scenario.slack_world import ANYWHERE, APPROVAL, Mode, World, card, living

TAIL = " rm -rf /"
LONG = card(
    arguments=(Argument("command", "x" * 40_000 + TAIL),), remember="Approve and remember here"
)


@pytest.fixture(params=["http", "socket"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async for made in living(request.param):
        yield made


async def leafed(slack: FakeSlack, who: str, view: View, button: str) -> View:
    """The modal after a button that shows another page of it."""
    before = view.hash
    assert (await slack.click_view(who, view, button)).acked
    await slack.until(lambda: view.hash != before)
    return view


async def opened(world: World, who: str = "U_ANA") -> View:
    ts = await world.posted(LONG)
    assert (await world.slack.click(who, "C_OPS", ts, "Show everything")).acked
    return await filled(world.slack, who)


async def filled(slack: FakeSlack, who: str) -> View:
    """The modal, once it is more than "One moment"."""
    return await slack.until(
        lambda: next(
            (one for one in slack.open_views(who) if "One moment" not in text_of(one.body)), None
        )
    )


@pytest.mark.row("B46")
async def test_all_of_a_long_argument_is_read_page_by_page(world: World) -> None:
    view = await opened(world)
    read = exact_of(view)
    while "More" in buttons_of(view.body):
        read += exact_of(await leafed(world.slack, "U_ANA", view, "More"))
    assert read == LONG.arguments[0].value
    assert TAIL in text_of(view.body)
    await leafed(world.slack, "U_ANA", view, "Earlier")
    assert TAIL not in text_of(view.body)
    assert world.entry.decisions == []


def exact_of(view: View) -> str:
    return "".join(
        part["elements"][0]["text"]
        for block in view.body["blocks"]
        for part in block.get("elements", ())
        if part["type"] == "rich_text_preformatted"
    )


@pytest.mark.parametrize(
    ("button", "verb", "remember"),
    [
        ("Approve", Verb.APPROVE, None),
        ("Approve for this thread", Verb.APPROVE, THREAD),
        ("Decline", Verb.DECLINE, None),
    ],
)
async def test_it_is_decided_in_the_modal_which_then_says_what_came_of_it(
    button: str, verb: Verb, remember: Remember | None, world: World
) -> None:
    world.entry.answer = Response(done=True, sentence="Approved by ana at 10:00.")
    view = await opened(world)
    before = view.hash
    assert (await world.slack.click_view("U_ANA", view, button)).acked
    [decision] = world.entry.decisions
    assert (decision.nonce, decision.verb, decision.remember) == ("n0nce", verb, remember)
    assert (decision.via, decision.place) == ("slack modal", ANYWHERE)
    await world.slack.until(lambda: view.hash != before)
    assert "Approved by ana at 10:00." in text_of(view.body)
    assert buttons_of(view.body) == []
    assert world.told() == []


async def test_who_may_not_decide_is_told_in_the_modal(world: World) -> None:
    view = await opened(world, "U_BEN")
    before = view.hash
    world.entry.answer = Response(done=False, sentence="You are not among the approvers.")
    await world.slack.click_view("U_BEN", view, "Approve")
    await world.slack.until(lambda: view.hash != before)
    assert "You are not among the approvers." in text_of(view.body)


async def test_who_may_not_read_it_is_told_why(world: World) -> None:
    ts = await world.posted(LONG)
    world.entry.refusal = "Only ana can read all of this."
    await world.slack.click("U_BEN", "C_OPS", ts, "Show everything")
    await world.slack.until(
        lambda: (
            "Only ana can read all of this." in world.told("U_BEN")
            or any("Only ana" in text_of(v.body) for v in world.slack.open_views("U_BEN"))
        )
    )


async def test_a_page_that_can_no_longer_be_read_says_why(world: World) -> None:
    view = await opened(world)
    world.entry.refusal = "There is no such question here."
    await leafed(world.slack, "U_ANA", view, "More")
    assert "There is no such question here." in text_of(view.body)


async def test_the_modal_is_open_before_a_slow_database_answers(world: World) -> None:
    ts = await world.posted(LONG)
    world.entry.pause = lambda: asyncio.sleep(0.8)
    await world.slack.click("U_ANA", "C_OPS", ts, "Show everything")
    assert "One moment" in text_of(world.slack.open_views("U_ANA")[0].body)
    assert "Page 1 of" in text_of((await filled(world.slack, "U_ANA")).body)


async def test_reading_asks_who_may_read_and_where(world: World) -> None:
    view = await opened(world)
    await leafed(world.slack, "U_ANA", view, "More")
    [first, second] = world.entry.reads
    assert [nonce for nonce, _, _ in world.entry.reads] == ["n0nce", "n0nce"]
    assert (first[1].user, second[1].user) == ("U_ANA", "U_ANA")
    assert first[2] is not None
    assert world.entry.looks == []


@pytest.mark.parametrize("drawn", [APPROVAL, LONG])
async def test_a_card_that_slack_refuses_goes_out_plain_and_its_buttons_decide(
    drawn: Any, world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    title = {"type": "header", "text": {"type": "plain_text", "text": "t" * 200}}
    monkeypatch.setattr(blocks, "_title", lambda card: [title])
    ts = await world.posted(drawn)
    assert "/blocks/0/text" in caplog.text
    assert "invalid_blocks" in caplog.text
    shown = world.slack.message("C_OPS", ts)
    assert ("Show everything" in buttons_of(shown)) is (drawn is LONG)
    if drawn is LONG:
        await world.slack.click("U_ANA", "C_OPS", ts, "Show everything")
        assert "Page 1 of" in text_of((await filled(world.slack, "U_ANA")).body)
    await world.slack.click("U_ANA", "C_OPS", ts, "Approve")
    [decision] = world.entry.decisions
    assert (decision.nonce, decision.verb) == ("n0nce", Verb.APPROVE)


# --- The whole product


def runs(effects: list[str]) -> Tool:
    @tool
    async def run(command: str) -> str:
        """Runs a command."""
        effects.append(command)
        return "ran"

    return run


async def page_with(slack: FakeSlack, who: str, view: View, text: str) -> None:
    while text not in text_of(view.body):
        await leafed(slack, who, view, "More")


async def modal(one: Product, who: str, card: dict[str, Any]) -> View:
    await one.slack.click(who, OPS, card["ts"], "Show everything")
    return await filled(one.slack, who)


@pytest.mark.row("B46")
@pytest.mark.row("B48")
@pytest.mark.parametrize("mode", ["http", "socket"])
async def test_a_call_of_40_kilobytes_is_read_and_approved_in_the_modal_and_runs_once(
    mode: Mode, sqlite_db: Database
) -> None:
    effects: list[str] = []
    command = "".join(f"echo {n} <&> é😀\n" for n in range(2_000)) + TAIL
    async with product(
        sqlite_db, call("run", command=command), "Done.", tools=[runs(effects)], mode=mode
    ) as one:
        await one.mention()
        card = await one.card("wants to run run")
        assert TAIL in text_of(card)
        assert "characters between, press “Show everything”" in text_of(card)
        view = await modal(one, BEN, card)
        await page_with(one.slack, BEN, view, TAIL)
        await one.slack.click_view(BEN, view, "Approve")
        await one.slack.until(lambda: "Approved by ben" in text_of(view.body))
        await one.reads("Done.")
        assert effects == [command]
        settled = one.slack.message(OPS, card["ts"])
        assert "Approved by ben" in text_of(settled)
        assert buttons_of(settled) == []


@pytest.mark.row("B46")
async def test_who_asked_may_read_but_not_approve_and_others_may_not_read(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db, call("run", command="x" * 40_000), "Done.", tools=[runs(effects)]
    ) as one:
        await one.mention()
        card = await one.card("wants to run run")
        view = await modal(one, ANA, card)
        await one.slack.click_view(ANA, view, "Approve")
        await one.slack.until(lambda: "not among the approvers" in text_of(view.body))
        await one.slack.click(CYN, OPS, card["ts"], "Show everything")
        await one.slack.until(
            lambda: (
                one.slack.ephemerals(CYN)
                or any("can read all" in text_of(v.body) for v in one.slack.open_views(CYN))
            )
        )
        assert effects == []


@pytest.mark.row("B49")
@pytest.mark.parametrize("mode", ["http", "socket"])
async def test_a_call_of_300_kilobytes_is_attached_and_then_approved(
    mode: Mode, sqlite_db: Database
) -> None:
    effects: list[str] = []
    command = "y" * 300_000 + TAIL
    async with product(
        sqlite_db, call("run", command=command), "Done.", tools=[runs(effects)], mode=mode
    ) as one:
        one.slack.fail_next("files.getUploadURLExternal", "internal_error")
        await one.mention()
        card = await one.card("being attached to this thread as a file")
        assert "Approve" not in buttons_of(card)
        ready = await one.card("All arguments are in the file run-arguments.json")
        assert ready["ts"] == card["ts"]
        [shared] = [file for message in one.thread() for file in message.get("files", ())]
        assert shared["title"] == "run-arguments.json"
        content = one.slack.world.files[shared["id"]]["content"]
        assert json.loads(content) == {"command": command}
        view = await modal(one, BEN, ready)
        rest = f"{len(command) + len('command') - PAGES_BUDGET:,} more characters"
        await page_with(one.slack, BEN, view, rest)
        assert "The file run-arguments.json in the thread has all of them." in text_of(view.body)
        assert "Decide on the card in the thread, where the file is." in text_of(view.body)
        assert "Approve" not in buttons_of(view.body)
        await one.slack.click(BEN, OPS, ready["ts"], "Approve")
        await one.reads("Done.")
        assert effects == [command]


@pytest.mark.row("B49")
async def test_where_a_file_cannot_be_attached_the_call_can_only_be_declined(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db, call("run", command="y" * 300_000), "I see.", tools=[runs(effects)]
    ) as one:
        one.slack.fail_next("files.getUploadURLExternal", "missing_scope", times=99)
        await one.mention()
        card = await one.card("could not be attached to this thread as a file")
        assert buttons_of(card) == ["Decline", "Decline with a note", "Show everything"]
        view = await modal(one, BEN, card)
        assert [label for label in buttons_of(view.body) if "Approve" in label] == []
        await one.slack.click_view(BEN, view, "Decline")
        await one.reads("I see.")
        assert one.count("Declined by ben")
        assert effects == []


@pytest.mark.row("B81")
async def test_a_very_long_answer_begins_in_the_thread_and_is_whole_in_a_file(
    sqlite_db: Database,
) -> None:
    answer = "# Report\n\n" + "\n\n".join(f"Paragraph {n}. " + "word " * 150 for n in range(120))
    async with product(sqlite_db, answer) as one:
        await one.mention()
        await one.reads("The whole answer is in the file answer.md below.")
        shared = await one.slack.until(
            lambda: [file for message in one.thread() for file in message.get("files", ())],
            seconds=10,
        )
        assert [file["title"] for file in shared] == ["answer.md"]
        assert one.slack.world.files[shared[0]["id"]]["content"] == answer.encode()
        assert one.count("Paragraph 0.")
        assert not one.count("Paragraph 119.")
        assert len(one.thread()) <= 4
