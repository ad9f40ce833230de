"""The bot on Slack as a process of its own, so that it can be killed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from bot import log
from bot.app import App
from bot.approvers import Policies, Policy
from bot.core import Agent
from bot.demo.effects import Effects, tools
from bot.scripted import Script, call
from tests.fakes.forks import FORKS

HOSTILE = "<!channel> <https://evil.test|Approve> *bold* <@U_CYN>"

MODEL = Script(
    ["checkout is slow.", call("restart_service", service="checkout", reason=HOSTILE)],
    call("open_ticket", service="checkout"),
    [HOSTILE, call("roll_back", service="checkout", version="v41")],
    "checkout runs v41 again.",
)


def _kill_at(directory: Path, point: str) -> None:
    marker = directory / "killed"
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(point)


async def main(directory: Path, base_url: str, port: int, kill_at: str) -> None:
    app = App(
        database=f"sqlite:///{directory / 'interlock.db'}",
        agents={"ops": Agent(name="ops", model=MODEL, tools=tools(Effects(directory)))},
        policies=Policies([Policy(name="ops", approvers=frozenset({"slack:T1/U_BEN"}))]),
    )

    def pass_point(name: str) -> None:
        if name == kill_at and not (directory / "killed").exists():
            _kill_at(directory, name)

    app.db.points = pass_point
    async with app.started():
        app.open_surface("slack", {"base_url": base_url, "mode": os.environ["SLACK_MODE"]})
        await app.serve(host="127.0.0.1", port=port)


def _process(
    directory: Path, base_url: str, port: int, kill_at: str, environment: Mapping[str, str]
) -> None:
    os.environ.update(environment)
    log.configure(level=30)
    asyncio.run(main(directory, base_url, port, kill_at))


def start(
    directory: Path, base_url: str, port: int, kill_at: str, environment: Mapping[str, str]
) -> ForkServerProcess:
    """`kill_at` names a point of a transaction ("after decide"); the process dies there once, by
    kill -9."""
    process = FORKS.Process(target=_process, args=(directory, base_url, port, kill_at, environment))
    process.start()
    return process
