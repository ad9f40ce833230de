"""The settings of the Slack surface: `[surfaces.slack]` of the configuration, and its secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from cryptography.fernet import Fernet, MultiFernet
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.secrets import ConfigError, secret

SCOPES: Final = frozenset(
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
        "im:write",
        "mpim:history",
        "usergroups:read",
        "users:read",
        "users:read.email",
    }
)


class Prompt(BaseModel):
    """Something a person may say with one click: what the button reads, and what is said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = Field(min_length=1, max_length=100)
    message: str = Field(min_length=1, max_length=1_000)


PROMPTS: Final = (  # the manifest has the same
    Prompt(title="What waits for me?", message="pending"),
    Prompt(title="What is going on?", message="status"),
    Prompt(title="What can I type?", message="help"),
)


class SlackOptions(BaseModel):
    """What the configuration file may say."""

    model_config = ConfigDict(extra="forbid")

    mode: Literal["socket", "http"] | None = None
    base_url: str = Field("https://slack.com/api/", pattern=r"^https?://.+")
    path: str = Field("/slack/events", pattern=r"^/[\w./-]*$")
    prompts: tuple[Prompt, ...] = Field(PROMPTS, max_length=4)


@dataclass(frozen=True, slots=True)
class OAuth:
    """What many workspaces install us with, and the keys under which their tokens are kept."""

    client_id: str
    client_secret: str
    keys: MultiFernet

    def __repr__(self) -> str:
        return f"OAuth(client_id={self.client_id!r})"


@dataclass(frozen=True, slots=True)
class SlackSettings:
    """Settings that belong together: in socket mode there is an app token, in http mode a signing
    secret; there is one bot token, or OAuth."""

    mode: Literal["socket", "http"]
    base_url: str
    path: str
    bot_token: str
    app_token: str
    signing_secret: str
    prompts: tuple[Prompt, ...] = PROMPTS
    oauth: OAuth | None = None

    def __repr__(self) -> str:
        return f"SlackSettings(mode={self.mode!r}, base_url={self.base_url!r}, path={self.path!r})"


def read(options: Mapping[str, object]) -> SlackSettings:
    """Reads options and secrets. Raises ConfigError, one sentence that names the setting."""
    try:
        given = SlackOptions.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(["surfaces.slack", *map(str, first["loc"])])
        raise ConfigError(f"{where} is wrong: {first['msg']}.") from None
    bot_token = secret("SLACK_BOT_TOKEN") or ""
    app_token = secret("SLACK_APP_TOKEN") or ""
    signing_secret = secret("SLACK_SIGNING_SECRET") or ""
    mode = given.mode or ("socket" if app_token or not signing_secret else "http")
    oauth = _oauth(bot_token)
    if oauth is None and not bot_token.startswith("xox"):
        raise _needed("SLACK_BOT_TOKEN", "the bot token (xoxb-…) from OAuth & Permissions")
    if mode == "socket" and not app_token.startswith("xapp-"):
        raise _needed(
            "SLACK_APP_TOKEN",
            "an app-level token (xapp-…) with connections:write, or surfaces.slack.mode = http",
        )
    if mode == "http" and not signing_secret:
        raise _needed("SLACK_SIGNING_SECRET", "the signing secret from Basic Information")
    return SlackSettings(
        mode,
        given.base_url,
        given.path,
        bot_token,
        app_token,
        signing_secret,
        given.prompts,
        oauth,
    )


def _oauth(bot_token: str) -> OAuth | None:
    """None where the app is installed in one workspace, by its token."""
    client_id = secret("SLACK_CLIENT_ID") or ""
    client_secret = secret("SLACK_CLIENT_SECRET") or ""
    if not (client_id or client_secret):
        return None
    if bot_token:
        raise ConfigError(
            "SLACK_BOT_TOKEN is for one workspace and SLACK_CLIENT_ID with SLACK_CLIENT_SECRET for "
            "many: remove the one or the other."
        )
    if not client_id or not client_secret:
        missing = "SLACK_CLIENT_SECRET" if client_id else "SLACK_CLIENT_ID"
        raise ConfigError(f"{missing} is missing: set it as Basic Information of your app has it.")
    given = [key.strip() for key in (secret("SLACK_TOKEN_KEY") or "").split(",") if key.strip()]
    try:
        keys = [Fernet(key) for key in given]
    except ValueError:
        keys = []
    if not keys:
        raise ConfigError(
            "SLACK_TOKEN_KEY is missing or wrong: set it to a key made with `python -c 'from "
            "cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'`."
        )
    return OAuth(client_id, client_secret, MultiFernet(keys))


def _needed(name: str, what: str) -> ConfigError:
    return ConfigError(f"{name} is missing or wrong: set it to {what} of your Slack app.")
