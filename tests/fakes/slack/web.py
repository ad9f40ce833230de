"""The Web API as a table of methods, with what Slack checks before a method runs."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.fakes.slack import agents, chat, conversations, modals, streams
from tests.fakes.slack.args import Args
from tests.fakes.slack.workspace import (
    APP_TOKEN,
    Call,
    Json,
    SlackError,
    Workspace,
)

TIER_2, TIER_3, TIER_4, SPECIAL = 40, 100, 200, 600
"""Calls per minute. Slack promises at least half of these and allows bursts."""
POST_BURST, POST_PER_SECOND = 4.0, 1.0
"""chat.postMessage per channel."""


@dataclass(frozen=True)
class Method:
    """One method: what runs it, the scopes of which one is needed, its calls per minute."""

    run: Callable[[Workspace, Args], Json]
    scopes: tuple[str, ...] = ()
    per_minute: int = TIER_3


_WRITE = ("chat:write",)
_READ = ("channels:read", "groups:read", "im:read", "mpim:read")
_HISTORY = ("channels:history", "groups:history", "im:history", "mpim:history")

METHODS: dict[str, Method] = {
    "auth.test": Method(conversations.auth_test, (), SPECIAL),
    "auth.teams.list": Method(conversations.auth_teams, (), TIER_2),
    "chat.postMessage": Method(chat.post_message, _WRITE, SPECIAL),
    "chat.update": Method(chat.update, _WRITE, TIER_3),
    "chat.delete": Method(chat.delete, _WRITE, TIER_3),
    "chat.postEphemeral": Method(chat.post_ephemeral, _WRITE, TIER_4),
    "chat.getPermalink": Method(chat.get_permalink, (), SPECIAL),
    "chat.startStream": Method(streams.start, _WRITE, TIER_2),
    "chat.appendStream": Method(streams.append, _WRITE, TIER_4),
    "chat.stopStream": Method(streams.stop, _WRITE, TIER_2),
    "conversations.open": Method(
        conversations.open_conversation, ("im:write", "mpim:write"), TIER_3
    ),
    "conversations.info": Method(conversations.info, _READ, TIER_3),
    "conversations.history": Method(conversations.history, _HISTORY, TIER_3),
    "conversations.replies": Method(conversations.replies, _HISTORY, TIER_3),
    "conversations.members": Method(conversations.members, _READ, TIER_4),
    "conversations.list": Method(conversations.list_conversations, _READ, TIER_2),
    "conversations.join": Method(conversations.join, ("channels:join",), TIER_3),
    "users.info": Method(conversations.users_info, ("users:read",), TIER_4),
    "users.list": Method(conversations.users_list, ("users:read",), TIER_2),
    "usergroups.list": Method(conversations.usergroups_list, ("usergroups:read",), TIER_2),
    "usergroups.users.list": Method(conversations.usergroups_users, ("usergroups:read",), TIER_2),
    "views.open": Method(modals.open_view, (), TIER_4),
    "views.push": Method(modals.push_view, (), TIER_4),
    "views.update": Method(modals.update_view, (), TIER_4),
    "views.publish": Method(modals.publish_view, (), TIER_4),
    "assistant.threads.setStatus": Method(
        agents.set_thread_status, ("chat:write", "assistant:write"), SPECIAL
    ),
    "assistant.threads.setSuggestedPrompts": Method(
        agents.set_suggested_prompts, ("assistant:write",), TIER_3
    ),
    "agents.sessions.setStatus": Method(agents.set_session_status, _WRITE, TIER_3),
    "reactions.add": Method(conversations.add_reaction, ("reactions:write",), TIER_3),
    "files.info": Method(conversations.files_info, ("files:read",), TIER_4),
    "files.getUploadURLExternal": Method(conversations.get_upload_url, ("files:write",), TIER_4),
    "files.completeUploadExternal": Method(conversations.complete_upload, ("files:write",), TIER_4),
}


@dataclass
class Bucket:
    """A token bucket, filled by the injected clock."""

    size: float
    per_second: float
    level: float
    at: float

    def wait(self, now: float) -> float:
        """Take one token and return 0, or return the seconds until there is one."""
        self.level = min(self.size, self.level + (now - self.at) * self.per_second)
        self.at = now
        if self.level < 1:
            return (1 - self.level) / self.per_second
        self.level -= 1
        return 0.0


class RateLimited(Exception):
    """Too many calls; the answer is a 429 with Retry-After."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"ratelimited for {seconds} s")
        self.seconds = seconds


@dataclass
class WebApi:
    """Runs calls against a workspace."""

    world: Workspace
    connections_open: Callable[[], Json]
    """What apps.connections.open answers."""
    buckets: dict[str, Bucket] = field(default_factory=dict)

    def call(self, name: str, token: str, given: Json) -> Json:
        """One call: the token, the method, the scope and the rate are checked, then it runs.

        Every call is recorded, with the error if it was refused. Raises RateLimited.
        """
        try:
            answer = self._run(name, token, Args(given))
        except RateLimited:
            self._record(name, given, "ratelimited")
            raise
        except SlackError as refused:
            about = refused.extra.get("response_metadata", {}).get("messages", [])
            self._record(name, given, refused.code, tuple(about))
            return {"ok": False, "error": refused.code, **refused.extra}
        self._record(name, given, None)
        return {"ok": True, **answer}

    def _record(
        self, name: str, given: Json, error: str | None, about: tuple[str, ...] = ()
    ) -> None:
        args = {key: value for key, value in given.items() if key != "token"}
        decoded = {key: _decoded(args, key) for key in args}
        self.world.calls.append(Call(name, decoded, error, about))

    def _run(self, name: str, token: str, args: Args) -> Json:
        if not token:
            raise SlackError("not_authed")
        if token not in (self.world.token, APP_TOKEN):
            raise SlackError(self.world.dead_tokens.get(token, "invalid_auth"))
        if (token == APP_TOKEN) != (name == "apps.connections.open"):
            raise SlackError("not_allowed_token_type" if name in METHODS else "unknown_method")
        if token == self.world.token and self.world.token_error:
            raise SlackError(self.world.token_error)
        if name == "apps.connections.open":
            return self.connections_open()
        method = METHODS.get(name)
        if method is None:
            raise SlackError("unknown_method", req_method=name)
        self.world.need_scope(*method.scopes)
        self._take(name, method.per_minute, method.per_minute / 60)
        if name == "chat.postMessage":
            self._take(f"{name} {args.text('channel')}", POST_BURST, POST_PER_SECOND)
        return method.run(self.world, args)

    def _take(self, key: str, size: float, per_second: float) -> None:
        now = self.world.clock.now()
        bucket = self.buckets.setdefault(key, Bucket(size, per_second, size, now))
        seconds = bucket.wait(now)
        if seconds > 0:
            raise RateLimited(seconds)


def _decoded(args: Json, key: str) -> object:
    """An argument as a test wants to read it: structures parsed."""
    value = args[key]
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return Args(args).data(key)
        except SlackError:
            return value
    return value
