"""The app package of Teams: the same settings give the same bytes, which ask for what is used."""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from adapters.teams import app_package, events, icons, package
from adapters.teams.connector import Connector
from adapters.teams.settings import PASSWORD, PackageOptions, read, read_package
from bot import commands
from bot.cli import cli
from bot.secrets import ConfigError

ROOT = Path(__file__).parents[2]
APP = "11111111-2222-3333-4444-555555555555"
TENANT = "aaaaaaaa-0000-0000-0000-00000000000a"
WEBSITE = "https://wiki.example.com/interlock"
SETTINGS: dict[str, Any] = {"app_id": APP, "tenant": TENANT, "package": {"website": WEBSITE}}
PACKAGE = PackageOptions(website=WEBSITE)


def manifest(**given: Any) -> dict[str, Any]:
    return package.manifest(APP, PACKAGE.model_copy(update=given))


def bot() -> dict[str, Any]:
    [only] = manifest()["bots"]
    assert isinstance(only, dict)
    return only


def source() -> str:
    """What the adapter is made of, but for what makes the package."""
    paths = (ROOT / "adapters" / "teams").rglob("*.py")
    return "\n".join(one.read_text() for one in paths if one.name != "package.py")


# --- The package


def test_the_package_is_a_manifest_and_two_icons() -> None:
    with zipfile.ZipFile(io.BytesIO(app_package(SETTINGS))) as packed:
        assert packed.testzip() is None
        assert packed.namelist() == ["manifest.json", "color.png", "outline.png"]
        assert json.loads(packed.read("manifest.json")) == manifest()
        assert packed.read("color.png") == icons.color()
        assert packed.read("outline.png") == icons.outline()


def test_the_same_settings_give_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    first = app_package(SETTINGS)
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    assert app_package(SETTINGS) == first
    assert app_package(SETTINGS | {"package": {"website": WEBSITE, "revision": 1}}) != first
    with zipfile.ZipFile(io.BytesIO(first)) as packed:
        assert {one.date_time for one in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {one.create_system for one in packed.infolist()} == {3}


def test_the_bot_is_the_app_of_the_settings_and_has_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(PASSWORD, raising=False)
    assert read_package(SETTINGS | {"app_id": APP.upper()}) == (APP, PACKAGE)
    monkeypatch.setenv(PASSWORD, "s3cret")
    assert read(SETTINGS).package == PACKAGE
    told = json.dumps(manifest())
    assert (manifest()["id"], bot()["botId"]) == (APP, APP)
    assert "s3cret" not in told
    assert TENANT not in told


def test_the_admin_gives_name_page_and_revision() -> None:
    told = manifest(name="Ops bot", revision=7)
    assert told["name"] == {"short": "Ops bot"}
    assert told["developer"]["name"] == "Ops bot"
    assert {url for name, url in told["developer"].items() if name.endswith("Url")} == {WEBSITE}
    assert told["version"] == f"{package.SHAPE}.7"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"package": {}}, "package.website is missing"),
        ({"package": {"website": "http://wiki.example.com"}}, "package.website"),
        ({"package": {"website": "https://"}}, "package.website"),
        ({"package": {"website": WEBSITE, "name": ""}}, "package.name"),
        ({"package": {"website": WEBSITE, "name": " x"}}, "package.name"),
        ({"package": {"website": WEBSITE, "name": "x" * 31}}, "package.name"),
        ({"package": {"website": WEBSITE, "revision": -1}}, "package.revision"),
        ({"package": {"website": WEBSITE, "colour": 1}}, "package.colour"),
        ({"app_id": ""}, "app_id is missing"),
        ({"app_id": "my-bot"}, "app_id"),
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=rf"surfaces\.teams\.{named}"):
        app_package(SETTINGS | wrong)


# Whoever changes what stands in the manifest raises `SHAPE` and sets this anew: Teams takes no
# update under a version that it has.
KNOWN = ("1.2", "f97830b119a4d1bf")


