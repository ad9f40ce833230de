"""The manifest is one that Slack takes, and asks for what the code uses."""

import ast
import inspect
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import events
from adapters.slack.commands import COMMAND, PENDING, STATUS
from adapters.slack.settings import PROMPTS, SCOPES, SlackSettings
from adapters.slack.transport import SlackSurface
from bot.commands import HELP
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


def problems(given: dict[str, Any]) -> list[str]:
    if not SCHEMA.exists():
        pytest.skip("the schema of Slack's manifests is not here")
    found = Draft7Validator(json.loads(SCHEMA.read_text())).iter_errors(given)
    return [f"{list(problem.path)}: {problem.message}" for problem in found]


def test_the_manifest_is_valid_by_the_schema_of_slack() -> None:
    assert problems(manifest()) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("display_information", "name"), "x" * 36),
        (("features", "slash_commands", 0, "command"), "interlock"),
        (("features", "shortcuts", 0, "type"), "channel"),
        (("settings", "socket_mode_enbaled"), True),
    ],
)
def test_the_schema_refuses_a_manifest_that_is_wrong(path: tuple[Any, ...], value: Any) -> None:
    given: Any = manifest()
    where = given
    for part in path[:-1]:
        where = where[part]
    where[path[-1]] = value
    assert problems(given)


LIMITS: dict[tuple[str, ...], int] = {  # platforms/slack.md, section 4
    ("display_information", "name"): 35,
    ("display_information", "description"): 140,
    ("features", "bot_user", "display_name"): 80,
    ("features", "slash_commands"): 50,
    ("features", "slash_commands", "*", "command"): 32,
    ("features", "slash_commands", "*", "description"): 2000,
    ("features", "slash_commands", "*", "usage_hint"): 1000,
    ("features", "shortcuts"): 10,
    ("features", "shortcuts", "*", "name"): 24,
    ("features", "shortcuts", "*", "callback_id"): 255,
    ("features", "shortcuts", "*", "description"): 150,
    ("settings", "event_subscriptions", "bot_events"): 100,
}


@pytest.mark.parametrize(("path", "most"), LIMITS.items(), ids=lambda value: str(value))
def test_the_manifest_is_within_the_limits_of_slack(path: tuple[str, ...], most: int) -> None:
    found = at(manifest(), *path)
    assert found
    assert all(0 < len(one) <= most for one in found)


def at(given: Any, *path: str) -> list[Any]:
    """What stands there; `*` is every item of a list."""
    if not path:
        return [given]
    if path[0] == "*":
        return [found for item in given for found in at(item, *path[1:])]
    return at(given[path[0]], *path[1:])


# --- What the code uses

HISTORY = {"channels:history", "groups:history", "im:history", "mpim:history"}
CHANNELS = {"channels:read", "groups:read"}  # conversations.info and the like of channels alone

