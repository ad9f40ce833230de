"""The state of one Slack workspace: people, channels, messages, views, triggers, response URLs.

It lives apart from the bot, so it outlives every restart of the bot. Nothing here does I/O.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.clock import Clock
from tests.fakes.slack.pings import Ping, pings_in

Json = dict[str, Any]

TEAM = "T1"
BOT_USER = "U_BOT"
BOT_ID = "B_BOT"
APP = "A_BOT"
BOT_TOKEN = "xoxb-test"
APP_TOKEN = "xapp-test"
SIGNING_SECRET = "0123456789abcdef0123456789abcdef"

TRIGGER_SECONDS = 3.0
RESPONSE_URL_SECONDS = 1800.0
RESPONSE_URL_USES = 5
STREAM_SECONDS = 300.0

DEFAULT_SCOPES = frozenset(
    {
        "app_mentions:read",
        "assistant:write",
        "channels:history",
        "channels:read",
        "chat:write",
        "commands",
        "files:read",
        "files:write",
        "groups:history",
        "groups:read",
        "im:history",
        "im:read",
        "im:write",
        "mpim:history",
        "reactions:write",
        "usergroups:read",
        "users:read",
        "users:read.email",
    }
)


class SlackError(Exception):
    """An answer with ok false. `extra` goes into the answer beside the code."""

    def __init__(self, code: str, **extra: Any) -> None:
        super().__init__(code)
        self.code = code
        self.extra = extra


@dataclass
class User:
    """A person or a bot. External people (Slack Connect) have another team."""

    id: str
    name: str
    team: str = TEAM
    bot: bool = False
    deleted: bool = False
    guest: bool = False
    single_channel_guest: bool = False
    admin: bool = False
    enterprise: str = ""
    """The Enterprise Grid that the person is of; `team` is then one of its workspaces."""
    email: str = ""
    email_confirmed: bool | None = True

    def profile(self) -> Json:
        """The user object of users.info. Slack omits is_stranger for shared-channel members."""
        return {
            "id": self.id,
            "team_id": self.team,
            "name": self.name,
            "deleted": self.deleted,
            "real_name": self.name.title(),
            "tz": "Europe/Madrid",
            "profile": {"display_name": self.name, "real_name": self.name.title()},
            "is_admin": self.admin,
            "is_owner": False,
            "is_primary_owner": False,
            "is_restricted": self.guest or self.single_channel_guest,
            "is_ultra_restricted": self.single_channel_guest,
            "is_bot": self.bot,
            "is_app_user": False,
            **(
                {}
                if self.bot or self.email_confirmed is None
                else {"is_email_confirmed": self.email_confirmed}
            ),
            "updated": 1_700_000_000,
            **(
                {"enterprise_user": {"enterprise_id": self.enterprise, "teams": [self.team]}}
                if self.enterprise
                else {}
            ),
        }


@dataclass
class Channel:
    """A conversation of any kind, with its messages in order of time."""

    id: str
    name: str
    kind: str = "channel"
    """channel, group (private), im or mpim: the `channel_type` of events."""
    members: list[str] = field(default_factory=list)
    archived: bool = False
    ext_shared: bool = False
    team: str = ""
    """Which workspace of an Enterprise Grid it is in, where all of that installed the app."""
    messages: dict[str, Json] = field(default_factory=dict)

    @property
    def scope_prefix(self) -> str:
        """What the scopes of this kind of conversation begin with."""
        return f"{self.kind}s" if self.kind in ("channel", "group") else self.kind

    def info(self, bot: str) -> Json:
        """The conversation object of conversations.info."""
        return {
            "id": self.id,
            "name": self.name,
            "is_channel": self.kind == "channel",
            "is_group": self.kind == "group",
            "is_im": self.kind == "im",
            "is_mpim": self.kind == "mpim",
            "is_private": self.kind != "channel",
            "is_archived": self.archived,
            "is_member": bot in self.members,
            "is_ext_shared": self.ext_shared,
            "is_shared": self.ext_shared,
            "is_org_shared": False,
            "is_pending_ext_shared": False,
            "context_team_id": TEAM,
            "num_members": len(self.members),
            **({"user": next(m for m in self.members if m != bot)} if self.kind == "im" else {}),
        }


@dataclass
class Usergroup:
    """A user group, `<!subteam^id>`."""

    id: str
    handle: str
    users: list[str] = field(default_factory=list)
    disabled: bool = False
    team: str = ""
    """Which workspace of an Enterprise Grid it is of, where all of that installed the app."""


@dataclass
class View:
    """A modal or a home tab as a person has it open."""

    id: str
    user: str
    body: Json
    """The view as the app sent it, block ids filled in."""
    hash: str
    root: str
    previous: str | None
    values: dict[str, Json] = field(default_factory=dict)
    """The state: block id -> action id -> value."""


@dataclass
class Trigger:
    """A permission to open one modal, for three seconds."""

    id: str
    user: str
    made_at: float
    from_view: str | None = None
    used: bool = False
    view: View | None = None
    """The view that was opened or pushed with it."""


@dataclass
class ResponseUrl:
    """A capability to answer one interaction: five uses within thirty minutes."""

    token: str
    channel: str
    user: str
    made_at: float
    original: str | None
    """The ts of the message (or ephemeral) that the interaction came from."""
    uses: int = 0


@dataclass
class Ephemeral:
    """What only one person sees."""

    ts: str
    channel: str
    user: str
    message: Json


@dataclass(frozen=True)
class Call:
    """One call of the Web API or of a response URL, as the fake understood it."""

    method: str
    args: Json
    error: str | None
    problems: tuple[str, ...] = ()
    """What exactly was refused, for invalid_blocks and invalid_arguments."""


class Workspace:
    """Everything that Slack remembers about the team the bot is installed in, or about a `whole`
    Enterprise Grid that installed it with one token; `team` is then the enterprise's id."""

    def __init__(
        self, clock: Clock, team: str = TEAM, enterprise: str = "", whole: bool = False
    ) -> None:
        self.clock = clock
        self.team = team
        self.enterprise = enterprise
        self.whole = whole
        self.teams: list[str] = []
        """The workspaces of the Enterprise Grid that the app was added to."""
        self.token: str | None = BOT_TOKEN
        self.dead_tokens: dict[str, str] = {}
        """Tokens that were good once, and what Slack answers them now."""
        self.scopes: set[str] = set(DEFAULT_SCOPES)
        self.token_error = ""
        """What every call with the bot's token is refused with, as after `token_revoked`."""
        self.messages_tab = True
        """Whether people can have direct messages with the bot."""
        self.users: dict[str, User] = {}
        self.channels: dict[str, Channel] = {}
        self.usergroups: dict[str, Usergroup] = {}
        self.views: dict[str, View] = {}
        self.stacks: dict[str, list[str]] = {}
        """The open modals of each person, bottom first."""
        self.homes: dict[str, View] = {}
        self.home_tab = True
        """Whether the app's manifest enables the Home tab."""
        self.triggers: dict[str, Trigger] = {}
        self.response_urls: dict[str, ResponseUrl] = {}
        self.ephemerals: list[Ephemeral] = []
        self.streams: dict[tuple[str, str], float] = {}
        """Streaming messages that nobody ended, (channel, ts) -> when they were started."""
        self.prompts: dict[str, list[Json]] = {}
        """The suggested prompts of each direct conversation."""
        self.statuses: dict[tuple[str, str], tuple[str, float]] = {}
        self.sessions: dict[tuple[str, str], Json] = {}
        self.reactions: set[tuple[str, str, str]] = set()
        self.files: dict[str, Json] = {}
        """Uploads of the bot, and files of people: with `content` and the fields of a file."""
        self.downloads: list[tuple[str, str]] = []
        """What was asked for at a file's address: its id, and the token that came with it."""
        self.pings: list[Ping] = []
        self.calls: list[Call] = []
        self.base_url = ""
        self._numbers = itertools.count(1)
        self._last_ts = 0
        self.users[BOT_USER] = User(BOT_USER, "interlock", bot=True)

    def share_ids(self, other: "Workspace") -> None:
        """Slack's ids are good for all workspaces, and so are the addresses in them."""
        self._numbers = other._numbers
        self.base_url = other.base_url

    # Names and times

    def number(self, prefix: str) -> str:
        """A new id with this prefix."""
        return f"{prefix}{next(self._numbers):08d}"

    def new_ts(self) -> str:
        """A message time stamp: later than every other one."""
        self._last_ts = max(self._last_ts + 1, int(self.clock.now() * 1_000_000))
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def new_trigger(self, user: str, from_view: str | None = None) -> Trigger:
        trigger = Trigger(
            f"{self.number('')}.{TEAM}.trigger", user, self.clock.now(), from_view=from_view
        )
        self.triggers[trigger.id] = trigger
        return trigger

    def new_response_url(self, channel: str, user: str, original: str | None) -> str:
        token = self.number("R")
        self.response_urls[token] = ResponseUrl(token, channel, user, self.clock.now(), original)
        return f"{self.base_url.removesuffix('/api/')}/response/{token}"

    # Looking up, the way the Web API refuses

    def need_scope(self, *scopes: str) -> None:
        """Refuse unless the token has one of these scopes."""
        if scopes and not self.scopes.intersection(scopes):
            provided = ",".join(sorted(self.scopes))
            raise SlackError("missing_scope", needed=scopes[0], provided=provided)

    def visible_channel(self, channel_id: str) -> Channel:
        """A conversation that the bot may know of: public, or one it is a member of."""
        channel = self.channels.get(channel_id)
        if channel is None or (channel.kind != "channel" and BOT_USER not in channel.members):
            raise SlackError("channel_not_found")
        return channel

    def joined_channel(self, channel_id: str) -> Channel:
        """A conversation that the bot is a member of."""
        channel = self.visible_channel(channel_id)
        if BOT_USER not in channel.members:
            raise SlackError("not_in_channel")
        return channel

    def user(self, user_id: str) -> User:
        if user_id not in self.users:
            raise SlackError("user_not_found")
        return self.users[user_id]

    def direct_channel(self, user_id: str) -> Channel:
        """The conversation between the bot and one person, made when it is first needed."""
        for channel in self.channels.values():
            if channel.kind == "im" and user_id in channel.members:
                return channel
        made = Channel(self.number("D"), "", "im", [user_id, BOT_USER])
        self.channels[made.id] = made
        return made

    # Messages

    def store(self, channel: Channel, message: Json) -> Json:
        """Keep a new message under a new ts and note what it pinged."""
        ts = self.new_ts()
        stored = {"type": "message", "ts": ts, **message, "team": message.get("team", self.team)}
        root = stored.get("thread_ts")
        if root and root in channel.messages:
            channel.messages[root].setdefault("thread_ts", root)
        channel.messages[ts] = stored
        return stored

    def store_own(self, channel: Channel, message: Json, names_linked: bool = False) -> Json:
        """Keep a message of the bot."""
        own = {"user": BOT_USER, "bot_id": BOT_ID, "app_id": APP, **message}
        stored = self.store(channel, self.with_ids(own))
        self.pings += pings_in(stored, channel.id, names_linked)
        root = str(stored.get("thread_ts", ""))
        self.statuses.pop((channel.id, root), None)
        return stored

    def with_ids(self, holder: Json) -> Json:
        """The same with a block_id in every block and an action_id in every element, as kept."""
        if not holder.get("blocks"):
            return {key: value for key, value in holder.items() if key != "blocks"}
        blocks = []
        for block in holder["blocks"]:
            filled = {**block, "block_id": block.get("block_id") or self.number("b")}
            for key in ("element", "accessory"):
                if isinstance(filled.get(key), dict):
                    filled[key] = self._with_action_id(filled[key])
            if block.get("type") in ("actions", "context_actions"):
                filled["elements"] = [self._with_action_id(e) for e in block["elements"]]
            blocks.append(filled)
        return {**holder, "blocks": blocks}

    def _with_action_id(self, element: Json) -> Json:
        if element.get("type") == "image" or element.get("action_id"):
            return element
        return {**element, "action_id": self.number("a")}

    def replies(self, channel: Channel, root: str) -> Iterator[Json]:
        """The messages of a thread after its root, oldest first."""
        for ts, message in channel.messages.items():
            if message.get("thread_ts") == root and ts != root:
                yield message

    def streaming(self, channel: str, ts: str) -> bool:
        """Whether a message is a stream still: Slack ends one after five minutes."""
        started = self.streams.get((channel, ts))
        return started is not None and self.clock.now() - started <= STREAM_SECONDS

    def status(self, channel: str, thread: str) -> str:
        """The assistant status shown in a thread; it goes away after two minutes."""
        text, since = self.statuses.get((channel, thread), ("", 0.0))
        return text if self.clock.now() - since < 120 else ""
