"""The floors of the design: imports run downward, each SDK has its place, files stay readable."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOORS = ("storage", "bot", "adapters")
LINES = 600

# Where an SDK may be imported; everywhere else it is a defect.
PLACES = {
    "slack_bolt": ("adapters/slack/",),
    "slack_sdk": ("adapters/slack/",),
    "botbuilder": ("adapters/teams/botbuilder.py",),
    "botframework": ("adapters/teams/botbuilder.py",),
    "msrest": ("adapters/teams/botbuilder.py",),
    "msal": ("adapters/teams/botbuilder.py",),
    "jwt": ("adapters/teams/botbuilder.py", "adapters/teams/keys.py"),
    "mcp": ("bot/mcp/",),
    "procrastinate": ("bot/distributed.py",),
    "pydantic_ai": ("bot/model.py", "bot/transcript.py", "bot/scripted.py"),
    "sqlalchemy": ("storage/",),
    "alembic": ("storage/",),
    "httpx": ("bot/http.py",),
    "typer": ("bot/cli",),
    "prompt_toolkit": ("adapters/console/",),
}


def modules() -> list[Path]:
    found = [path for floor in FLOORS for path in (ROOT / floor).rglob("*.py")]
    assert len(found) > 40
    return sorted(found)


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> Iterator[str]:
    """Every module that a file names in an import, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(level=0, module=str(module)):
                yield module
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case ast.ImportFrom():
                pytest.fail(f"{named(path)} has a relative import: name the module in full")
            case _:
                pass


def of_package(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@pytest.mark.parametrize("path", modules(), ids=named)
def test_imports_run_downward(path: Path) -> None:
    floor = FLOORS.index(path.relative_to(ROOT).parts[0])
    above = FLOORS[floor + 1 :]

    upward = [one for one in imported(path) for package in above if of_package(one, package)]

    assert upward == []
    assert not [one for one in imported(path) if of_package(one, "tests")]


@pytest.mark.parametrize("path", modules(), ids=named)
def test_an_sdk_is_imported_only_where_it_belongs(path: Path) -> None:
    strays = [
        one
        for one in imported(path)
        for package, places in PLACES.items()
        if of_package(one, package) and not named(path).startswith(places)
    ]

    assert strays == []


def test_one_surface_does_not_know_another() -> None:
    surfaces = [one.name for one in (ROOT / "adapters").iterdir() if (one / "__init__.py").exists()]
    for surface in surfaces:
        others = [f"adapters.{one}" for one in surfaces if one != surface]
        for path in (ROOT / "adapters" / surface).rglob("*.py"):
            strays = [m for m in imported(path) for other in others if of_package(m, other)]
            assert strays == [], named(path)


@pytest.mark.parametrize("path", modules(), ids=named)
def test_a_file_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES


@pytest.mark.parametrize("path", [one for one in modules() if one.read_text().strip()], ids=named)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_an_import_is_found_wherever_it_stands(tmp_path: Path) -> None:
    stray = tmp_path / "stray.py"
    stray.write_text(
        "import slack_sdk.web as web\ndef f():\n    from adapters import slack\n"
        "if True:\n    import mcp, json\n"
    )

    found = set(imported(stray))

    assert {"slack_sdk.web", "adapters.slack", "mcp", "json"} <= found
    assert of_package("adapters.slack", "adapters")
    assert not of_package("adapters_of_others", "adapters")
