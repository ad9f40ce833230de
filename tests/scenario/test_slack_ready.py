"""Whether the bot hears people: its watchdog over a deaf socket, and what its web server says."""

from __future__ import annotations

import asyncio
import contextlib
import socket as sockets_of_the_machine
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from adapters.slack import sockets
from adapters.slack.transport import SlackSurface
from bot import app as app_module
from bot.app import App
from bot.approvers import Policies
from bot.core import Agent
from storage.database import DatabaseUnavailable
from tests.fakes.clock import FakeClock, WallClock
from tests.fakes.model import script
from tests.fakes.slack import FakeSlack
from tests.scenario.slack_world import Mode, StubEntry, World, living, running


@pytest.fixture
async def socket() -> AsyncIterator[World]:
    async for made in living("socket"):
        yield made


@pytest.fixture
async def pinged(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """The SDK pings, and misses answers, by the real clock."""
    monkeypatch.setattr(sockets, "PING_SECONDS", 0.6)
    async for made in living("socket"):
        yield made


# --- The watchdog


def _client(world: World) -> Any:
    assert world.surface._socket is not None
    return world.surface._socket._connected


def _nobody_reads(world: World) -> None:
    _client(world).message_receiver.cancel()


def _nobody_handles(world: World) -> None:
    _client(world).message_processor.cancel()


def _nobody_answers_pings(world: World) -> None:
    world.slack.sockets.fall_silent()
    _client(world).current_session_monitor.cancel()  # else the SDK itself connects again


async def _watched(world: World) -> None:
    for _ in range(sockets.DEAF_CHECKS + 1):
        await asyncio.sleep(0.02)
        world.clock.advance(sockets.WATCH_SECONDS)


async def _not_ready(surface: SlackSurface) -> None:
    async with asyncio.timeout(5):
        while await surface.ready():  # noqa: ASYNC110 - the SDK finds out in its own time
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("deafen", [_nobody_reads, _nobody_handles])
async def test_a_deaf_socket_is_not_ready_is_made_anew_and_events_flow_again(
    socket: World, deafen: Callable[[World], None], caplog: pytest.LogCaptureFixture
) -> None:
    await _recovers(socket, deafen, caplog)


async def test_a_dead_line_that_the_sdk_does_not_watch_is_made_anew(
    pinged: World, caplog: pytest.LogCaptureFixture
) -> None:
    await _recovers(pinged, _nobody_answers_pings, caplog)


async def _recovers(
    socket: World, deafen: Callable[[World], None], caplog: pytest.LogCaptureFixture
) -> None:
    assert await socket.surface.ready()
    before = _client(socket)
    deafen(socket)
    await _not_ready(socket.surface)

    await _watched(socket)
    await socket.slack.until(lambda: "made anew" in caplog.text)
    await socket.slack.until(lambda: _client(socket) not in (None, before))

    assert await socket.surface.ready()
    await socket.slack.until(lambda: len(socket.slack.sockets) == 1)
    await socket.slack.direct("U_ANA", "hello")
    assert [message.text for message in socket.entry.messages] == ["hello"]


async def test_a_line_that_answers_no_ping_is_left_by_itself(pinged: World) -> None:
    pinged.slack.sockets.fall_silent()
    opened = len(pinged.slack.calls_of("apps.connections.open"))
    await pinged.slack.until(
        lambda: len(pinged.slack.calls_of("apps.connections.open")) > opened, seconds=10
    )
    await pinged.slack.until(lambda: len(pinged.slack.sockets) == 1)
    await pinged.slack.direct("U_ANA", "hello")
    assert len(pinged.entry.messages) == 1


async def test_a_socket_that_is_heard_is_left_alone(socket: World) -> None:
    before = _client(socket)
    await _watched(socket)
    await _watched(socket)
    assert _client(socket) is before


async def test_a_slack_that_is_away_while_the_socket_is_made_anew_is_tried_until_it_is_back(
    socket: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sockets, "CONNECT_SECONDS", 0.2)
    socket.slack.down = True
    _nobody_handles(socket)
    await _watched(socket)
    await socket.slack.until(lambda: "tried anew" in caplog.text)
    assert not await socket.surface.ready()

    monkeypatch.setattr(sockets, "CONNECT_SECONDS", 5.0)
    socket.slack.down = False
    await socket.slack.until(lambda: len(socket.slack.sockets) == 1)
    await socket.slack.until(lambda: _client(socket))
    assert await socket.surface.ready()
    await socket.slack.direct("U_ANA", "hello")
    assert len(socket.entry.messages) == 1


async def test_over_http_it_is_ready_once_slack_said_who_we_are_and_no_longer() -> None:
    async with FakeSlack(clock=FakeClock()) as slack:
        async with running(slack, StubEntry(), "http") as surface:
            assert await surface.ready()
        assert not await surface.ready()


# --- The web server


class Probe:
    """The whole program behind its own web server."""

    def __init__(self, app: App, slack: FakeSlack, port: int) -> None:
        self.app = app
        self.slack = slack
        self._base = f"http://127.0.0.1:{port}"

    async def get(self, path: str) -> tuple[int, Any]:
        async with aiohttp.ClientSession() as client, client.get(self._base + path) as answer:
            return answer.status, await answer.json()

    async def parts(self, **expected: bool) -> None:
        """Waits until /readyz says this of the parts."""
        status, said = 0, dict[str, Any]()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                while said.get("parts") != expected:
                    status, said = await self.get("/readyz")
                    await asyncio.sleep(0.01)
        ok = all(expected.values())
        assert (status, said) == (200 if ok else 503, {"ok": ok, "parts": expected})


@contextlib.asynccontextmanager
async def serving(tmp_path: Path, mode: Mode, slack: FakeSlack) -> AsyncIterator[Probe]:
    with sockets_of_the_machine.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    agents = {"ops": Agent(name="ops", model=script("hi"))}
    app = App(database=f"sqlite:///{tmp_path / 'x.db'}", agents=agents, policies=Policies())
    async with app.started():
        app.open_surface("slack", {"mode": mode, "base_url": slack.base_url})
        task = asyncio.create_task(app.serve(host="127.0.0.1", port=port))
        try:
            probe = Probe(app, slack, port)
            async with asyncio.timeout(5):
                while True:
                    with contextlib.suppress(aiohttp.ClientConnectionError):
                        await probe.get("/healthz")
                        break
                    await asyncio.sleep(0.01)
            yield probe
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("mode", ["http", "socket"])
async def test_readiness_waits_for_slack_and_health_does_not(tmp_path: Path, mode: Mode) -> None:
    async with FakeSlack(WallClock()) as slack:
        slack.down = True
        async with serving(tmp_path, mode, slack) as probe:
            await probe.parts(database=True, slack=False)
            assert await probe.get("/healthz") == (200, {"ok": True})
            slack.down = False
            await probe.parts(database=True, slack=True)


async def test_readiness_names_a_deaf_socket(tmp_path: Path) -> None:
    async with FakeSlack(WallClock()) as slack, serving(tmp_path, "socket", slack) as probe:
        await probe.parts(database=True, slack=True)
        [surface] = probe.app.adapters
        assert isinstance(surface, SlackSurface)
        assert surface._socket is not None
        surface._socket._connected.message_receiver.cancel()
        await probe.parts(database=True, slack=False)
        assert (await probe.get("/healthz"))[0] == 200


@pytest.mark.parametrize("hangs", [False, True], ids=["refuses", "hangs"])
async def test_readiness_names_a_database_that_does_not_answer(
    tmp_path: Path, hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.asynccontextmanager
    async def gone() -> AsyncIterator[None]:
        if hangs:
            await asyncio.Event().wait()
        raise DatabaseUnavailable
        yield

    async with FakeSlack(WallClock()) as slack, serving(tmp_path, "http", slack) as probe:
        await probe.parts(database=True, slack=True)
        monkeypatch.setattr(app_module, "READY_SECONDS", 0.05)
        monkeypatch.setattr(probe.app.db, "read", gone)
        await probe.parts(database=False, slack=True)
        assert (await probe.get("/healthz"))[0] == 200
        monkeypatch.undo()
        await probe.parts(database=True, slack=True)
