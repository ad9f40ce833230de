"""The whole story on Slack, from mention to result, over a real Bolt app in a process of its own
that is killed with kill -9 and started again; over Socket Mode and over signed HTTP."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.demo.effects import Effects
from tests.fakes.clock import WallClock
from tests.fakes.slack import FakeSlack, View, buttons_of, text_of
from tests.scenario import slack_process
from tests.scenario.slack_process import HOSTILE
from tests.scenario.slack_world import SECRETS

ANA, BEN, CYN, OPS = "U_ANA", "U_BEN", "U_CYN", "C_OPS"
PATIENCE = 20.0


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class Bot:
    """The bot's process, whichever is alive."""

    directory: Path
    slack: FakeSlack
    mode: str
    kill_at: str = ""
    port: int = field(default_factory=_free_port)
    process: ForkServerProcess | None = None

    async def start(self) -> None:
        self.process = slack_process.start(
            self.directory,
            self.slack.base_url,
            self.port,
            self.kill_at,
            SECRETS | {"SLACK_MODE": self.mode},
        )
        if self.mode == "http":
            self.slack.events_url = f"http://127.0.0.1:{self.port}/slack/events"
        await self._hears()

    async def _hears(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while not await self._ready():  # noqa: ASYNC110 - another process gets ready
                await asyncio.sleep(0.05)

    async def _ready(self) -> bool:
        if self.mode == "socket":
            return len(self.slack.sockets) > 0
        try:
            async with (
                aiohttp.ClientSession() as client,
                client.post(f"http://127.0.0.1:{self.port}/slack/events") as answer,
            ):
                return answer.status == 401  # unsigned: it is up and knows who it is
        except aiohttp.ClientError:
            return False

    async def _ended(self) -> int | None:
        assert self.process is not None
        while self.process.is_alive():  # noqa: ASYNC110 - another process ends
            await asyncio.sleep(0.02)
        return self.process.exitcode

    async def died(self) -> None:
        assert await asyncio.wait_for(self._ended(), PATIENCE) == -signal.SIGKILL
        self.process = None

    async def keep_alive(self) -> None:
        """Starts it again whenever it dies."""
        while True:
            await self._ended()
            await self.start()

    async def stop(self) -> None:
        if self.process is not None and self.process.is_alive():
            self.process.terminate()
            assert await asyncio.wait_for(self._ended(), PATIENCE) == 0


@dataclass
class People:
    """What people see and do in one thread."""

    slack: FakeSlack
    root: str

    def _messages(self) -> list[dict[str, Any]]:
        return self.slack.thread(OPS, self.root)

    async def card(self, title: str, *, open_: bool = True) -> dict[str, Any]:
        """The card with this title, once it is there and has (or has lost) its buttons."""
        return await self.slack.until(lambda: self._card(title, open_), seconds=PATIENCE)

    def _card(self, title: str, open_: bool) -> dict[str, Any] | None:
        found = [one for one in self._messages() if title in text_of(one)]
        return next((one for one in found if bool(buttons_of(one)) is open_), None)

    def count(self, text: str) -> int:
        return sum(text in text_of(one) for one in self._messages())

    async def reads(self, text: str) -> None:
        await self.slack.until(lambda: self.count(text), seconds=PATIENCE)

    async def told(self, who: str, text: str) -> None:
        await self.slack.until(
            lambda: [one for one in self.slack.ephemerals(who) if text in text_of(one)],
            seconds=PATIENCE,
        )

    async def form(self, who: str, title: str, button: str) -> View:
        card = await self.card(title)
        await self.slack.click(who, OPS, card["ts"], button)
        return await self.slack.until(
            lambda: next(
                (view for view in self.slack.open_views(who) if "submit" in view.body), None
            ),
            seconds=PATIENCE,
        )


@pytest.fixture(params=["socket", "http"])
async def bot(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bot]:
    async with FakeSlack(WallClock()) as slack:
        bot = Bot(tmp_path, slack, request.param)
        yield bot
        await bot.stop()


async def test_from_mention_to_result_across_a_kill(bot: Bot, tmp_path: Path) -> None:
    slack, effects = bot.slack, Effects(tmp_path)
    await bot.start()
    people = People(slack, await slack.mention(ANA, OPS, "checkout is slow"))

    # The right person, after the wrong one was refused.
    card = await people.card("wants to run restart_service")
    assert HOSTILE in text_of(card)  # shown whole, and inert: see the pings below
    await slack.click(CYN, OPS, card["ts"], "Approve")
    await people.told(CYN, "not among the approvers")
    await slack.click(BEN, OPS, card["ts"], "Approve")
    settled = await people.card("Approved by ben", open_=False)
    assert settled["ts"] == card["ts"]

    # A form: what does not fit is said at its input.
    form = await people.form(ANA, "open_ticket asks", "Answer")
    entered = {"Severity": "High", "Summary": "slow", "Customers affected": "-5"}
    refused = await slack.submit(ANA, form, entered)
    assert len(refused.errors or {}) == 1
    entered["Customers affected"] = "120"
    accepted = await slack.submit(ANA, form, entered)
    assert not accepted.errors
    await people.card("Answered by ana", open_=False)

    # Killed between the effect and its record; a new process asks, and runs nothing again.
    effects.trap.touch()
    card = await people.card("wants to run roll_back")
    await slack.click(BEN, OPS, card["ts"], "Approve")
    await bot.died()
    await bot.start()
    form = await people.form(BEN, "What came of roll_back?", "Answer")
    await slack.submit(BEN, form, {"What happened": "It ran", "Note to the agent": "v41 is live"})
    await people.reads("checkout runs v41 again.")

    assert effects.count() == {"restart_service": 1, "open_ticket": 1, "roll_back": 1}
    assert people.count("wants to run restart_service") == 1
    assert people.count("wants to run roll_back") == 1
    assert people.count("What came of roll_back?") == 1
    assert people.count("checkout runs v41 again.") == 1
    # Only deciders are mentioned, on their cards, and in copies who asked and where; the hostile
    # text pinged nobody, and its link shows the address it leads to.
    tokens = {ping.token for ping in slack.pings if ping.kind != "link"}
    assert tokens <= {f"<@{BEN}>", f"<@{ANA}>", f"<#{OPS}>"}
    links = {ping.token for ping in slack.pings if ping.kind == "link"}
    thread = f"<https://t1.slack.test/archives/{OPS}/p{people.root.replace('.', '')}|"
    labels = [one.partition("|")[2] for one in links if not one.startswith(thread)]
    assert all(label.startswith("https://evil.test") for label in labels)


POINTS = [
    "after take_message",
    "before record_turn",
    "after record_turn",
    "after claim_delivery",
    "before record_delivery",
    "after decide",
    "before claim_call",
    "before send_results",
]


def directs(slack: FakeSlack, who: str) -> list[dict[str, Any]]:
    """The copies of the first card that this person was sent."""
    there = slack.world.channels[slack.direct_channel(who)].messages.values()
    return [one for one in there if "wants to run restart_service" in text_of(one)]


@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_a_point_it_goes_on(point: str, tmp_path: Path) -> None:
    async with FakeSlack(WallClock()) as slack:
        bot = Bot(tmp_path, slack, "socket", kill_at=point)
        await bot.start()
        guard = asyncio.create_task(bot.keep_alive())
        people = People(slack, await slack.mention(ANA, OPS, "checkout is slow"))
        await slack.until(lambda: people.count("wants to run restart_service"), seconds=PATIENCE)
        card = await people.card("wants to run restart_service")
        await slack.click(BEN, OPS, card["ts"], "Approve")
        await people.card("Approved by ben", open_=False)
        await people.reads("open_ticket asks")
        guard.cancel()
        await asyncio.gather(guard, return_exceptions=True)
        assert (tmp_path / "killed").exists()
        assert Effects(tmp_path).count() == {"restart_service": 1}
        assert people.count("wants to run restart_service") == 1
        assert people.count("checkout is slow.") == 1
        await slack.until(lambda: directs(slack, BEN), seconds=PATIENCE)
        assert len(directs(slack, BEN)) == 1
        await bot.stop()
