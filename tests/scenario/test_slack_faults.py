"""Our own code fails at every place of the Slack transport: nothing is lost and nobody is left
without an answer, over signed HTTP and over a socket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from adapters.slack import apology, blocks, events, limits, modals
from adapters.slack.commands import COMMAND, PENDING, STATUS
from adapters.slack.people import People
from adapters.slack.workspaces import Workspace
from tests.fakes.slack import View, delivery, text_of
from tests.scenario.slack_world import APPROVAL, FORM, World, living

ANA, OPS = "U_ANA", "C_OPS"
SORRY = "Something went wrong here"

Act = Callable[[], Awaitable[Any]]
Prepared = Callable[[World], Awaitable[Act]]


@pytest.fixture(params=["http", "socket"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async for made in living(request.param):
        yield made


# --- What people do, each kind of listener once


async def _click(world: World) -> Act:
    ts = await world.posted(APPROVAL)
    return lambda: world.slack.click(ANA, OPS, ts, "Approve")


async def _open(world: World) -> Act:
    ts = await world.posted(FORM)
    await world.slack.click(ANA, OPS, ts, "Decline")  # so that ana is known
    world.entry.decisions.clear()
    return lambda: world.slack.click(ANA, OPS, ts, "Answer")


async def _submit(world: World) -> Act:
    ts = await world.posted(FORM)
    view = (await world.slack.click(ANA, OPS, ts, "Answer")).view
    assert view is not None
    await world.slack.until(lambda: "submit" in view.body)
    return lambda: world.slack.submit(ANA, view, {"amount": "5", "why": "late"})


async def _command(world: World) -> Act:
    return lambda: world.slack.slash(ANA, OPS, COMMAND, "status")


async def _status(world: World) -> Act:
    place = await world.thread()
    return lambda: world.slack.shortcut(ANA, STATUS, OPS, place.root)


async def _pending(world: World) -> Act:
    return lambda: world.slack.shortcut(ANA, PENDING)


async def _turn(world: World) -> Act:
    await world.slack.shortcut(ANA, PENDING)
    view = await world.slack.until(
        lambda: next((v for v in world.slack.open_views(ANA) if "page 1" in text_of(v.body)), None)
    )
    return lambda: world.slack.click_view(ANA, view, "More")


@dataclass(frozen=True)
class Kind:
    """Something people do; `translated` is the function of events.py that reads it."""

    prepare: Prepared
    translated: str


KINDS = {
    "a click": Kind(_click, "click"),
    "a click that opens a form": Kind(_open, "click"),
    "a form": Kind(_submit, "submission"),
    "a command": Kind(_command, "typed"),
    "a shortcut of a message": Kind(_status, "shortcut"),
    "a global shortcut": Kind(_pending, "shortcut"),
    "a page turned": Kind(_turn, "turned"),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


# --- What goes wrong


class Broken(Exception):
    """A mistake in our own code."""


def _broken(*_args: Any, **_named: Any) -> Any:
    raise Broken


async def _broken_later(*_args: Any, **_named: Any) -> Any:
    raise Broken


def told(world: World, done: Any) -> bool:
    """Whether ana reads that something went wrong: alone, in a modal, or at an input."""
    errors = getattr(done, "errors", {})
    shown = [*world.told(ANA), *errors.values(), *map(_read, world.slack.open_views(ANA))]
    return any(SORRY in text for text in shown)


def _read(view: View) -> str:
    return text_of(view.body)


Fault = Callable[[pytest.MonkeyPatch, World, Kind], None]


def _in_translation(monkeypatch: pytest.MonkeyPatch, _world: World, kind: Kind) -> None:
    monkeypatch.setattr(events, kind.translated, _broken)


def _in_the_product(_patch: pytest.MonkeyPatch, world: World, _kind: Kind) -> None:
    world.entry.pause = _broken_later


def _in_the_product_after_the_ack(
    monkeypatch: pytest.MonkeyPatch, world: World, _kind: Kind
) -> None:
    monkeypatch.setattr(limits, "ACK_SECONDS", 0.01)
    monkeypatch.setattr(limits, "LOOK_SECONDS", 0.01)

    async def slow() -> None:
        await asyncio.sleep(0.1)
        raise Broken

    world.entry.pause = slow


def _in_who_people_are(monkeypatch: pytest.MonkeyPatch, _world: World, _kind: Kind) -> None:
    monkeypatch.setattr(People, "actor", _broken_later)


def _in_finding_the_workspace(monkeypatch: pytest.MonkeyPatch, world: World, _kind: Kind) -> None:
    find = world.surface._workspaces.sent_to
    failing = iter([True])

    async def sent_to(*given: Any) -> Workspace | None:
        if next(failing, False):
            raise Broken
        return await find(*given)

    monkeypatch.setattr(world.surface._workspaces, "sent_to", sent_to)


FAULTS = {
    "in translation": _in_translation,
    "in the product": _in_the_product,
    "in the product, after the ack": _in_the_product_after_the_ack,
    "in who people are": _in_who_people_are,
    "in finding the workspace": _in_finding_the_workspace,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_whatever_fails_a_person_who_acted_is_acknowledged_and_told(
    world: World,
    kind: Kind,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    act = await kind.prepare(world)
    with monkeypatch.context() as broken:
        fault(broken, world, kind)
        done = await act()
        assert done.acked
        assert done.elapsed < delivery.ACK_SECONDS
        await world.slack.until(lambda: told(world, done))
    assert world.entry.decisions == []
    assert "Broken" in caplog.text or "outlived" in caplog.text  # whoever runs it can find it


@pytest.mark.parametrize(
    ("kind", "drawing"),
    [
        ("a click that opens a form", (modals, "form")),
        ("a command", (blocks, "message")),
        ("a shortcut of a message", (blocks, "message")),
        ("a global shortcut", (blocks, "message")),
        ("a page turned", (blocks, "message")),
    ],
    indirect=["kind"],
)
@pytest.mark.parametrize("late", [False, True], ids=["before the ack", "after the ack"])
async def test_what_cannot_be_drawn_is_told_too(
    world: World,
    kind: Kind,
    drawing: tuple[Any, str],
    late: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    act = await kind.prepare(world)
    if late:
        monkeypatch.setattr(limits, "ACK_SECONDS", 0.01)
        monkeypatch.setattr(limits, "LOOK_SECONDS", 0.01)
        world.entry.pause = lambda: asyncio.sleep(0.1)
    monkeypatch.setattr(*drawing, _broken)
    done = await act()
    assert done.acked
    await world.slack.until(lambda: told(world, done))


async def test_an_answer_to_a_command_said_to_the_bot_that_cannot_be_drawn_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "message", _broken)
    await world.slack.mention(ANA, OPS, "status")
    await world.slack.until(lambda: told(world, None))


@pytest.mark.parametrize("kind", ["a click that opens a form", "a global shortcut"], indirect=True)
async def test_a_modal_that_slack_refuses_to_fill_says_so_instead(
    world: World, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOOK_SECONDS", 0.01)
    act = await kind.prepare(world)
    world.entry.pause = lambda: asyncio.sleep(0.1)
    world.slack.fail_next("views.update", "invalid_arguments")
    done = await act()
    await world.slack.until(lambda: told(world, done))


async def test_a_form_that_our_code_fails_on_stays_open_with_what_was_typed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    act = await _submit(world)
    with monkeypatch.context() as broken:
        broken.setattr(events, "submission", _broken)
        assert (await act()).errors == {"field.0": apology.SENTENCE}
    [view] = world.slack.open_views(ANA)
    assert (await world.slack.submit(ANA, view, {})).trouble == ""
    assert world.entry.decisions[-1].response == {"amount": "5", "why": "late"}


def test_a_form_without_an_input_says_so_in_its_place() -> None:
    body = {"type": "view_submission", "view": {"blocks": [{"type": "section"}]}}
    answer = apology.acknowledgement(body)
    assert answer["response_action"] == "update"
    assert apology.SENTENCE in text_of(answer["view"])


async def test_a_page_that_could_not_be_turned_is_still_there_below(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    act = await _turn(world)
    monkeypatch.setattr(events, "turned", _broken)
    await act()
    await world.slack.until(lambda: len(world.slack.open_views(ANA)) == 2)
    page, said = world.slack.open_views(ANA)
    assert SORRY in text_of(said.body)
    await world.slack.close(ANA, said)
    assert world.slack.open_views(ANA) == [page]


async def test_a_message_is_not_acknowledged_when_our_code_fails_and_comes_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "ACK_SECONDS", 0.5)
    for name, place in (("heard", events), ("actor", People)):
        with monkeypatch.context() as broken:
            broken.setattr(place, name, _broken if place is events else _broken_later)
            ts = await world.slack.direct(ANA, f"hello {name}")
        assert not any(sent.acked for _, sent in world.slack.deliveries.sent[-2:])
        assert world.entry.messages == []
        world.clock.advance(61)
        assert await world.slack.redeliver() == 1
        assert [message.source for message in world.entry.messages] == [ts]
        world.entry.messages.clear()


async def test_a_message_is_not_acknowledged_when_the_product_fails_and_comes_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "ACK_SECONDS", 0.5)
    world.entry.pause = _broken_later
    await world.slack.direct(ANA, "hello")
    assert world.slack.deliveries.pending
    world.entry.pause = None
    world.clock.advance(61)
    await world.slack.redeliver()
    assert [message.text for message in world.entry.messages] == ["hello"]


async def test_a_failed_event_nobody_waits_for_is_acknowledged(world: World) -> None:
    await world.slack.open_home(ANA)
    await world.slack.send_event({"type": "reaction_added", "user": ANA})
    assert all(sent.acked for _, sent in world.slack.deliveries.sent)


# --- A slow store


@pytest.mark.row("B22")
async def test_a_store_that_takes_almost_three_seconds_is_still_acknowledged_in_time(
    world: World, kind: Kind
) -> None:
    act = await kind.prepare(world)
    slow = [2.9]

    async def store() -> None:
        if slow:
            world.clock.advance(slow.pop())

    world.entry.pause = store
    done = await act()
    assert done.acked
    assert done.elapsed < delivery.ACK_SECONDS
    assert not told(world, done)


@pytest.mark.row("B22")
async def test_a_message_that_takes_almost_three_seconds_to_store_is_acknowledged_once(
    world: World,
) -> None:
    async def store() -> None:
        world.clock.advance(2.9)

    world.entry.pause = store
    await world.slack.direct(ANA, "hello")
    [(_, sent)] = world.slack.deliveries.sent
    assert sent.acked
    assert len(world.entry.messages) == 1


@pytest.mark.row("B22")
async def test_a_store_that_hangs_keeps_nobody_waiting(
    world: World, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    act = await kind.prepare(world)
    monkeypatch.setattr(limits, "ACK_SECONDS", 0.05)
    monkeypatch.setattr(limits, "LOOK_SECONDS", 0.05)
    held = asyncio.Event()
    world.entry.pause = held.wait
    done = await act()
    held.set()
    assert done.acked


@pytest.mark.row("B42")
@pytest.mark.parametrize("kind", ["a click that opens a form", "a global shortcut"], indirect=True)
async def test_a_modal_opens_before_anything_else_is_asked_of_slack_though_the_store_hangs(
    world: World, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    act = await kind.prepare(world)
    monkeypatch.setattr(limits, "LOOK_SECONDS", 0.05)
    held = asyncio.Event()
    world.entry.pause = held.wait
    world.slack.calls.clear()
    await act()
    view = (await world.slack.until(lambda: world.slack.open_views(ANA)))[-1]
    assert world.slack.calls[0].method == "views.open"
    assert "One moment" in text_of(view.body)
    world.clock.advance(2.9)
    held.set()
    await world.slack.until(lambda: "One moment" not in text_of(view.body))


async def test_nothing_is_logged_of_what_people_wrote_when_our_code_fails(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    act = await _submit(world)
    monkeypatch.setattr(events, "submission", _broken)
    with caplog.at_level(logging.DEBUG, "adapters"):
        await act()
    assert "late" not in caplog.text
