"""Many questions at once on Slack: one card for them, decided selected, all or none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from adapters.slack import limits
from bot.approvers import Policy
from bot.card import Argument
from bot.group import GroupCard
from bot.surface import Place, Response, Verb
from bot.tool import Tool, tool
from storage.database import Database
from tests.fakes.clock import WallClock
from tests.fakes.model import call
from tests.fakes.slack import TEAM, FakeSlack, buttons_of, text_of
from tests.scenario.slack_product import ANA, BEN, CYN, OPS, POLICY, Product, product
from tests.scenario.slack_world import Mode, World, card, living

BOTH = Policy(name="ops", approvers=POLICY.approvers | {f"slack:T1/{CYN}"})
MODES: Sequence[Mode] = ("http", "socket")
MENU = "interlock.select"
EVIL = "<!channel> <https://evil.test|Approve> *x*\n2. refund"


# The adapter against a stub of the product


@pytest.fixture(params=MODES)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async for made in living(request.param):
        yield made


async def posted(world: World) -> tuple[Place, str]:
    """A card for five calls, each with a nonce of its own."""
    cards = tuple(
        card(nonce=f"n{number}", arguments=(Argument("order", f"A{number}"),))
        for number in range(5)
    )
    shown = GroupCard(nonce="n0", version=5, title="ops wants to run 5", agent="ops", cards=cards)
    place = await world.thread()
    return place, (await world.surface.post(place, shown, "post-1")).message_id


@pytest.mark.parametrize(
    ("button", "verb", "only"),
    [
        ("Approve selected", Verb.APPROVE, ("n1", "n3")),
        ("Decline selected", Verb.DECLINE, ("n1", "n3")),
        ("Approve all 5", Verb.APPROVE, None),
        ("Decline all 5", Verb.DECLINE, None),
    ],
)
async def test_a_button_of_a_shared_card_decides_the_selected_calls_or_all(
    world: World, button: str, verb: Verb, only: tuple[str, ...] | None
) -> None:
    place, ts = await posted(world)
    selecting = await world.slack.click(BEN, OPS, ts, MENU, ["2. refund A1", "4. refund A3"])
    assert selecting.acked
    assert world.entry.groups == []

    assert (await world.slack.click(BEN, OPS, ts, button)).acked

    (decision,) = world.entry.groups
    assert (decision.nonce, decision.verb, decision.only) == ("n0", verb, only)
    assert decision.actor.key == f"slack:{TEAM}/{BEN}"
    assert decision.place == place
    assert world.told(BEN) == []


async def test_what_somebody_else_selected_is_not_decided(world: World) -> None:
    _, ts = await posted(world)
    await world.slack.click(BEN, OPS, ts, MENU, ["2. refund A1"])
    await world.slack.click(CYN, OPS, ts, "Approve selected")
    (decision,) = world.entry.groups
    assert decision.only == ()


async def test_many_decisions_that_take_long_are_acknowledged_and_told_afterwards(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ACK_SECONDS", 0.1)
    _, ts = await posted(world)
    go = asyncio.Event()
    world.entry.pause = go.wait
    world.entry.answer = Response(done=False, sentence="3 of 5 were approved.")

    pressed = await world.slack.click(BEN, OPS, ts, "Approve all 5")

    assert pressed.acked
    assert world.told(BEN) == []
    go.set()
    await world.slack.until(lambda: world.told(BEN))
    assert world.told(BEN) == ["3 of 5 were approved."]


# The whole product


def refunds(effects: list[str]) -> Tool:
    @tool
    async def refund(order: str) -> str:
        """Refunds an order."""
        effects.append(order)
        return f"refunded {order}"

    return refund


def asks(count: int) -> list[Any]:
    return [call("refund", order=f"A{number}") for number in range(count)]


def label(number: int) -> str:
    return f"{number + 1}. refund A{number}"


def orders(*numbers: int) -> list[str]:
    return [f"A{number}" for number in numbers]


async def group(one: Product, *, without: str = "", looks: int | None = None) -> dict[str, Any]:
    """The shared card, once it no longer shows `without`, and so many calls to look at."""
    return await one.slack.until(
        lambda: next(
            (
                message
                for message in one.thread()
                if "calls" in text_of(message)
                and buttons_of(message)
                and (not without or without not in buttons_of(message))
                and looks in (None, buttons_of(message).count("Look"))
            ),
            None,
        ),
        seconds=20,
    )


async def test_four_calls_have_four_cards(sqlite_db: Database) -> None:
    effects: list[str] = []
    async with product(sqlite_db, asks(4), "Done.", tools=[refunds(effects)]) as one:
        await one.mention()
        await one.slack.until(lambda: one.count("wants to run refund") == 4, seconds=20)
        assert not one.count("wants to run 4 calls")


@pytest.mark.row("B27")
@pytest.mark.parametrize("mode", MODES)
async def test_seven_calls_have_one_card_and_are_decided_in_parts(
    mode: Mode, sqlite_db: Database
) -> None:
    effects: list[str] = []
    tools = [refunds(effects)]
    async with product(sqlite_db, asks(7), "Done.", tools=tools, mode=mode) as one:
        await one.mention()
        card = await group(one)
        assert one.count("wants to run") == 1
        assert buttons_of(card).count("Look") == 7
        assert effects == []

        chosen = [label(number) for number in (0, 2, 4)]
        await one.slack.click(BEN, OPS, card["ts"], MENU, chosen)
        await one.slack.click(BEN, OPS, card["ts"], "Approve selected")
        card = await group(one, without="Approve all 7", looks=4)
        await one.slack.click(BEN, OPS, card["ts"], MENU, [label(1), label(3)])
        await one.slack.click(BEN, OPS, card["ts"], "Decline selected")
        card = await group(one, without="Decline all 4")
        await one.slack.until(lambda: len(effects) == 3, seconds=20)
        assert sorted(effects) == orders(0, 2, 4)

        await one.slack.click(BEN, OPS, card["ts"], "Approve all 2")
        await one.reads("Done.")

        assert sorted(effects) == orders(0, 2, 4, 5, 6)
        shown = text_of(one.slack.message(OPS, card["ts"]))
        assert (shown.count("Approved by ben"), shown.count("Declined by ben")) == (5, 2)
        assert buttons_of(one.slack.message(OPS, card["ts"])) == []
        assert one.slack.ephemerals(BEN) == []
        assert one.slack.refused == []


async def test_two_people_at_the_same_time_decide_each_call_once(sqlite_db: Database) -> None:
    effects: list[str] = []
    async with product(
        sqlite_db, asks(7), "Done.", tools=[refunds(effects)], policies=[BOTH]
    ) as one:
        await one.mention()
        card = await group(one)
        await asyncio.gather(
            one.slack.click(BEN, OPS, card["ts"], "Approve all 7"),
            one.slack.click(CYN, OPS, card["ts"], "Decline all 7"),
        )
        await one.reads("Done.")

        shown = text_of(one.slack.message(OPS, card["ts"]))
        approved, declined = shown.count("Approved by ben"), shown.count("Declined by cyn")
        assert approved + declined == 7
        assert len(effects) == len(set(effects)) == approved
        if declined:
            await one.told(BEN, "settled before")
        if approved:
            await one.told(CYN, "settled before")


async def test_whoever_asked_presses_all_and_nothing_is_decided(sqlite_db: Database) -> None:
    effects: list[str] = []
    both = Policy(name="ops", approvers=POLICY.approvers | {f"slack:T1/{ANA}"})
    async with product(
        sqlite_db, asks(5), "Done.", tools=[refunds(effects)], policies=[both]
    ) as one:
        await one.mention()
        card = await group(one)
        await one.slack.click(ANA, OPS, card["ts"], "Approve all 5")
        await one.told(ANA, "You asked the agent for this, so another approver has to decide.")
        await one.slack.click(CYN, OPS, card["ts"], "Decline all 5")
        await one.told(CYN, "You are not among the approvers of refund")
        assert buttons_of(one.slack.message(OPS, card["ts"])).count("Look") == 5
        assert effects == []


async def test_a_restart_between_the_post_and_the_clicks_changes_nothing(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    tools = [refunds(effects)]
    async with FakeSlack(WallClock()) as slack:
        async with product(sqlite_db, asks(6), "Done.", tools=tools, workspace=slack) as one:
            await one.mention()
            card = await group(one)
            root = one.root
        again = product(
            sqlite_db, asks(6), "Done.", tools=tools, workspace=slack, root=root, mode="socket"
        )
        async with again as one:
            await one.slack.click(BEN, OPS, card["ts"], MENU, [label(5)])
            await one.slack.click(BEN, OPS, card["ts"], "Approve selected")
            await one.slack.until(lambda: effects == ["A5"], seconds=20)
        again = product(sqlite_db, asks(6), "Done.", tools=tools, workspace=slack, root=root)
        async with again as one:
            card = await group(one, without="Approve all 6")
            await one.slack.click(BEN, OPS, card["ts"], "Approve all 5")
            await one.reads("Done.")
    assert sorted(effects) == orders(*range(6))


async def test_fifty_calls_are_decided_with_four_presses(sqlite_db: Database) -> None:
    effects: list[str] = []
    async with product(sqlite_db, asks(50), "Done.", tools=[refunds(effects)]) as one:
        await one.mention()
        await one.slack.until(lambda: one.count("wants to run") == 4, seconds=60)
        for message in [one for one in one.thread() if "calls" in text_of(one)]:
            button = next(name for name in buttons_of(message) if name.startswith("Approve all"))
            await one.slack.click(BEN, OPS, message["ts"], button)
        await one.slack.until(lambda: one.count("Done."), seconds=60)
    assert sorted(effects) == sorted(orders(*range(50)))


async def test_a_stop_closes_the_shared_card(sqlite_db: Database) -> None:
    effects: list[str] = []
    async with product(sqlite_db, asks(5), "Done.", tools=[refunds(effects)]) as one:
        await one.mention()
        card = await group(one)
        await one.slack.mention(ANA, OPS, "stop", one.root)
        await one.slack.until(
            lambda: not buttons_of(one.slack.message(OPS, card["ts"])), seconds=20
        )
        assert text_of(one.slack.message(OPS, card["ts"])).count("Closed on") == 5
    assert effects == []


async def test_where_slack_refuses_the_card_a_plain_one_decides(sqlite_db: Database) -> None:
    effects: list[str] = []
    async with product(sqlite_db, asks(5), "Done.", tools=[refunds(effects)]) as one:
        # No copy is sent directly: it could be the first message, and the one that is refused.
        one.slack.fail_next("conversations.open", "user_disabled", times=99)
        one.slack.fail_next("chat.postMessage", "invalid_blocks")
        await one.mention()
        card = await one.slack.until(
            lambda: next((m for m in one.thread() if "Look" in buttons_of(m)), None), seconds=20
        )
        assert buttons_of(card) == ["Look"] * 5 + ["Approve all 5", "Decline all 5"]
        await one.slack.click(BEN, OPS, card["ts"], "Approve all 5")
        await one.reads("Done.")
    assert sorted(effects) == orders(*range(5))


async def test_hostile_arguments_are_inert_and_run_as_they_are(sqlite_db: Database) -> None:
    effects: list[str] = []
    hostile = [call("refund", order=EVIL)] * 5
    async with product(sqlite_db, hostile, "Done.", tools=[refunds(effects)]) as one:
        await one.mention()
        card = await group(one)
        await one.direct_card(BEN, "wants to run 5 calls")  # which names and links the thread
        address = f"<https://t1.slack.test/archives/{OPS}/p{one.root.replace('.', '')}|"
        ours = (f"<#{OPS}>", f"{address}Open the thread>")
        assert {ping.token for ping in one.slack.pings if ping.kind != "user"} == set(ours)
        await one.slack.click(BEN, OPS, card["ts"], "Approve all 5")
        await one.reads("Done.")
        assert {ping.token for ping in one.slack.pings if ping.kind != "user"} == set(ours)
    assert effects == [EVIL] * 5