METHODS: dict[str, set[str]] = {  # the bot scopes that a method takes, as we call it
    "agents_sessions_rename": {"chat:write"},
    "agents_sessions_setStatus": {"chat:write"},
    "apps_connections_open": set(),  # connections:write of the app-level token
    "assistant_threads_setStatus": {"chat:write"},
    "assistant_threads_setSuggestedPrompts": {"assistant:write"},
    "assistant_threads_setTitle": {"assistant:write"},
    "auth_revoke": set(),
    "auth_teams_list": set(),
    "auth_test": set(),
    "bots_info": {"users:read"},
    "chat_appendStream": {"chat:write"},
    "chat_delete": {"chat:write"},
    "chat_getPermalink": set(),
    "chat_postEphemeral": {"chat:write"},
    "chat_postMessage": {"chat:write"},
    "chat_startStream": {"chat:write"},
    "chat_stopStream": {"chat:write"},
    "chat_stream": {"chat:write"},
    "chat_update": {"chat:write"},
    "conversations_history": HISTORY,
    "conversations_info": CHANNELS,
    "conversations_join": {"channels:join"},
    "conversations_members": CHANNELS,
    "conversations_open": {"im:write"},  # with one person
    "conversations_replies": HISTORY,
    "files_completeUploadExternal": {"files:write"},
    "files_getUploadURLExternal": {"files:write"},
    "files_info": {"files:read"},
    "files_upload_v2": {"files:write"},
    "oauth_v2_access": set(),
    "reactions_add": {"reactions:write"},
    "reactions_remove": {"reactions:write"},
    "team_info": {"team:read"},
    "usergroups_list": {"usergroups:read"},
    "usergroups_users_list": {"usergroups:read"},
    "users_conversations": CHANNELS,
    "users_info": {"users:read"},
    "users_list": {"users:read"},
    "views_open": set(),
    "views_publish": set(),
    "views_push": set(),
    "views_update": set(),
}
INJECTED = {  # what slack_bolt gives a listener by the name of its argument, and what it calls
    "say": "chat_postMessage",
    "say_stream": "chat_stream",
    "set_status": "assistant_threads_setStatus",
    "set_suggested_prompts": "assistant_threads_setSuggestedPrompts",
    "set_title": "assistant_threads_setTitle",
}
EVENTS: dict[str, set[str]] = {  # the bot scopes that an event takes
    "agent_session_stopped": {"chat:write"},
    "agent_session_title_changed": {"chat:write"},
    "app_context_changed": {"assistant:write"},
    "app_home_opened": set(),
    "app_mention": {"app_mentions:read"},
    "app_uninstalled": set(),
    "assistant_thread_context_changed": {"assistant:write"},
    "assistant_thread_started": {"assistant:write"},
    "file_shared": {"files:read"},
    "member_joined_channel": CHANNELS,
    "member_left_channel": CHANNELS,
    "message.channels": {"channels:history"},
    "message.groups": {"groups:history"},
    "message.im": {"im:history"},
    "message.mpim": {"mpim:history"},
    "subteam_members_changed": {"usergroups:read"},
    "subteam_updated": {"usergroups:read"},
    "team_access_granted": set(),
    "team_access_revoked": set(),
    "tokens_revoked": set(),
}
OF_THE_SDK = {
    name
    for name in dir(AsyncWebClient)
    if inspect.iscoroutinefunction(getattr(AsyncWebClient, name))
    and not name.startswith("_")
    and name != "api_call"
}


def called(source: str) -> set[str]:
    """The methods of the Web API that a source calls, as slack_sdk names them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name) if name in OF_THE_SDK:
                found.add(name)
            case ast.Call(func=ast.Attribute(attr="api_call"), args=[ast.Constant(str(name)), *_]):
                found.add(name.replace(".", "_"))
            case ast.Call(func=ast.Attribute(attr="api_call")):
                pytest.fail("a method that is computed cannot be held against the scopes")
            case ast.arg(arg=name) if name in INJECTED:
                found.add(INJECTED[name])
            case _:
                pass
    return found


def sources() -> list[str]:
    return [path.read_text() for path in (ROOT / "adapters" / "slack").rglob("*.py")]


def used() -> set[str]:
    return {method for source in sources() for method in called(source)}


class Listeners:
    """What the surface registers with Bolt."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[Any] = []
        self.commands: list[Any] = []
        self.shortcuts: list[Any] = []
        for kind in ("event", "command", "shortcut"):
            monkeypatch.setattr(AsyncApp, kind, self._noted(kind, getattr(AsyncApp, kind)))
        settings = SlackSettings("http", "http://127.0.0.1:1/", "/s", "xoxb-1", "", "secret")
        SlackSurface(settings, None, FakeClock(), None)  # type: ignore[arg-type]

    def _noted(self, kind: str, register: Any) -> Any:
        def noted(app: AsyncApp, constraint: Any, *rest: Any, **named: Any) -> Any:
            getattr(self, f"{kind}s").append(constraint)
            return register(app, constraint, *rest, **named)

        return noted

    def named(self) -> set[str]:
        """The events by name; what catches all the rest is for none."""
        names = [one["type"] if isinstance(one, dict) else one for one in self.events]
        return {name for name in names if isinstance(name, str)}


@pytest.fixture
def listeners(monkeypatch: pytest.MonkeyPatch) -> Listeners:
    return Listeners(monkeypatch)


def bot_scopes() -> list[str]:
    return [str(one) for one in manifest()["oauth_config"]["scopes"]["bot"]]


def subscribed() -> list[str]:
    return [str(one) for one in manifest()["settings"]["event_subscriptions"]["bot_events"]]


