"""What `interlock doctor` looks at: the database, the MCP servers, every configured surface.

It changes nothing and takes nothing from a bot that runs meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any

from bot.app import open_adapter
from bot.clock import Clock
from bot.config import Config, policies_of, sources_of
from bot.core import Core, ToolSource, ToolsUnavailable
from bot.embedded import EmbeddedEngine
from bot.finding import Finding, Health, gathered, ok, problem
from bot.secrets import ConfigError
from bot.service import Service
from storage import chats
from storage.database import Database, DatabaseUnavailable
from storage.migrate import is_current
from storage.place import Place

CHANNELS = 20  # the newest of each surface that are looked at
SURFACE_SECONDS = 120.0  # for all checks of one surface, which have limits of their own


async def examine(config: Config, clock: Clock) -> list[Finding]:
    """Everything that was found, in the order of the configuration."""
    database = Database(config.database)
    try:
        checks = [gathered("Database", _database(database))]
        checks += _servers(config, clock)
        checks += [
            gathered(name, _surface(name, section, config, database, clock), SURFACE_SECONDS)
            for name, section in config.surfaces.items()
        ]
        found = await asyncio.gather(*checks)
    finally:
        await database.close()
    return [one for some in found for one in some]


def well(found: list[Finding]) -> bool:
    """Whether nothing is broken; warnings are for a person to judge."""
    return all(one.health is not Health.PROBLEM for one in found)


async def _database(database: Database) -> AsyncIterator[Finding]:
    where = database.url.render_as_string(hide_password=True)
    try:
        current = await is_current(database)
    except DatabaseUnavailable:
        yield problem("Database", f"{where} does not answer: check `database`.")
        return
    if not current and not database.sqlite:
        yield problem("Database", f"{where} needs `interlock db upgrade`.")
    else:
        yield ok("Database", f"{where} answers.")


def _servers(config: Config, clock: Clock) -> list[Coroutine[Any, Any, list[Finding]]]:
    try:
        sources = sources_of(config, clock)
    except ConfigError as error:
        return [gathered("MCP servers", _wrong("MCP servers", error))]
    return [
        gathered(f"MCP server {name}", _source(f"MCP server {name}", source), SURFACE_SECONDS)
        for name, source in sources.items()
    ]


async def _wrong(what: str, error: ConfigError) -> AsyncIterator[Finding]:
    yield problem(what, str(error))


async def _source(what: str, source: ToolSource) -> AsyncIterator[Finding]:
    """Connects to a server and lists its tools."""
    try:
        await source.start()
        offered = await source.tools()
    except ConfigError as error:
        yield problem(what, str(error))
    except ToolsUnavailable:
        yield problem(what, source.health())
    else:
        yield ok(what, f"It offers {len(offered)} tools. {source.health()}")
    finally:
        await source.stop()


async def _surface(
    name: str, section: Mapping[str, Any], config: Config, database: Database, clock: Clock
) -> AsyncIterator[Finding]:
    """What the adapter finds: where its chats live and who approves there is the product's to
    say. Nothing is run, so that neither model, tool nor server is needed."""
    rest = dict(section)
    agent = rest.pop("agent", None)
    if agent is not None and agent not in config.agents:
        yield problem(name, f"surfaces.{name}: there is no agent {agent}: name one of [agents.*].")
    wake = EmbeddedEngine(database, clock).wake
    try:
        policies = policies_of(config)
        core = Core(db=database, clock=clock, wake=wake, policies=policies)
        adapter = open_adapter(name, rest, Service(core, agent=agent or ""), clock, database)
    except ConfigError as error:
        yield problem(name, str(error))
        return
    named = policies.groups.union(*(one.in_the_end.people for one in policies.policies))
    people = sorted(one for one in named if one.startswith(f"{adapter.name}:"))
    for finding in await adapter.check(await _places(database, adapter.name), people):
        yield finding


async def _places(database: Database, surface: str) -> list[Place]:
    """None where the database has no rows to ask, which is a finding of its own."""
    try:
        if not await is_current(database):
            return []
        async with database.read() as tx:
            return await chats.channels(tx, surface, CHANNELS)
    except DatabaseUnavailable:
        return []
