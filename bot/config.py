"""The configuration: one file, interlock.toml; secrets only from the environment or files.

Every mistake is told in a sentence that names the setting.
"""

from __future__ import annotations

import importlib
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pydantic
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from bot.approvers import NOBODY, Policies, Policy, unreachable
from bot.ask_user_tool import ask_user_tool, in_thread
from bot.clock import Clock
from bot.core import Agent, ToolSource
from bot.hours_settings import HoursSettings
from bot.jobs import EngineKind
from bot.model import InvalidModel, Model
from bot.policy_settings import ASKER, Admin, People, PolicySettings, policies_from
from bot.rule_settings import RuleSettings
from bot.secrets import ConfigError, secret
from bot.tool import Tool
from storage.database import wrong_url

DEFAULT_PATH = Path("interlock.toml")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AgentSettings(_Section):
    """`tools`: `module:name`, or `ask_user`. `servers`: names of `[servers.*]`."""

    model: str
    base_url: str | None = None
    instructions: str = ""
    tools: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    context_tokens: int | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    temperature: float | None = Field(default=None, ge=0)
    calls: int = Field(default=50, gt=0)
    rounds: int = Field(default=25, gt=0)
    sees_images: bool = False
    first_tool: str | None = None


class ServerSettings(_Section):
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)


def _database(url: str) -> str:
    if (why := wrong_url(url)) is not None:
        raise ValueError(why)
    return url