def test_a_manifest_that_says_something_else_has_another_version() -> None:
    told = json.dumps(manifest() | {"version": ""}, sort_keys=True)
    assert (package.SHAPE, hashlib.sha256(told.encode()).hexdigest()[:16]) == KNOWN


# --- What the code uses

SCOPES = {events.CHANNEL: "team", "groupChat": "groupChat", events.PERSONAL: "personal"}
CALLS: dict[
    str, set[str]
] = {  # what a call of ours takes besides a bot that is in the conversation
    "post": set(),
    "edit": set(),
    "whisper": set(),  # every bot may; `supportsTargetedMessages` is to be sent such messages
    "typing": set(),
    "open": set(),
    "member": set(),  # of the conversation's own roster; no permission of Graph
    "members": set(),  # likewise
}
USED = {  # what in the code takes a part of the manifest, and which
    r"graph\.microsoft\.(?:com|us)": "authorization",
    r"fileConsent|file\.consent|downloadUrl": "supportsFiles",
    r"isTargeted\b": "supportsTargetedMessages",
    r"task/fetch|composeExtension": "validDomains",
    r"signin/|OAuthPrompt": "webApplicationInfo",
}


def parts() -> set[str]:
    """Everything that the manifest asks for or offers."""
    return set(manifest()) | set(bot()) | {name for one in bot()["commandLists"] for name in one}


def test_the_bot_is_where_the_code_hears_people_and_nowhere_else() -> None:
    assert set(SCOPES) == set(events._KINDS)
    assert bot()["scopes"] == list(package.SCOPES)
    assert sorted(bot()["scopes"]) == sorted(SCOPES.values())
    [listed] = bot()["commandLists"]
    assert listed["scopes"] == bot()["scopes"]


@pytest.mark.parametrize(("uses", "part"), USED.items())
def test_the_manifest_has_what_the_code_uses_and_no_more(uses: str, part: str) -> None:
    assert (part in parts()) is bool(re.search(uses, source()))


def test_every_call_of_the_connector_is_one_that_every_bot_may_make() -> None:
    made = {
        name
        for name, what in vars(Connector).items()
        if callable(what) and not name.startswith("_")
    }
    assert made == set(CALLS), "say in CALLS what these take"
    assert set().union(*CALLS.values()) == set(manifest().get("authorization", {}))
    asked = set(re.findall(r'"(/v3/[a-z]+)', source()))
    assert asked == {"/v3/conversations"}


def test_the_manifest_has_nothing_that_nobody_thought_of() -> None:
    about = {"$schema", "manifestVersion", "version", "id", "developer", "name", "description"}
    about |= {"icons", "accentColor", "bots", "defaultInstallScope", "defaultGroupCapability"}
    # In shared channels people are known by the roster of the channel: see adapters.teams.people.
    assert set(manifest()) == about | {"supportsChannelFeatures"}
    files = {"supportsFiles", "supportsTargetedMessages"}
    assert set(bot()) == {"botId", "scopes", "commandLists"} | files
    assert ("supportsChannelFeatures" in manifest()) is ("is_external=found.tenant" in source())


def test_the_commands_are_those_of_the_help_and_are_understood() -> None:
    [listed] = bot()["commandLists"]
    told = {one["title"]: one["description"] for one in listed["commands"]}
    helped = re.findall(r"^- `((?:[a-z]+ ?)+)", commands.HELP, re.MULTILINE)
    assert list(told) == [one.strip() for one in helped]
    assert len(told) == len(listed["commands"])
    assert all(about and "`" not in about for about in told.values())
    arguments = {"task": " 1a2b3c4d", "cancel": " 1a2b3c4d", "rules revoke": " 1a2b3c4d"}
    arguments["rules add"] = " restart_service ask"
    for title in told:
        read_as = commands.read(title + arguments.get(title, ""))
        assert read_as is not None, title
        assert read_as[0] == title.split(" ")[0]


def test_every_kind_of_use_would_be_seen() -> None:
    examples = "graph.microsoft.com fileConsent isTargeted task/fetch signin/verifyState"
    assert all(re.search(uses, examples) for uses in USED)
    assert not re.search(r"isTargeted\b", '{"isTargetedActivity": "true"}')


