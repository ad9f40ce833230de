"""The demonstration's tools. Each effect is one line in a file, so that it can be counted from
outside, whatever becomes of the process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bot.ask_user_tool import ask_user_tool, in_thread
from bot.field import Choice, Field, FieldType
from bot.tool import Call, Tool, tool


@dataclass(frozen=True, slots=True)
class Effects:
    """The file of effects, and the trap that kills the process once, right after an effect."""

    directory: Path

    @property
    def _file(self) -> Path:
        return self.directory / "effects.log"

    @property
    def rollouts(self) -> Path:
        """What the MCP server of the story wrote: a line for each rollout."""
        return self.directory / "deploys" / "effects.log"

    @property
    def trap(self) -> Path:
        return self.directory / "kill-after-roll-back"

    async def happen(self, name: str) -> None:
        await asyncio.to_thread(self._append, name)

    def _append(self, name: str) -> None:
        with self._file.open("a") as file:
            file.write(f"{name}\n")
            file.flush()
            os.fsync(file.fileno())

    def count(self) -> Counter[str]:
        counted: Counter[str] = Counter()
        if self._file.exists():
            counted.update(self._file.read_text().split())
        if self.rollouts.exists():
            counted["rollout"] = len(self.rollouts.read_text().splitlines())
        return counted

    def spring(self) -> None:
        """kill -9, if the trap is set: the effect is there, its record is not."""
        if self.trap.exists():
            self.trap.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def tools(effects: Effects) -> list[Tool]:
    @tool
    async def restart_service(service: str, reason: str) -> str:
        """Restarts a service."""
        await effects.happen("restart_service")
        return f"{service} was restarted"

    @tool(approval="never")
    async def open_ticket(call: Call, service: str) -> str:
        """Opens a ticket after asking what belongs in it."""
        answers = await call.ask(
            f"A ticket for {service}:",
            Field(
                "severity",
                title="Severity",
                choices=[
                    Choice("low", "Low", "Nobody notices"),
                    Choice("high", "High", "Customers notice"),
                ],
            ),
            Field("summary", title="Summary", max_length=200),
            Field("customers", FieldType.INTEGER, title="Customers affected", minimum=0),
        )
        if answers is None:
            return "nobody wanted a ticket"
        await call.once("file", lambda: effects.happen("open_ticket"))
        return f"ticket filed with severity {answers['severity']}"

    @tool
    async def roll_back(service: str, version: str) -> str:
        """Rolls a service back to an earlier version."""
        await effects.happen("roll_back")
        effects.spring()
        return f"{service} runs {version}"

    return [restart_service, open_ticket, roll_back, ask_user_tool(in_thread)]
