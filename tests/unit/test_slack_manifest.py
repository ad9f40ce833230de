"""The manifest is one that Slack takes, and asks for what the code uses."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from adapters.slack import events
from adapters.slack.commands import COMMAND, PENDING, STATUS
from adapters.slack.settings import SCOPES, SlackSettings
from adapters.slack.transport import SlackSurface
from tests.fakes.clock import FakeClock

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT.parent / "shared" / "data" / "slack-manifest.schema.2.0.0.json"


def manifest() -> dict[str, Any]:
    """The file, read by the little of YAML that it uses: nested names, lists of words or of names,
    comments."""
    lines = []
    for line in (ROOT / "manifest.yaml").read_text().splitlines():
        bare = line.split(" #")[0].rstrip()
        if bare and not bare.lstrip().startswith("#"):
            lines.append((len(bare) - len(bare.lstrip()), bare.strip()))
    value, left = nested(lines)
    assert not left
    assert isinstance(value, dict)
    return value


def nested(lines: list[tuple[int, str]]) -> tuple[Any, list[tuple[int, str]]]:
    depth, first = lines[0]
    if first.startswith("- "):
        items = []
        while lines and lines[0][0] == depth and lines[0][1].startswith("- "):
            first = lines[0][1][2:]
            if ": " in first:
                item, lines = nested([(depth + 2, first), *lines[1:]])
            else:
                item, lines = scalar(first), lines[1:]
            items.append(item)
        return items, lines
    found: dict[str, Any] = {}
    while lines and lines[0][0] == depth:
        name, _, rest = lines.pop(0)[1].partition(":")
        if rest.strip():
            found[name] = scalar(rest.strip())
        else:
            found[name], lines = nested(lines)
    return found, lines


def scalar(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdigit() else text.strip('"')


def test_the_manifest_is_valid_by_the_schema_of_slack() -> None:
    if not SCHEMA.exists():
        pytest.skip("the schema of Slack's manifests is not here")
    problems = Draft7Validator(json.loads(SCHEMA.read_text())).iter_errors(manifest())
    assert [f"{list(problem.path)}: {problem.message}" for problem in problems] == []


def test_the_manifest_asks_for_the_scopes_that_start_up_checks() -> None:
    assert set(manifest()["oauth_config"]["scopes"]["bot"]) == SCOPES


def test_the_manifest_subscribes_to_the_events_that_have_a_listener() -> None:
    subscribed = manifest()["settings"]["event_subscriptions"]["bot_events"]
    assert {event.split(".")[0] for event in subscribed} == {
        *events.EVENTS,
        *events.REVOKED,
    }
    kinds = {event.split(".")[1] for event in subscribed if "." in event}
    history = {scope.split(":")[0] for scope in SCOPES if scope.endswith(":history")}
    assert kinds == history


def test_the_manifest_has_the_command_and_the_shortcuts_that_have_a_listener() -> None:
    features = manifest()["features"]
    assert [one["command"] for one in features["slash_commands"]] == [COMMAND]
    assert all(one["should_escape"] is True for one in features["slash_commands"])
    assert {one["callback_id"]: one["type"] for one in features["shortcuts"]} == {
        STATUS: "message",
        PENDING: "global",
    }


def test_interactivity_and_socket_mode_are_on() -> None:
    settings = manifest()["settings"]
    assert settings["interactivity"]["is_enabled"] is True
    assert settings["socket_mode_enabled"] is True


def test_a_leftover_oauth_setting_does_not_turn_bolt_to_another_installation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SLACK_CLIENT_ID", "1")
    monkeypatch.setenv("SLACK_CLIENT_SECRET", "2")
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-other")
    with caplog.at_level(logging.DEBUG):
        settings = SlackSettings("http", "http://127.0.0.1:1/", "/s", "xoxb-1", "", "secret")
        surface = SlackSurface(settings, None, FakeClock(), None)  # type: ignore[arg-type]
    assert surface._app.oauth_flow is None
    assert caplog.records == []
