"""The tools of one configured server: listed, filtered, named, kept up to date."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from bot.clock import Clock
from bot.core import ToolsUnavailable
from bot.mcp.connection import Connection
from bot.mcp.elicitation import Kinds
from bot.mcp.failure import ConnectionFailed
from bot.mcp.rounds import InputCallback, Judge
from bot.mcp.settings import ServerSettings
from bot.mcp.tools import Link, McpTool, tool_of
from bot.secrets import ConfigError
from bot.tool import Tool, takes

log = structlog.get_logger(__name__)

LIST_SECONDS = 60.0  # how old a list may be when the server does not say how long it holds
LONGEST_LIST_SECONDS = 300.0  # however long it says


class McpServer:
    """Implements bot.core.ToolSource. `before_input_request`: callbacks that see every question
    of the server before people do (row M1)."""

    def __init__(
        self,
        name: str,
        settings: ServerSettings,
        clock: Clock,
        *,
        before_input_request: Sequence[InputCallback] = (),
        dice: random.Random | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.connection = Connection(name, settings, clock, on_list_changed=self._changed)
        judge = Judge(name, Kinds(settings.questions), before_input_request, self._refused)
        self._link = Link(
            connection=self.connection,
            settings=settings,
            judge=judge,
            clock=clock,
            dice=dice or random.Random(),
        )
        self._clock = clock
        self._tools: list[McpTool] | None = None
        self._listed_at = 0.0
        self._changes = 0
        self._hidden: set[str] = set()
        self._missing: frozenset[str] = frozenset()

    async def start(self) -> None:
        """Connects, and checks that what configuration names is there. A server that does not
        answer now is tried again later. Raises ConfigError."""
        await self.connection.start()
        try:
            await self.tools()
        except ToolsUnavailable as error:
            log.warning("a server does not answer at the start", server=self.name, why=str(error))
            return
        if self._missing:
            raise ConfigError(self._missing_sentence())

    async def stop(self) -> None:
        await self.connection.stop()

    async def tools(self, *, fresh: bool = False) -> Sequence[Tool]:
        """A list that is fresh enough, or the last known one while the server is away."""
        ttl = self.connection.tools_ttl
        holds = LIST_SECONDS if ttl is None else min(ttl, LONGEST_LIST_SECONDS)
        if not fresh and self._tools is not None and self._clock.now() - self._listed_at < holds:
            return self._tools
        changes = self._changes
        try:
            offered = await self.connection.list_tools()
        except ConnectionFailed as error:
            if self._tools is None:
                raise ToolsUnavailable(
                    f"the server {self.name} does not answer; try again later."
                ) from error
            log.warning("a server's tools cannot be listed", server=self.name, why=str(error))
            return self._tools
        self._tools = sorted(
            (
                tool_of(self._link, self.name, one)
                for one in offered
                if self.settings.offers(one.name) and self._usable(one.name, one.execution)
            ),
            key=lambda tool: tool.name,
        )
        # A change that was announced meanwhile may not be in it.
        self._listed_at = self._clock.now() if self._changes == changes else 0.0
        self._look_for_missing({one.name: one.input_schema for one in offered})
        return self._tools

    def known(self, name: str) -> Tool | None:
        return next((one for one in self._tools or () if one.name == name), None)

    def health(self) -> str:
        """A sentence for `interlock doctor`."""
        return self._missing_sentence() if self._missing else self.connection.health

    def _usable(self, name: str, execution: object) -> bool:
        """Tools that only run as tasks of 2025-11-25 are hidden (platforms/mcp.md 3b)."""
        if getattr(execution, "task_support", None) != "required":
            return True
        if name not in self._hidden:  # said once, not with every list
            self._hidden.add(name)
            log.warning(
                "a tool is hidden: it runs only as a task of MCP 2025-11-25, which we do not have",
                server=self.name,
                tool=name,
            )
        return False

    def _look_for_missing(self, offered: Mapping[str, Mapping[str, Any]]) -> None:
        """Tools, and arguments fixed for them, that configuration names and the server lacks."""
        lacking = {
            f"{tool}.{argument}"
            for tool, fixed in self.settings.fixed.items()
            for argument in fixed
            if tool in offered and not takes(offered[tool], argument)
        }
        missing = frozenset((self.settings.named_tools() - set(offered)) | lacking)
        if missing and missing != self._missing:
            log.error("a server lacks tools that are configured", server=self.name, tools=missing)
        self._missing = missing

    def _missing_sentence(self) -> str:
        names = ", ".join(sorted(self._missing))
        return (
            f"servers.{self.name} names {names}, which the server does not offer: "
            "correct the name or remove it."
        )

    def _changed(self) -> None:
        self._changes += 1
        self._listed_at = 0.0

    def _refused(self, why: str) -> None:
        log.info("a server's question was not shown", server=self.name, why=why)
