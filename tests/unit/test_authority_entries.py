"""The matrix of ways and people (tests/scenario/authority.py) knows every way into the product."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any, get_args

import pytest
from slack_bolt.async_app import AsyncApp

from adapters.console import line
from adapters.slack import clicks, standing
from adapters.slack.actions import ACTION
from adapters.slack.settings import SlackSettings
from adapters.slack.transport import SlackSurface
from adapters.teams.clicks import HANDLERS
from bot import commands
from bot.surface import Entry
from tests.fakes.clock import FakeClock
from tests.scenario import authority
from tests.scenario.authority import ENTRIES
from tests.scenario.authority_teams import TEAMS
from tests.scenario.authority_ways import GROUPS, WAYS
from tests.scenario.test_authority_console import CONSOLE

KINDS = ("action", "command", "event", "shortcut", "view")
CATCH_ALL = ".*"


def constants(function: Any, module: ModuleType) -> Iterator[str]:
    """The texts of other modules that a function names, as in `case blocks.APPROVE`."""
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                found = getattr(module, name, None)
                value = getattr(found, attr, None)
                if isinstance(found, ModuleType) and attr.isupper() and isinstance(value, str):
                    yield value
            case _:
                pass


def registered(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What the surface has Bolt listen to; what is caught as a whole is told apart in `clicks`."""
    found: set[str] = set()

    def noted(kind: str, register: Any) -> Any:
        def note(app: AsyncApp, constraint: Any, *rest: Any, **named: Any) -> Any:
            text = constraint if isinstance(constraint, str) else constraint.pattern
            name = text.replace("\\", "").removeprefix(ACTION).removesuffix(CATCH_ALL)
            if kind == "command":
                name, kind_ = "command", "slash"
            else:
                kind_ = kind
            if name:
                found.add(f"{kind_} {name}")
            return register(app, constraint, *rest, **named)

        return note

    for kind in KINDS:
        monkeypatch.setattr(AsyncApp, kind, noted(kind, getattr(AsyncApp, kind)))
    settings = SlackSettings("http", "http://127.0.0.1:1/", "/s", "xoxb-1", "", "secret")
    SlackSurface(settings, None, FakeClock(), None)  # type: ignore[arg-type]
    return found


def names_of_commands() -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(commands.run)))
    return {
        node.value
        for case in ast.walk(tree)
        if isinstance(case, ast.match_case)
        for node in ast.walk(case.pattern)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value
    }


def test_every_way_into_the_product_is_in_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    found = registered(monkeypatch)
    found |= {f"action {one}" for one in constants(clicks.Clicks.press, clicks)}
    sent = {*constants(clicks.Clicks.send, clicks), *standing.CALLBACKS}
    found |= {f"view {one.removeprefix(ACTION)}" for one in sent}
    found |= {f"command {one}" for one in names_of_commands()}
    methods = inspect.getmembers(Entry, inspect.isfunction)
    found |= {f"entry {name}" for name, _ in methods if not name.startswith("_")}
    actions = set(get_args(line.Action)) - {line.Blank, line.Help, line.Quit, line.Mistake}
    found |= {f"console {one.__name__}" for one in actions}

    found |= {f"teams {verb}" for verb in HANDLERS}

    assert found == set(ENTRIES), "say in tests/scenario/authority.py which line is about it"


def test_what_is_named_there_is_in_the_table_and_the_table_is_driven() -> None:
    table = authority.read()
    for about in ENTRIES.values():
        assert about in table or about.startswith("nothing: "), about
    assert {*WAYS, *CONSOLE, *TEAMS} == set(table)
    assert len(WAYS) == sum(map(len, GROUPS.values()))
