"""The manifest of the app package, judged by Microsoft's own npm package, which has the published
schemas in it. It is installed once into ~/.cache/interlock-tests; where that cannot be, this skips.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from adapters.teams.package import SCHEMA, manifest
from adapters.teams.settings import PackageOptions
from tests.integration.test_mcp_judges import CACHE, install

JUDGE = "@microsoft/app-manifest@1.1.2"
FORGOTTEN = "fs-extra@11.3.2"  # which the judge needs and does not name
APP = "11111111-2222-3333-4444-555555555555"
SCRIPT = """
const fs = require("fs");
const { AppManifestUtils } = require("@microsoft/app-manifest");
const [schema, ...given] = JSON.parse(fs.readFileSync(0, "utf8"));
const published = JSON.parse(fs.readFileSync(
  require.resolve("@microsoft/app-manifest/build/json-schemas/" + schema), "utf8"));
Promise.all(given.map((one) => AppManifestUtils.validateAgainstSchema(one, published)))
  .then((found) => console.log(JSON.stringify(found)));
"""


@pytest.fixture(scope="module")
def judge() -> Path:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip(f"{JUDGE} needs node and npm, which are not installed")
    home = CACHE / JUDGE.rpartition("/")[2]
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(home)]
    install(home, home / "installed", [npm, "install", *options, JUDGE, FORGOTTEN])
    return home


def judged(judge: Path, schema: str, *given: dict[str, Any]) -> list[list[str]]:
    """What is wrong with each."""
    done = subprocess.run(
        ["node", "-e", SCRIPT],
        cwd=judge,
        input=json.dumps([f"teams/v{schema}/MicrosoftTeams.schema.json", *given]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[list[str]] = json.loads(done.stdout)
    return found


def ours(**given: Any) -> dict[str, Any]:
    return manifest(APP, PackageOptions(website="https://wiki.example.com/interlock", **given))


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    given = deepcopy(ours())
    change(given)
    return given


def test_the_manifest_is_valid_by_the_published_schema(judge: Path) -> None:
    largest = ours(name="x" * 30, revision=9_999)
    assert judged(judge, SCHEMA, ours(), largest) == [[], []]


def test_it_would_be_valid_by_the_newest_schema(judge: Path) -> None:
    newest = ours() | {"manifestVersion": "1.30"}
    assert judged(judge, "1.30", newest) == [[]]


def test_it_would_not_be_by_an_older_one(judge: Path) -> None:
    older = ours() | {"manifestVersion": "1.24"}
    [found] = judged(judge, "1.24", older)
    assert "supportsChannelFeatures" in str(found)


def test_the_judge_refuses_what_is_wrong(judge: Path) -> None:
    wrong = [
        changed(lambda one: one.update(id="my-bot")),
        changed(lambda one: one.pop("accentColor")),
        changed(lambda one: one["bots"][0]["scopes"].append("channel")),
        changed(
            lambda one: one["bots"][0]["commandLists"][0]["commands"].extend([{"title": "x"}] * 3)
        ),
        changed(lambda one: one["developer"].pop("privacyUrl")),
        changed(lambda one: one["name"].update(short="x" * 31)),
        changed(lambda one: one.update(colour="blue")),
    ]
    assert all(judged(judge, SCHEMA, *wrong))
