"""The console opened from its settings, and as an adapter."""

import asyncio
import getpass
import io
import sys
from typing import cast

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from adapters.console import open_surface
from adapters.console.surface import ConsoleSurface
from bot.card import Card, CardState, Kind
from bot.secrets import ConfigError
from bot.surface import Adapter, Entry, Message, Place, Reply
from storage.database import Database
from tests.fakes.clock import FakeClock

NOBODY = cast(Entry, None)  # what these tests never get to
NOWHERE = cast(Database, None)


def opened(out: io.StringIO) -> ConsoleSurface:
    console = Console(file=out, width=80, no_color=True)
    return ConsoleSurface(NOBODY, user="ana", thread="main", console=console)


def test_who_sits_there_and_where_come_from_the_settings() -> None:
    surface: Adapter = open_surface({"user": "ana", "thread": "t1"}, NOBODY, FakeClock(), NOWHERE)
    assert isinstance(surface, ConsoleSurface)
    assert surface.actor.key == "console:local/ana"
    assert surface.place.channel_key == "console:local/console"
    assert surface.place.root == "t1"


def test_without_settings_it_is_the_login_in_the_thread_main(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "login")
    surface = open_surface({}, NOBODY, FakeClock(), NOWHERE)
    assert (surface.actor.user, surface.place.root) == ("login", "main")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"user": " "}, "surfaces.console.user"),
        ({"thread": 5}, "surfaces.console.thread"),
        ({"colour": "red"}, "surfaces.console.colour"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        open_surface(settings, NOBODY, FakeClock(), NOWHERE)


def test_a_login_without_a_name_is_asked_for_in_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nameless() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nameless)
    with pytest.raises(ConfigError, match=r"surfaces\.console\.user is missing"):
        open_surface({}, NOBODY, FakeClock(), NOWHERE)


async def test_a_post_is_printed_and_its_id_edits_it() -> None:
    out = io.StringIO()
    surface = opened(out)
    posted = await surface.post(surface.place, Reply("Half"), "nonce")
    await surface.edit(surface.place, posted.message_id, Reply("Half and half"))
    assert out.getvalue() == "▌ Half\n▌ and half\n"


async def test_a_terminal_keeps_nothing_that_could_be_found() -> None:
    surface = opened(io.StringIO())
    await surface.post(surface.place, Reply("hello"), "nonce")
    assert await surface.find(surface.place, "nonce") is None


async def test_a_whisper_names_who_it_is_for_unless_they_sit_here() -> None:
    out = io.StringIO()
    surface = opened(out)
    await surface.whisper(surface.place, "ana", "for you")
    await surface.whisper(surface.place, "ben", "for another")
    assert out.getvalue() == "  for you\n  (to ben) for another\n"


def test_a_reply_is_never_split_and_nothing_is_served() -> None:
    surface = opened(io.StringIO())
    assert surface.split("x" * 100_000) == ["x" * 100_000]
    assert surface.routes() == []


async def test_without_a_terminal_it_prints_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("/approve 1\n"))
    started = asyncio.Event()
    running = asyncio.create_task(opened(io.StringIO()).run(started))
    await asyncio.wait_for(started.wait(), 5)
    await asyncio.sleep(0)
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


class Listening:
    """An entry that notes what was said."""

    def __init__(self) -> None:
        self.said: list[Message] = []

    async def message(self, event: Message) -> bool:
        self.said.append(event)
        return True

    async def open_cards(self, place: Place) -> list[Card]:
        approval = Kind.APPROVAL
        state = CardState.OPEN
        title = "asked before the restart"
        return [Card(nonce="n", version=1, kind=approval, state=state, title=title, agent="ops")]


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_on_a_terminal_lines_are_read_until_ctrl_d(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Tty())
    out, entry = io.StringIO(), Listening()
    console = Console(file=out, width=80, no_color=True)
    surface = ConsoleSurface(cast(Entry, entry), user="ana", thread="main", console=console)
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("hello\rhello\r\x03\x04")
        await asyncio.wait_for(surface.run(asyncio.Event()), 10)
    assert [one.text for one in entry.said] == ["hello", "hello"]
    assert len({one.keys for one in entry.said}) == 2
    assert {one.place for one in entry.said} == {surface.place}
    assert all(one.starts and one.actor == surface.actor for one in entry.said)
    assert "asked before the restart" in out.getvalue()
    assert "Ctrl-D or `/quit` leaves." in out.getvalue()
