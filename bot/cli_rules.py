"""`interlock rules`: the standing rules, and what the operator adds to them or ends.

An operator's rule asks or denies. One that allows takes a person whom a policy names as rule maker:
the operator is one by their key (cli:local/ACCOUNT)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pwd
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, NoReturn

import typer

from bot.cli_options import ConfigOption, JsonOption, ready
from bot.clock import WallClock
from bot.config import DEFAULT_PATH, Config, agents_of, load, policies_of
from bot.core import Agent, Core, new_id
from bot.embedded import EmbeddedEngine
from bot.listing import rule_line
from bot.markdown import inert
from bot.question import QuestionError
from bot.remember import sentence
from bot.rule_text import condition, place
from bot.rulebook import CLI, make, preview, refused_to_make, revoke, server_of
from bot.rules import BadRule, Condition, Effect, masked
from bot.secrets import ConfigError
from bot.surface import Actor
from storage import scope
from storage.database import Database
from storage.redact import mask_all
from storage.rules import RuleRow
from storage.scope import EVERYTHING

rules_cli = typer.Typer(help="The standing rules.")


@rules_cli.callback(invoke_without_command=True)
def listed(
    context: typer.Context,
    config: ConfigOption = DEFAULT_PATH,
    as_json: JsonOption = False,
) -> None:
    """The standing rules in force."""
    if context.invoked_subcommand is None:
        asyncio.run(_listed(_core(load(config)), as_json))


async def _listed(core: Core, as_json: bool) -> None:
    await ready(core.db)
    try:
        async with core.db.read() as tx:
            found = await scope.rules_in_force(tx, EVERYTHING, core.now())
    finally:
        await core.db.close()
    if as_json:
        rows = [asdict(rule) | {"conditions": masked(rule.conditions)} for rule, _ in found]
        print(json.dumps(mask_all(rows)))
        return
    for rule, chat in found:
        where = rule.scope_key if chat is None else chat.id
        print(inert(f"{rule.id}  {rule_line(core, rule)}  ({where})"))
    if not found:
        print("No standing rule is in force.")


@rules_cli.command()
def add(
    tool: Annotated[str, typer.Argument(help="The tool, as the agent calls it.")],
    does: Annotated[Effect, typer.Option(help="Allow its calls, ask about them, or deny them.")],
    where: Annotated[
        str, typer.Option(help="surface, surface:WORKSPACE, or surface:WORKSPACE/CHANNEL.")
    ],
    when: Annotated[
        list[str] | None,
        typer.Option(help="A condition: amount>=100, env=prod, host in a,b, path under /etc."),
    ] = None,
    until: Annotated[datetime | None, typer.Option(help="The day it ends on, in UTC.")] = None,
    uses: Annotated[int | None, typer.Option(min=1, help="How often it speaks.")] = None,
    note: Annotated[str, typer.Option(help="Why it is there.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether to save it.")] = False,
    config: ConfigOption = DEFAULT_PATH,
) -> None:
    """Makes a rule; says first what it promises and which past calls it would have met."""
    asyncio.run(_add(load(config), tool, does, where, when or [], until, uses, note, yes))


async def _add(
    settings: Config,
    tool: str,
    does: Effect,
    where: str,
    when: list[str],
    until: datetime | None,
    uses: int | None,
    note: str,
    yes: bool,
) -> None:
    kind, key = _place(where)
    core, by = _core(settings, needed=does is Effect.ALLOW), _operator()
    await ready(core.db)
    rule = RuleRow(
        id=new_id("rule"),
        effect=does.value,
        scope=kind,
        scope_key=key,
        server=server_of(core, tool),
        tool=tool,
        schema_digest="",
        conditions=[_condition(one).to_json() for one in when],
        created_by=by.key,
        created_name=by.label,
        created_at=time.time(),
        expires_at=None if until is None else until.replace(tzinfo=UTC).timestamp(),
        uses_left=uses,
        note=note or None,
    )
    try:
        async with _told(core, rule):
            if (refused := refused_to_make(core, rule, by)) is not None:
                _fail(refused)
            async with core.db.read() as tx:
                past = await preview(tx, rule)
            print(inert(sentence(rule, here=False)))
            print(inert(past.sentence))
            if not yes and not typer.confirm("Save it?"):
                print("Nothing was saved.")
                return
            await make(core, rule, by=by, via="cli")
    except QuestionError as error:
        _fail(str(error))
    finally:
        await core.db.close()
    print(f"{rule.id} is in force.")


@contextlib.asynccontextmanager
async def _told(core: Core, rule: RuleRow) -> AsyncIterator[None]:
    """While the server of the tool tells of it: a rule that allows is for the tool as it is."""
    async with contextlib.AsyncExitStack() as started:
        found = [one for agent in core.agents.values() for one in agent.sources]
        source = next((one for one in found if one.name == rule.server), None)
        if source is not None and rule.effect == Effect.ALLOW:
            started.push_async_callback(source.stop)
            await source.start()
        yield


@rules_cli.command("revoke")
def revoked(
    id: Annotated[str, typer.Argument(help="The id of the rule.")],
    config: ConfigOption = DEFAULT_PATH,
) -> None:
    """Ends a rule; calls that it let run before are not called back."""
    asyncio.run(_revoke(_core(load(config)), id))


async def _revoke(core: Core, rule_id: str) -> None:
    await ready(core.db)
    try:
        await revoke(core, rule_id, by=_operator(), via="cli")
    except QuestionError as error:
        _fail(str(error))
    finally:
        await core.db.close()
    print(f"{rule_id} is no longer in force.")


def _fail(sentence: str) -> NoReturn:
    """Raises typer.Exit with 1."""
    print(sentence, file=sys.stderr)
    raise typer.Exit(1)


def _core(settings: Config, *, needed: bool = False) -> Core:
    """The agents are left out where they cannot be loaded, as without the keys of their models.
    `needed`: a rule that allows is for their tools. Raises ConfigError."""
    clock = WallClock()
    agents: dict[str, Agent] = {}
    with contextlib.nullcontext() if needed else contextlib.suppress(ConfigError):
        agents = agents_of(settings, clock)
    db = Database(settings.database)
    return Core(
        db=db,
        clock=clock,
        wake=EmbeddedEngine(db, clock).wake,
        policies=policies_of(settings),
        agents=agents,
    )


def _operator() -> Actor:
    return Actor(CLI, "local", account())


def _condition(text: str) -> Condition:
    """Raises ConfigError, a sentence."""
    try:
        return condition(text)
    except BadRule as error:
        raise ConfigError(f"--when {text!r}: {error}") from error


def _place(where: str) -> tuple[str, str]:
    """Raises ConfigError, a sentence."""
    try:
        return place(where)
    except BadRule as error:
        raise ConfigError(f"--where {error}") from error


def account() -> str:
    """Who types this, as the machine knows them; not as the environment says."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user often has no name
        return f"uid-{os.getuid()}"
