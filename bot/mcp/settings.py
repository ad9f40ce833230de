"""What an operator writes about one MCP server: a section `[servers.NAME]` of the configuration.

Secrets are never in it: `bearer`, `oauth.client_secret` and `env:NAME` name secrets of the
environment (bot.secrets: NAME, or a file that NAME_FILE names). Every mistake is a sentence that
names the setting, as `servers.NAME.url ...`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, Self
from urllib.parse import SplitResult, urlsplit

import pydantic
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from bot.loopback import is_loopback
from bot.secrets import ConfigError, secret

_SERVER_NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET_HEADER = re.compile(r"auth|cookie|token|secret|key|password|credential", re.IGNORECASE)
_TRANSPORT_HEADERS = frozenset(
    {"accept", "content-type", "content-length", "host", "last-event-id"}
)
_REFERENCE = "env:"

_HTTP_ONLY = ("headers", "bearer", "oauth", "proxy", "ca_file", "insecure_http")
_STDIO_ONLY = ("cwd", "env")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OAuthSettings(_Section):
    """Client credentials: the token is fetched with an id and a secret of the bot's own.

    `client_secret` names the secret. `issuer` is the address of the authorization server that
    they belong to; they are sent nowhere else, whatever the MCP server says."""

    client_id: str = Field(min_length=1)
    client_secret: str
    issuer: str
    scope: str | None = None

    @field_validator("client_secret")
    @classmethod
    def _names_a_secret(cls, value: str) -> str:
        return _secret_name(value)

    @field_validator("issuer")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        parts = _address(value)
        if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            raise ValueError("must be https, since a secret is sent there")
        return value


class ServerSettings(_Section):
    """One server: `url` for streamable HTTP, or `command` (with its arguments) for stdio.

    `protocol`: `legacy` when its tools ask in the middle of a call as before 2026-07-28.
    `allow` and `deny` are patterns (`*`, `?`) of the tool names that the server uses, and so are
    `carriers`: tools whose arguments say all that they do, like a shell (bot.tool.Tool).
    `questions`: the kinds of question taken from it; with `none` it is told that nobody can be
    asked. `approval` counts for every tool that `approval_by_tool` does not name;
    `approval_by_annotation` asks only for tools that say they are destructive (`destructive`), or
    that do not say they only read (`not_read_only`), which a server must be trusted for.
    `fixed` sets arguments of a tool (or of all: `*`) that the model neither sees nor changes.
    Time-outs are seconds; `call_timeout` does not count while a person is asked."""

    url: str | None = None
    headers: dict[str, str] = {}
    bearer: str | None = None
    oauth: OAuthSettings | None = None
    proxy: str | None = None
    ca_file: str | None = None
    insecure_http: bool = False

    command: tuple[str, ...] = ()
    cwd: str | None = None
    env: dict[str, str] = {}

    protocol: Literal["auto", "legacy"] = "auto"
    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    carriers: tuple[str, ...] = ()
    questions: Literal["both", "form", "page", "none"] = "both"
    approval: Literal["ask", "never"] = "ask"
    approval_by_tool: dict[str, Literal["ask", "never"]] = {}
    approval_by_annotation: Literal["off", "destructive", "not_read_only"] = "off"
    trusted_annotations: bool = False
    fixed: dict[str, dict[str, Any]] = {}
    connect_timeout: float = Field(default=10, gt=0, le=300)
    call_timeout: float = Field(default=300, gt=0, le=86_400)

    @field_validator("url")
    @classmethod
    def _url_is_an_address(cls, value: str | None) -> str | None:
        if value is not None and _address(value).fragment:
            raise ValueError("must have no #fragment")
        return value

    @field_validator("headers")
    @classmethod
    def _headers_hold_no_secret(cls, value: dict[str, str]) -> dict[str, str]:
        for name, content in value.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"has {name!r}, which is no name of a header")
            if name.lower() in _TRANSPORT_HEADERS or name.lower().startswith("mcp-"):
                raise ValueError(f"may not set {name}: the protocol does")
            if _is_reference(content):
                continue
            if _SECRET_HEADER.search(name):
                raise ValueError(
                    f"holds a literal {name}, which is a secret: put it into the environment and "
                    'name it here, as "env:NAME"'
                )
            if not content.isprintable():
                raise ValueError(f"has a value for {name} that is no line of text")
        return value

    @field_validator("bearer")
    @classmethod
    def _bearer_names_a_secret(cls, value: str | None) -> str | None:
        return value if value is None else _secret_name(value)

    @field_validator("proxy")
    @classmethod
    def _proxy_is_an_address(cls, value: str | None) -> str | None:
        if value is not None and not _is_reference(value):
            _address(value)
        return value

    @field_validator("command")
    @classmethod
    def _command_is_whole(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if value and not value[0]:
            raise ValueError("must begin with the program to start")
        if any("\0" in one for one in value):
            raise ValueError("has a NUL character")
        return value

    @field_validator("env")
    @classmethod
    def _env_has_names(cls, value: dict[str, str]) -> dict[str, str]:
        for name, content in value.items():
            if not _ENV_NAME.fullmatch(name):
                raise ValueError(f"has {name!r}, which is no name of a variable")
            _is_reference(content)
        return value

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        """The text begins with the setting at fault: `_sentences` puts the server before it."""
        if (self.url is None) == (not self.command):
            raise ValueError("url or command must be set, and only one of them")
        given = self.model_fields_set
        for name in _STDIO_ONLY if self.url is not None else _HTTP_ONLY:
            if name in given:
                other = "url" if self.url is not None else "command"
                raise ValueError(f"{name} does not go with {other}: remove one of them")
        if self.url is not None:
            parts = urlsplit(self.url)
            if parts.scheme != "https" and not (
                self.insecure_http or is_loopback(parts.hostname or "")
            ):
                raise ValueError(
                    "url must be https; plain http is for this machine only, unless "
                    "insecure_http = true says that you know"
                )
        named = {name.lower() for name in self.headers}
        ways = [self.bearer is not None, self.oauth is not None, "authorization" in named]
        if sum(ways) > 1:
            raise ValueError("bearer, oauth and headers.Authorization exclude each other: keep one")
        if self.approval_by_annotation != "off" and not self.trusted_annotations:
            raise ValueError(
                "approval_by_annotation needs trusted_annotations = true: what a server says of "
                "its own tools counts only if you trust it"
            )
        return self

    def offers(self, tool: str) -> bool:
        """Whether the tool that the server calls so is let through."""
        return any(fnmatchcase(tool, one) for one in self.allow) and not any(
            fnmatchcase(tool, one) for one in self.deny
        )

    def carries(self, tool: str) -> bool:
        return any(fnmatchcase(tool, one) for one in self.carriers)

    @property
    def identity(self) -> list[str | None]:
        """What is behind the name of the server: with it the tools are others. No secret is."""
        return [self.url, *self.command, self.cwd]

    def named_tools(self) -> frozenset[str]:
        """The tools that some setting names outright: the server must offer them."""
        named = {one for one in (*self.allow, *self.carriers) if not set(one) & set("*?[")}
        return frozenset(named | set(self.approval_by_tool) | (set(self.fixed) - {"*"}))


def server_settings(name: str, section: Mapping[str, Any]) -> ServerSettings:
    """The checked section `[servers.NAME]`. Raises ConfigError with a sentence a mistake."""
    if not _SERVER_NAME.fullmatch(name):
        raise ConfigError(
            f"servers.{name} is no name for a server: use up to 20 of a-z, 0-9 and -, beginning "
            "with a letter."
        )
    try:
        return ServerSettings.model_validate(section)
    except pydantic.ValidationError as error:
        raise ConfigError("\n".join(_sentences(name, error))) from None  # it quotes the values


def _sentences(name: str, error: pydantic.ValidationError) -> Iterator[str]:
    for one in error.errors(include_url=False, include_input=False, include_context=False):
        setting = ".".join([f"servers.{name}", *map(str, one["loc"])])
        text = one["msg"].removeprefix("Value error, ")
        match one["type"]:
            case "missing":
                yield f"{setting} is missing."
            case "extra_forbidden":
                yield f"{setting} is not a setting: remove it or correct its name."
            case "value_error":
                yield f"{setting}{' ' if one['loc'] else '.'}{text}."
            case _:
                yield f"{setting} is wrong: {text[0].lower()}{text[1:]}."


def value_of(setting: str, value: str) -> str:
    """A value as it is used: what "env:NAME" stands for, or itself. Raises ConfigError."""
    if not value.startswith(_REFERENCE):
        return value
    return needed_secret(setting, value.removeprefix(_REFERENCE))


def needed_secret(setting: str, name: str) -> str:
    """The secret that a setting names. Raises ConfigError when it is not set."""
    found = secret(name)
    if found is None:
        raise ConfigError(
            f"{setting} names the secret {name}, which is not set: put it into the environment as "
            f"{name}, or the name of a file that holds it as {name}_FILE."
        )
    return found


def _is_reference(value: str) -> bool:
    if not value.startswith(_REFERENCE):
        return False
    _secret_name(value.removeprefix(_REFERENCE))
    return True


def _secret_name(value: str) -> str:
    """Does not repeat the value: who put the secret itself here must not read it in a log."""
    if not _ENV_NAME.fullmatch(value):
        raise ValueError("must be the name of a secret in the environment, not the secret itself")
    return value


def _address(value: str) -> SplitResult:
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise ValueError("is no address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address that begins with https:// (or http://)")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must have no user or password in it: they belong into the environment")
    return parts