def test_the_manifest_asks_for_the_scopes_that_start_up_and_doctor_check() -> None:
    assert set(bot_scopes()) == SCOPES
    assert len(bot_scopes()) == len(SCOPES)
    assert set(manifest()["oauth_config"]["scopes"]) == {"bot"}


def test_the_scopes_are_those_that_the_code_uses_and_no_other() -> None:
    unknown = used() - set(METHODS) | set(subscribed()) - set(EVENTS)
    assert not unknown, "say in METHODS or EVENTS which scopes these take"
    needed = {scope for method in used() for scope in METHODS[method]}
    needed |= {scope for event in subscribed() for scope in EVENTS[event]}
    needed |= (
        {"commands"} if {"slash_commands", "shortcuts"} & set(manifest()["features"]) else set()
    )
    addresses = any("is_email_confirmed" in source for source in sources())
    needed |= {"users:read.email"} if addresses else set()
    needed |= {"files:read"} if any("url_private" in source for source in sources()) else set()
    assert needed == SCOPES


def test_every_scope_says_what_it_is_for() -> None:
    lines = (ROOT / "manifest.yaml").read_text().splitlines()
    for scope in bot_scopes():
        [line] = [one for one in lines if one.strip().split(" ")[:2] == ["-", scope]]
        assert len(line.partition(" # ")[2]) > 8, f"{scope}: for what?"


def test_the_manifest_subscribes_to_the_events_that_have_a_listener_and_to_no_other(
    listeners: Listeners,
) -> None:
    assert {event.split(".")[0] for event in subscribed()} == listeners.named()
    assert len(set(subscribed())) == len(subscribed())
    heard = {scope for one in subscribed() if one.startswith("message.") for scope in EVENTS[one]}
    assert heard == HISTORY, "where the bot can look for its posts it also hears people"
    assert set(events.EVENTS) <= listeners.named()


def test_the_manifest_has_the_commands_and_shortcuts_that_have_a_listener_and_no_other(
    listeners: Listeners,
) -> None:
    features = manifest()["features"]
    assert [one["command"] for one in features["slash_commands"]] == listeners.commands == [COMMAND]
    assert all(one["should_escape"] is True for one in features["slash_commands"])
    kinds = {one["callback_id"]: one["type"] for one in features["shortcuts"]}
    assert kinds == {STATUS: "message", PENDING: "global"}
    assert set(listeners.shortcuts) == set(kinds)


def test_the_hint_of_the_command_has_every_command_of_the_help() -> None:
    [command] = manifest()["features"]["slash_commands"]
    hinted = {one.partition(" ID")[0] for one in command["usage_hint"].split(" | ")}
    helped = re.findall(r"^- `((?:[a-z]+ ?)+)", HELP, re.MULTILINE)
    assert hinted == {one.strip() for one in helped}


def test_the_tabs_and_the_agent_view_are_on_where_the_code_uses_them() -> None:
    features = manifest()["features"]
    assert features["app_home"]["home_tab_enabled"] is ("views_publish" in used())
    assert features["app_home"]["messages_tab_enabled"] is ("message.im" in subscribed())
    agent = {"assistant_threads_setSuggestedPrompts"}
    agent |= {method for method in used() if method.startswith("agents_sessions_")}
    assert ("agent_view" in features) is bool(agent & used())


def test_the_manifest_suggests_what_the_settings_suggest() -> None:
    agent = manifest()["features"]["agent_view"]
    assert agent["suggested_prompts"] == [one.model_dump() for one in PROMPTS]


def test_interactivity_and_socket_mode_are_on() -> None:
    settings = manifest()["settings"]
    assert settings["interactivity"]["is_enabled"] is True
    assert settings["socket_mode_enabled"] is True


def test_every_way_to_call_a_method_is_seen() -> None:
    source = """
async def listen(self, say_stream):
    await self._client.chat_update(ts="1")
    post = client.chat_postMessage
    await client.api_call("agents.sessions.setStatus", json={})
"""
    wanted = {"chat_update", "chat_postMessage", "agents_sessions_setStatus", "chat_stream"}
    assert called(source) == wanted


def test_the_methods_are_those_of_the_sdk() -> None:
    assert set(METHODS) <= OF_THE_SDK


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
