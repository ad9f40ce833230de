"""`interlock rules`: the standing rules, and what the operator adds to them or ends.

An operator's rule asks or denies. Only an approver lets a tool run without asking, on a card."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from bot.cli_options import ConfigOption, JsonOption
from bot.config import DEFAULT_PATH, load
from bot.core import new_id
from bot.listing import rule_line
from bot.remember import sentence
from bot.rule_text import condition
from bot.rulebook import preview
from bot.rules import BadRule, Condition
from bot.secrets import ConfigError
from storage import audit, rules, scope
from storage.database import Database, Tx
from storage.rules import RuleRow, Scope
from storage.scope import EVERYTHING

rules_cli = typer.Typer(help="The standing rules.")


class Does(StrEnum):
    ASK = "ask"
    DENY = "deny"


@rules_cli.callback(invoke_without_command=True)
def listed(
    context: typer.Context,
    config: ConfigOption = DEFAULT_PATH,
    as_json: JsonOption = False,
) -> None:
    """The standing rules in force."""
    if context.invoked_subcommand is None:
        asyncio.run(_listed(Database(load(config).database), as_json))


async def _listed(db: Database, as_json: bool) -> None:
    try:
        async with db.read() as tx:
            found = await scope.rules_in_force(tx, EVERYTHING, time.time())
    finally:
        await db.close()
    if as_json:
        print(json.dumps([asdict(rule) for rule, _ in found]))
        return
    for rule, chat in found:
        print(f"{rule.id}  {rule_line(rule)}  ({rule.scope_key if chat is None else chat.id})")
    if not found:
        print("No standing rule is in force.")


@rules_cli.command()
def add(
    tool: Annotated[str, typer.Argument(help="The tool, as the agent calls it.")],
    does: Annotated[Does, typer.Option(help="Ask about its calls, or deny them.")],
    where: Annotated[
        str, typer.Option(help="surface, surface:WORKSPACE, or surface:WORKSPACE/CHANNEL.")
    ],
    when: Annotated[
        list[str] | None,
        typer.Option(help="A condition: amount>=100, env=prod, host in a,b, path under /etc."),
    ] = None,
    until: Annotated[datetime | None, typer.Option(help="The day it ends on, in UTC.")] = None,
    uses: Annotated[int | None, typer.Option(min=1, help="How often it speaks.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether to save it.")] = False,
    config: ConfigOption = DEFAULT_PATH,
) -> None:
    """Makes a rule that asks about calls or denies them; says first which past calls it meets."""
    kind, key = _scope(where)
    rule = RuleRow(
        id=new_id("rule"),
        effect=does.value,
        scope=kind,
        scope_key=key,
        server=tool.partition("__")[0] if "__" in tool else "",
        tool=tool,
        schema_digest="",
        conditions=[_condition(one).to_json() for one in when or ()],
        created_by=f"cli:local/{account()}",
        created_name=account(),
        created_at=time.time(),
        expires_at=None if until is None else until.replace(tzinfo=UTC).timestamp(),
        uses_left=uses,
    )
    asyncio.run(_add(Database(load(config).database), rule, yes))


async def _add(db: Database, rule: RuleRow, yes: bool) -> None:
    try:
        async with db.read() as tx:
            past = await preview(tx, rule)
        print(sentence(rule, here=False))
        print(past.sentence)
        if not yes and not typer.confirm("Save it?"):
            print("Nothing was saved.")
            return
        async with db.transaction("make_rule") as tx:
            await rules.add(tx, rule)
            await _record(tx, "rule_made", rule)
    finally:
        await db.close()
    print(f"{rule.id} is in force.")


@rules_cli.command()
def revoke(
    id: Annotated[str, typer.Argument(help="The id of the rule.")],
    config: ConfigOption = DEFAULT_PATH,
) -> None:
    """Ends a rule; calls that it let run before are not called back."""
    asyncio.run(_revoke(Database(load(config).database), id))


async def _revoke(db: Database, rule_id: str) -> None:
    try:
        async with db.transaction("revoke_rule") as tx:
            rule = await rules.get(tx, rule_id)
            by = f"cli:local/{account()}"
            if rule is None or not await rules.revoke(tx, rule_id, by=by, now=time.time()):
                print(f"No rule {rule_id} is in force.", file=sys.stderr)
                raise typer.Exit(1)
            await _record(tx, "rule_revoked", rule)
    finally:
        await db.close()
    print(f"{rule_id} is no longer in force.")


async def _record(tx: Tx, event: str, rule: RuleRow) -> None:
    by = f"cli:local/{account()}"
    about = {"rule": rule.id, "tool": rule.tool, "effect": rule.effect, "scope": rule.scope_key}
    await audit.record(
        tx, event, now=time.time(), actor=by, via="cli", conditions=rule.conditions, **about
    )


def _condition(text: str) -> Condition:
    """Raises ConfigError, a sentence."""
    try:
        return condition(text)
    except BadRule as error:
        raise ConfigError(f"--when {text!r}: {error}") from error


def _scope(where: str) -> tuple[str, str]:
    surface, colon, rest = where.partition(":")
    organisation, slash, channel = rest.partition("/")
    if not surface or (colon and not organisation) or (slash and not channel):
        raise ConfigError(f"--where {where!r} is no place: write one like slack:T0123/C0456.")
    if channel:
        return Scope.CHANNEL, where
    return (Scope.ORGANISATION if organisation else Scope.SURFACE), where


def account() -> str:
    """Who types this, as the machine knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user often has no name
        return f"uid-{os.getuid()}"
