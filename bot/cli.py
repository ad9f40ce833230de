"""The command line. Exit codes: 0 fine, 1 something failed, 2 a setting is missing or wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Coroutine
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from bot import commands, log
from bot.app import App, Role, until_told
from bot.card import draw
from bot.cli_audit import audit_cli
from bot.cli_database import database_cli
from bot.cli_options import ConfigOption, JsonOption, ready
from bot.cli_rules import account, rules_cli
from bot.cli_teams import teams_cli
from bot.clock import WallClock
from bot.config import (
    DEFAULT_PATH,
    Config,
    agents_of,
    load,
    policies_of,
    without_approver,
)
from bot.core import Core
from bot.doctor import examine, well
from bot.embedded import EmbeddedEngine
from bot.example_config import EXAMPLE
from bot.finding import Health
from bot.listing import describe
from bot.loopback import INSECURE_LOCAL, refuse_beyond_loopback
from bot.markdown import inert
from bot.policy_settings import weak
from bot.rule_settings import problems as rule_problems
from bot.secrets import ConfigError
from bot.surface import Actor
from bot.task import Tasks
from storage import audit, calls, chats, questions
from storage.calls import CallRow
from storage.chats import ChatRow
from storage.database import Database, DatabaseUnavailable
from storage.redact import mask_all
from storage.scope import EVERYTHING

T = TypeVar("T")

cli = typer.Typer(no_args_is_help=True, add_completion=False, help="Interlock, the chat-ops bot.")
cli.add_typer(database_cli, name="db")
cli.add_typer(audit_cli, name="audit")
cli.add_typer(rules_cli, name="rules")
cli.add_typer(teams_cli, name="teams")

out = Console(highlight=False)


def main() -> None:
    """The command `interlock`."""
    log.configure(level=logging.ERROR)
    try:
        cli()
    except (ConfigError, DatabaseUnavailable) as error:
        print(inert(str(error)), file=sys.stderr)
        raise SystemExit(2) from error


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@cli.command()
def demo() -> None:
    """Shows the main job on the embedded default, interactively on a terminal."""
    from bot.demo import run_demo

    raise SystemExit(run_demo(interactive=sys.stdin.isatty() and sys.stdout.isatty()))


@cli.command()
def init(config: ConfigOption = DEFAULT_PATH) -> None:
    """Writes a commented interlock.toml."""
    if config.exists():
        raise ConfigError(f"{config} exists already: remove it first, or name another file.")
    try:
        config.write_text(EXAMPLE)
    except OSError as error:
        raise ConfigError(f"{config} cannot be written ({error.strerror}).") from error
    out.print(Text(f"Wrote {config}. Check it with `interlock check`."))


@cli.command()
def check(config: ConfigOption = DEFAULT_PATH) -> None:
    """Validates the configuration and says what is wrong."""
    settings = load(config)
    problems = without_approver(agents_of(settings, WallClock()), policies_of(settings))
    if problems:
        raise ConfigError("\n".join(problems))
    if problems := list(rule_problems(_app(settings).core, settings.rules)):
        raise ConfigError("\n".join(problems))
    for sentence in weak(policies_of(settings)):
        out.print(Text(inert(sentence)))
    for name, section in settings.surfaces.items():
        _app(settings).open_surface(name, section)
    out.print(Text(f"{config} is fine."))


@cli.command()
def serve(
    config: ConfigOption = DEFAULT_PATH,
    insecure_local: Annotated[
        bool, typer.Option(help="Let Teams' requests in unauthenticated, on 127.0.0.1 only.")
    ] = False,
    role: Annotated[
        Role, typer.Option(help="Hears people (web), carries chats on (worker), or both.")
    ] = Role.ALL,
) -> None:
    """Runs the bot on the configured surfaces."""
    log.configure()
    settings = load(config)
    if not settings.surfaces:
        raise ConfigError("surfaces is empty: configure one, for example [surfaces.slack].")
    if insecure_local:
        refuse_beyond_loopback(settings.server.host)
    _run(_serve(settings, insecure_local, role))


async def _serve(settings: Config, insecure_local: bool, role: Role) -> None:
    app = _app(settings, role)
    async with app.started():
        for name, section in settings.surfaces.items():
            insecure = {"insecure_local": INSECURE_LOCAL} if insecure_local else {}
            app.open_surface(name, section | (insecure if name == "teams" else {}))
        await app.serve(host=settings.server.host, port=settings.server.port)


@cli.command()
def console(
    config: ConfigOption = DEFAULT_PATH,
    user: Annotated[str, typer.Option("--as", help="Who you are at this console.")] = "",
    thread: Annotated[str, typer.Option(help="The thread to talk in.")] = "main",
) -> None:
    """Talks with an agent in this terminal."""
    log.configure(level=40)
    settings = load(config)
    section = settings.surfaces.get("console", {}) | {"thread": thread}
    _run(_console(settings, section | ({"user": user} if user else {})))


async def _console(settings: Config, section: dict[str, Any]) -> None:
    app = _app(settings)
    async with app.started():
        app.open_surface("console", section)
        await until_told(app.run)


@cli.command()
def doctor(config: ConfigOption = DEFAULT_PATH, as_json: JsonOption = False) -> None:
    """Looks at the database, the MCP servers and the surfaces, and says what to do for each."""
    found = _run(examine(load(config), WallClock()))
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
    else:
        for one in found:
            out.print(Text(inert(f"{_MARKS[one.health]} {one.what}: {one.sentence}")))
    if not well(found):
        raise SystemExit(1)


_MARKS = {Health.OK: "ok  ", Health.WARNING: "WARN", Health.PROBLEM: "BAD "}


@cli.command()
def status(config: ConfigOption = DEFAULT_PATH, as_json: JsonOption = False) -> None:
    """The newest chats and what they are at."""
    _run(_status(load(config), as_json))


async def _status(settings: Config, as_json: bool) -> None:
    core = await _rows(settings)
    async with core.db.read() as tx:
        newest = await chats.recent(tx, 20)
        lines = {chat.id: await describe(tx, chat) for chat in newest}
    await core.db.close()
    if as_json:
        print(json.dumps([{"chat": key, "lines": value} for key, value in lines.items()]))
        return
    for about in lines.values():
        out.print(Text(inert("\n".join(about) + "\n")))
    if not lines:
        out.print(Text("There are no chats yet."))


@cli.command()
def pending(config: ConfigOption = DEFAULT_PATH, as_json: JsonOption = False) -> None:
    """The questions that wait for somebody."""
    _run(_pending(load(config), as_json))


async def _pending(settings: Config, as_json: bool) -> None:
    core = await _rows(settings)
    rows = await _open_questions(core)
    await core.db.close()
    if as_json:
        print(json.dumps(mask_all(rows)))
        return
    for row in rows:
        about = f"{row['question']}  {row['title']}  ({', '.join(row['deciders'])})"
        out.print(Text(inert(about)))
    if not rows:
        out.print(Text("Nothing waits for anybody."))


async def _open_questions(core: Core) -> list[dict[str, Any]]:
    found = []
    async with core.db.read() as tx:
        for row in await questions.all_open(tx):
            call = None if row.call_id is None else await calls.get(tx, row.call_id)
            chat = None if row.chat_id is None else await chats.get(tx, row.chat_id)
            if call is not None and chat is not None:
                card = draw(row, call, chat.agent)
                found.append(
                    {"question": row.id, "title": card.title, "deciders": list(card.deciders)}
                )
    return found


@cli.command()
def task(
    id: Annotated[str, typer.Argument(help="The id of a call or chat, or its beginning.")],
    config: ConfigOption = DEFAULT_PATH,
) -> None:
    """One call in detail, or what a chat is at."""
    _tell(*_run(_task(load(config), id)))


async def _task(settings: Config, word: str) -> tuple[bool, str]:
    core = await _rows(settings)
    async with core.db.read() as tx:
        found = await commands.find(tx, EVERYTHING, word)
        told = await commands.detail(core, tx, found)
    await core.db.close()
    return not isinstance(found, str), told


@cli.command()
def cancel(
    id: Annotated[str, typer.Argument(help="The id of a background call or of a chat.")],
    config: ConfigOption = DEFAULT_PATH,
) -> None:
    """Asks the server of a background call to stop, or stops a chat."""
    _tell(*_run(_cancel(load(config), id)))


async def _cancel(settings: Config, word: str) -> tuple[bool, str]:
    """Whoever reaches the configuration may; the audit log names the account."""
    core = _app(settings).core
    by = Actor("cli", "local", account())
    async with core.db.read() as tx:
        found = await commands.find(tx, EVERYTHING, word)
    try:
        match found:
            case str():
                return False, found
            case ChatRow():
                return True, await commands.stop(core, found, by, via="cli")
            case CallRow() if found.task is None or found.settled:
                return False, commands.not_cancelled(found)
            case CallRow():
                return await _cancel_task(core, found, by)
    finally:
        await core.db.close()


async def _cancel_task(core: Core, call: CallRow, by: Actor) -> tuple[bool, str]:
    async with core.db.transaction("cancel_task") as tx:
        await audit.record(
            tx,
            "cancel_task",
            now=core.now(),
            chat_id=call.chat_id,
            call_id=call.id,
            actor=by.key,
            via="cli",
        )
    sources = {one.name: one for agent in core.agents.values() for one in agent.sources}
    async with contextlib.AsyncExitStack() as started:
        if (source := sources.get(call.server)) is not None:
            started.push_async_callback(source.stop)
            await source.start()
        why = await Tasks(core).cancel(call.id)
    return why is None, why or "The server was asked to stop."


def _tell(done: bool, sentence: str) -> None:
    """Raises typer.Exit with 1 when it was not done."""
    if done:
        out.print(Text(inert(sentence)))
        return
    print(inert(sentence), file=sys.stderr)
    raise typer.Exit(1)


async def _rows(settings: Config) -> Core:
    """What lists from rows alone: no model, tool, server or key is needed (row Q23)."""
    clock, db = WallClock(), Database(settings.database)
    await ready(db)
    engine = EmbeddedEngine(db, clock)
    return Core(db=db, clock=clock, wake=engine.wake, policies=policies_of(settings))


def _app(settings: Config, role: Role = Role.ALL) -> App:
    clock = WallClock()
    agents = agents_of(settings, clock)
    policies = policies_of(settings)
    problems = without_approver(agents, policies)
    if problems:
        raise ConfigError("\n".join(problems))
    return App(
        database=settings.database,
        agents=agents,
        policies=policies,
        rules=settings.rules,
        clock=clock,
        jobs=settings.jobs,
        role=role,
    )