class Config(BaseSettings):
    """What interlock.toml holds; INTERLOCK_DATABASE and the like in the environment win."""

    model_config = SettingsConfigDict(
        env_prefix="INTERLOCK_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    database: Annotated[str, AfterValidator(_database)] = "sqlite:///interlock.db"
    jobs: EngineKind = EngineKind.EMBEDDED
    agents: dict[str, AgentSettings] = {}
    policies: tuple[PolicySettings, ...] = ()
    people: People = {}
    hours: dict[str, HoursSettings] = {}
    admins: tuple[Admin, ...] = ()
    rules: tuple[RuleSettings, ...] = ()
    servers: dict[str, dict[str, Any]] = {}
    surfaces: dict[str, dict[str, Any]] = {}
    server: ServerSettings = ServerSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load(path: Path = DEFAULT_PATH) -> Config:
    """Reads and validates the file. Raises ConfigError."""
    if not path.exists():
        raise ConfigError(f"There is no {path}: write one with `interlock init`.")

    class Loaded(Config):
        model_config = SettingsConfigDict(toml_file=path)

    try:
        return Loaded()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: save it as such.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error
    except pydantic.ValidationError as error:
        raise ConfigError("\n".join(_sentences(path, error))) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error


def _sentences(path: Path, error: pydantic.ValidationError) -> Iterator[str]:
    found = error.errors(include_url=False, include_input=False)
    inside = {one["loc"][:-1] for one in found}
    for one in found:
        if one["type"] == "too_short" and one["loc"] in inside:
            continue  # there were some, and each is told of
        setting = ".".join(str(part) for part in one["loc"])
        match one["type"]:
            case "missing":
                what = "is missing"
            case "extra_forbidden":
                what = "is not a setting: remove it or correct its name"
            case "too_short":
                what = "is empty: name at least one, or leave it out"
            case "value_error":
                what = str(one["ctx"]["error"]).removesuffix(".")
            case _:
                what = f"is wrong: {one['msg'][0].lower()}{one['msg'][1:]}"
        yield f"{path}: {setting} {what}."


def policies_of(config: Config) -> Policies:
    """Raises ConfigError."""
    return policies_from(
        config.policies, config.people, config.servers, config.admins, config.hours
    )


def agents_of(config: Config, clock: Clock) -> dict[str, Agent]:
    """The agents with their models and tools. Raises ConfigError."""
    if not config.agents:
        raise ConfigError("agents is empty: name at least one agent, as [agents.NAME].")
    servers = sources_of(config, clock)
    return {name: _agent(name, one, servers, clock) for name, one in config.agents.items()}


def sources_of(config: Config, clock: Clock) -> dict[str, ToolSource]:
    """The MCP servers of `[servers.*]`, not yet connected. Raises ConfigError."""
    if not config.servers:
        return {}
    from bot.mcp.settings import server_settings  # the SDK is loaded only where it is used
    from bot.mcp.source import McpServer

    return {
        name: McpServer(name, server_settings(name, section), clock)
        for name, section in config.servers.items()
    }


def _agent(
    name: str, settings: AgentSettings, servers: Mapping[str, ToolSource], clock: Clock
) -> Agent:
    provider = settings.model.partition(":")[0]
    try:
        model = Model.open(
            settings.model,
            base_url=settings.base_url,
            api_key=secret(f"{provider.upper().replace('-', '_')}_API_KEY"),
            context_tokens=settings.context_tokens,
            now=clock.now,
            sleep=clock.sleep,
        )
    except InvalidModel as error:
        raise ConfigError(f"agents.{name}.model: {error}") from error
    tools = [_tool(f"agents.{name}.tools", one) for one in settings.tools]
    names = [tool.name for tool in tools]
    for one in names:
        if names.count(one) > 1:
            raise ConfigError(f"agents.{name}.tools names {one} twice: remove one.")
    for one in settings.servers:
        if one not in servers:
            raise ConfigError(f"agents.{name}.servers names {one}: there is no [servers.{one}].")
    return Agent(
        name=name,
        model=model,
        instructions=settings.instructions,
        tools=tools,
        sources=[servers[one] for one in settings.servers],
        calls=settings.calls,
        rounds=settings.rounds,
        sees_images=settings.sees_images,
        first_tool=settings.first_tool,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
    )


def _tool(setting: str, path: str) -> Tool:
    if path == "ask_user":
        return ask_user_tool(in_thread)
    module_name, colon, name = path.partition(":")
    if not colon or not name:
        raise ConfigError(f"{setting}: {path!r} must be module:name, or ask_user.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module_name), name)
    except ImportError as error:
        raise ConfigError(f"{setting}: {module_name} cannot be imported: {error}.") from error
    except AttributeError as error:
        raise ConfigError(f"{setting}: {module_name} has no {name}.") from error
    if not isinstance(found, Tool):
        raise ConfigError(f"{setting}: {path} is no tool: decorate it with @tool.")
    return found


def without_approver(
    agents: Mapping[str, Agent],
    policies: Policies,
    offered: Mapping[str, Sequence[Tool]] | None = None,
) -> list[str]:
    """One sentence for every tool that asks and that nobody may approve: fail closed, and say so
    before anybody waits for it (row B7). `offered`: an agent's tools of servers, once known."""
    sentences: list[str] = []
    for agent in agents.values():
        for tool in (*agent.tools, *(offered or {}).get(agent.name, ())):
            might = policies.all_of(agent.name, tool.name, tool.server)
            for policy in might:
                asks = tool.approval != "never" or policy.ask
                why = unreachable(policy, askers=(ASKER,), tool=tool.name, who=policies.who)
                if asks and why is not None:
                    sentences.append(
                        _unapprovable(agent.name, tool.name, policy, partly=len(might) > 1)
                    )
    return [*sentences, *_without_argument(agents, policies, offered or {})]


def _without_argument(
    agents: Mapping[str, Agent], policies: Policies, offered: Mapping[str, Sequence[Tool]]
) -> Iterator[str]:
    """A condition on an argument that no tool has never holds, and the next policy would count. Not
    told while a server may still have such a tool."""
    for policy in policies.policies:
        if any(
            a.sources and a.name not in offered and policy.of_agent(a.name) for a in agents.values()
        ):
            continue
        covered = [
            tool.parameters.get("properties", {})
            for agent in agents.values()
            for tool in (*agent.tools, *offered.get(agent.name, ()))
            if policy.covers(agent.name, tool.name, tool.server)
        ]
        for one in policy.when if covered else ():
            if not any({one.argument, one.argument.split(".")[0]} & set(has) for has in covered):
                yield (
                    f"The policy {policy.name} looks at the argument {one.argument}, which no tool "
                    "that it covers has: correct it, or the policy never counts."
                )


def _unapprovable(agent: str, tool: str, policy: Policy, *, partly: bool) -> str:
    asks = f"The tool {tool} of the agent {agent} asks for approval, but"
    if policy is NOBODY and partly:
        return (
            f"{asks} its policies hold for some arguments only: add one without `when` under "
            "[[policies]], or nobody can ever approve the other calls."
        )
    if policy.approvers and policy.quorum > 1:
        return (
            f"{asks} the policy {policy.name} wants {policy.quorum} people and names fewer: name "
            "more approvers under [[policies]] or lower its quorum."
        )
    return (
        f"{asks} no policy names an approver for it: add one to approvers under [[policies]], "
        "or nobody can ever approve it."
    )