# --- The icons


def pixels(png: bytes) -> list[list[tuple[int, int, int, int]]]:
    """A PNG as our own code writes it: RGBA, 8 bits, every line unfiltered."""
    chunks = dict(chunked(png))
    width, height, depth, kind, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, kind, rest) == (8, 6, [0, 0, 0])
    data, rows = zlib.decompress(chunks[b"IDAT"]), []
    assert len(data) == height * (1 + 4 * width)
    for start in range(0, len(data), 1 + 4 * width):
        assert data[start] == 0
        line = data[start + 1 : start + 1 + 4 * width]
        rows.append([(*line[at : at + 4],) for at in range(0, len(line), 4)])
    return rows


def chunked(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, kind = 8, b""
    while at < len(png):
        [size] = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", png, at + 8 + size) == (zlib.crc32(kind + data),)
        yield kind, data
        at += 12 + size
    assert kind == b"IEND"


def test_the_icon_in_colour_fills_its_square_and_keeps_its_drawing_in_the_middle() -> None:
    rows = pixels(icons.color())
    ground = (*bytes.fromhex(icons.ACCENT[1:]), 255)
    assert (len(rows), {len(row) for row in rows}) == (192, {192})
    assert {pixel[3] for row in rows for pixel in row} == {255}
    drawn = [(x, y) for y, row in enumerate(rows) for x, pixel in enumerate(row) if pixel != ground]
    assert any(pixel == (255, 255, 255, 255) for row in rows for pixel in row)
    for axis in zip(*drawn, strict=True):
        assert min(axis) >= 48
        assert max(axis) < 144


def test_the_outline_is_white_on_nothing() -> None:
    rows = pixels(icons.outline())
    assert (len(rows), {len(row) for row in rows}) == (32, {32})
    flat = [pixel for row in rows for pixel in row]
    assert {pixel[:3] for pixel in flat} == {(255, 255, 255)}
    assert {rows[y][x][3] for x in (0, 31) for y in (0, 31)} == {0}
    assert sum(pixel[3] == 0 for pixel in flat) > len(flat) / 2
    assert sum(pixel[3] == 255 for pixel in flat) > 50


# --- The command


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(PASSWORD, raising=False)
    path = tmp_path / "interlock.toml"
    path.write_text(
        '[agents.ops]\nmodel = "openai:gpt-5"\n[surfaces.teams]\nagent = "ops"\n'
        f'app_id = "{APP}"\ntenant = "{TENANT}"\n[surfaces.teams.package]\nwebsite = "{WEBSITE}"\n'
    )
    return path


def run(config: Path, *words: str) -> Any:
    return CliRunner().invoke(cli, ["teams", "package", "--config", str(config), *words])


def test_the_command_writes_the_package_and_needs_no_secret(config: Path) -> None:
    for words, name in (((), "interlock-teams.zip"), (("--out", "x.zip"), "x.zip")):
        done = run(config, *words)
        assert (done.exit_code, name in done.output) == (0, True), done.output
        assert config.with_name(name).read_bytes() == app_package(SETTINGS)
    assert run(config).exit_code == 0  # and takes the place of an older one


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (f'website = "{WEBSITE}"', "", "surfaces.teams.package.website is missing"),
        (f'app_id = "{APP}"', "", "surfaces.teams.app_id is missing"),
        ("[surfaces.teams", "[surfaces.other", "surfaces.teams is missing"),
    ],
)
def test_the_command_says_what_is_missing(config: Path, before: str, after: str, told: str) -> None:
    config.write_text(config.read_text().replace(before, after))
    done = run(config)
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith(told)
    assert not config.with_name("interlock-teams.zip").exists()


def test_a_file_that_cannot_be_written_is_named(config: Path) -> None:
    done = run(config, "--out", "nowhere/x.zip")
    assert isinstance(done.exception, ConfigError)
    assert "nowhere/x.zip cannot be written" in str(done.exception)
