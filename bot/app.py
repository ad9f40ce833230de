"""The running program: everything wired together, from the start to a graceful stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from enum import StrEnum
from importlib.metadata import entry_points
from typing import Any, assert_never

import structlog
from aiohttp import web

from bot.approvers import Policies
from bot.clock import Clock, WallClock
from bot.config import without_approver
from bot.core import Agent, Core, Job, new_id
from bot.deliver import Deliverer
from bot.embedded import POLL_SECONDS, EmbeddedEngine
from bot.jobs import Engine, EngineKind, Handler
from bot.loop import Loop
from bot.rule_settings import RuleSettings, problems, sync
from bot.secrets import ConfigError
from bot.service import Service
from bot.surface import Adapter, Entry
from bot.task import Tasks
from bot.timers import Timers
from storage import chats
from storage.database import Database, DatabaseUnavailable
from storage.migrate import is_current, upgrade
from storage.single import OtherEngine, SecondProcess, one_of_many, only_process

log = structlog.get_logger(__name__)

ADAPTERS = "interlock.adapters"
READY_SECONDS = 2.0  # how long /readyz waits for the database


def open_adapter(
    name: str, settings: Mapping[str, Any], entry: Entry, clock: Clock, database: Database
) -> Adapter:
    """The adapter of this name, by the settings of `[surfaces.NAME]` that are its own. Raises
    ConfigError."""
    found = next(iter(entry_points(group=ADAPTERS, name=name)), None)
    if found is None:
        raise ConfigError(f"surfaces.{name}: no adapter of this name is installed.")
    adapter: Adapter = found.load()(settings, entry, clock, database)
    return adapter


class Role(StrEnum):
    """What a replica does: hears people, carries chats on and posts, or both."""

    ALL = "all"
    WEB = "web"
    WORKER = "worker"


class App:
    """One process: the only one, or a replica."""

    def __init__(
        self,
        *,
        database: str,
        agents: Mapping[str, Agent],
        policies: Policies,
        rules: Sequence[RuleSettings] = (),
        clock: Clock | None = None,
        poll_seconds: float = POLL_SECONDS,
        jobs: EngineKind = EngineKind.EMBEDDED,
        role: Role = Role.ALL,
    ) -> None:
        """Raises ConfigError."""
        self.clock = clock or WallClock()
        self.db = Database(database)
        self.jobs = jobs
        self.role = role
        self.engine = self._engine(poll_seconds)
        self.core = Core(
            db=self.db,
            clock=self.clock,
            wake=self.engine.wake,
            policies=policies,
            agents=agents,
        )
        self.rules = rules
        self.adapters: list[Adapter] = []
        self._ready = False

    def _engine(self, poll_seconds: float) -> Engine:
        match self.jobs:
            case EngineKind.EMBEDDED if self.role is not Role.ALL:
                raise ConfigError(
                    'With `jobs = "embedded"` one process does everything: set it to '
                    '"distributed", or leave out --role.'
                )
            case EngineKind.EMBEDDED:
                return EmbeddedEngine(self.db, self.clock, poll_seconds=poll_seconds)
            case EngineKind.DISTRIBUTED:
                return distributed(self.db, self.clock)
            case unreachable:
                assert_never(unreachable)

    def service(self, agent: str | None = None) -> Service:
        """The entry for a surface whose threads are answered by this agent."""
        name = agent or next(iter(self.core.agents))
        if name not in self.core.agents:
            raise ConfigError(f"There is no agent {name}: name one of [agents.*].")
        return Service(self.core, agent=name)

    def open_surface(self, name: str, settings: Mapping[str, Any]) -> Adapter:
        """Opens the adapter of this name (`[surfaces.NAME]`). Raises ConfigError."""
        rest = dict(settings)
        agent = rest.pop("agent", None)
        adapter = open_adapter(name, rest, self.service(agent), self.clock, self.db)
        self.core.surfaces[adapter.name] = adapter
        self.adapters.append(adapter)
        return adapter

    @contextlib.asynccontextmanager
    async def started(self) -> AsyncIterator[None]:
        """The database is ready and ours alone, and what a dead process left is taken up.

        Raises ConfigError."""
        try:
            hold = only_process if self.jobs is EngineKind.EMBEDDED else one_of_many
            async with hold(self.db):
                await self._prepare()
                await self.engine.recover()
                async with self._servers():
                    self._ready = True
                    yield
        except (SecondProcess, OtherEngine) as error:
            raise ConfigError(str(error)) from error
        except DatabaseUnavailable as error:
            if self._ready:
                raise
            where = self.db.url.render_as_string(hide_password=True)
            raise ConfigError(
                f"The database {where} cannot be opened ({_cause(error)}): check `database`."
            ) from error
        finally:
            self._ready = False
            await self.db.close()

    @contextlib.asynccontextmanager
    async def _servers(self) -> AsyncIterator[None]:
        """The servers that agents take tools from, connected while the program runs."""
        sources = {one.name: one for agent in self.core.agents.values() for one in agent.sources}
        async with contextlib.AsyncExitStack() as started:
            for source in sources.values():
                started.push_async_callback(source.stop)
                await source.start()
            await self._refuse_unapprovable()
            await self._keep_rules()
            yield

    async def _refuse_unapprovable(self) -> None:
        """As for our own tools (bot.config), once the servers have told theirs."""
        agents = self.core.agents
        offered = {name: await agent.offered() for name, agent in agents.items() if agent.sources}
        wrong = without_approver(agents, self.core.policies, offered)
        if wrong and offered:
            raise ConfigError("\n".join(dict.fromkeys(wrong)))

    async def _keep_rules(self) -> None:
        """The standing rules of the configuration, once all tools are known."""
        if wrong := list(problems(self.core, self.rules)):
            raise ConfigError("\n".join(wrong))
        await sync(self.core, self.rules)

    async def _prepare(self) -> None:
        if self.db.sqlite:
            await upgrade(self.db)
        elif not (await is_current(self.db) and await self._wakes()):
            raise ConfigError(
                "The database has not the tables of this version: run `interlock db upgrade`."
            )

    async def _wakes(self) -> bool:
        """Whether the engine has what it needs in the database."""
        if self.jobs is EngineKind.EMBEDDED:
            return True
        from bot.distributed import is_prepared  # an extra

        return await is_prepared(self.db)

    async def run(self) -> None:
        """Does what its role says until cancelled, or until a surface ends."""
        engine = asyncio.create_task(self._work())
        hears = self.role is not Role.WORKER
        ears = [asyncio.create_task(one.run(asyncio.Event(), hears=hears)) for one in self.adapters]
        try:
            done, _ = await asyncio.wait([engine, *ears], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            # First deaf, then idle: what was heard is durable, what runs gets its grace.
            for ear in ears:
                ear.cancel()
            await asyncio.gather(*ears, return_exceptions=True)
            engine.cancel()
            await asyncio.gather(engine, return_exceptions=True)

    async def _work(self) -> None:
        if self.role is Role.WEB:
            await asyncio.Event().wait()
        await self.engine.run(handlers_of(self.core, owner=new_id("process")))

    async def serve(self, *, host: str, port: int) -> None:
        """`run` with the one web server, until SIGTERM or SIGINT."""
        await until_told(lambda: self._serve(host, port))

    async def _serve(self, host: str, port: int) -> None:
        runner = web.AppRunner(self._web(), access_log=None)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, host, port).start()
            except OSError as error:
                raise ConfigError(
                    f"server.port {port} on {host} cannot be used ({error.strerror}): "
                    "choose another, or stop what uses it."
                ) from error
            log.info("serving", addresses=[list(one) for one in runner.addresses])
            await self.run()
        finally:
            await runner.cleanup()

    def _web(self) -> web.Application:
        server = web.Application(client_max_size=1024 * 1024)
        server.router.add_get("/healthz", self._healthy)
        server.router.add_get("/readyz", self._readiness)
        taken = {"/healthz": "interlock itself", "/readyz": "interlock itself"}
        for adapter in self.adapters if self.role is not Role.WORKER else ():
            routes = adapter.routes()
            for path in {route.path for route in routes}:
                if path in taken:
                    raise ConfigError(
                        f"surfaces.{adapter.name} would serve {path}, which {taken[path]} serves: "
                        f"set surfaces.{adapter.name}.path to another."
                    )
                taken[path] = f"surfaces.{adapter.name}"
            server.add_routes(routes)
        return server

    async def _healthy(self, _request: web.Request) -> web.Response:
        return web.json_response({"ok": True})

    async def _readiness(self, _request: web.Request) -> web.Response:
        """Whether people are heard and what they decide can be stored, and which part is not."""
        parts = {"database": await self._database_answers()}
        if self.role is not Role.WORKER:
            parts |= {adapter.name: await adapter.ready() for adapter in self.adapters}
        ok = self._ready and all(parts.values())
        return web.json_response({"ok": ok, "parts": parts}, status=200 if ok else 503)

    async def _database_answers(self) -> bool:
        try:
            async with asyncio.timeout(READY_SECONDS), self.db.read() as tx:
                await chats.recent(tx, 1)
        except (DatabaseUnavailable, TimeoutError):
            return False
        return True


def distributed(db: Database, clock: Clock) -> Engine:
    """Raises ConfigError where it cannot run."""
    if db.sqlite:
        raise ConfigError(
            '`jobs = "distributed"` needs PostgreSQL: set `database` to one, or `jobs` to '
            '"embedded".'
        )
    try:
        from bot.distributed import DistributedEngine
    except ImportError as error:
        raise ConfigError(
            '`jobs = "distributed"` needs Procrastinate: install interlock[postgres].'
        ) from error
    return DistributedEngine(db, clock)


def handlers_of(core: Core, *, owner: str) -> dict[Job, Handler]:
    """Who does which kind of work. `owner`: the process, as it holds chats."""
    return {
        Job.CHAT: Loop(core, owner).complete,
        Job.DELIVER: Deliverer(core).deliver,
        Job.TASK: Tasks(core).poll,
        Job.DUE: Timers(core).due,
    }


async def until_told(run: Callable[[], Any]) -> None:
    """Runs until it ends by itself or the process is told to stop."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(run())
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, task.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    finally:
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(one)


def _cause(error: BaseException) -> str:
    return type(error.__cause__).__name__ if error.__cause__ else "no answer"
