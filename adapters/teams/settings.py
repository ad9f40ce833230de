"""The settings of the Teams surface: `[surfaces.teams]` of the configuration, and its secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from adapters.teams.clouds import CLOUDS, Cloud
from bot.loopback import INSECURE_LOCAL
from bot.secrets import ConfigError, secret

PASSWORD: Final = "TEAMS_APP_PASSWORD"
GUID: Final = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"


class TeamsOptions(BaseModel):
    """What the configuration file may say."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["single-tenant", "managed-identity"] = "single-tenant"
    app_id: str = ""
    tenant: str = ""
    tenants: tuple[str, ...] = Field((), max_length=100)
    cloud: Literal["public", "gcc", "gcc-high", "dod"] = "public"
    path: str = Field("/api/messages", pattern=r"^/[\w./-]*$")


@dataclass(frozen=True, slots=True)
class TeamsSettings:
    """Settings that belong together: `password` is empty for a managed identity. `tenants` are
    those whose people are served. `insecure`: nobody proves anything (`serve --insecure-local`)."""

    app_id: str
    tenant: str
    password: str
    tenants: frozenset[str]
    cloud: Cloud
    path: str
    insecure: bool = False

    def __repr__(self) -> str:
        return f"TeamsSettings(app_id={self.app_id!r}, path={self.path!r})"


def read(options: Mapping[str, object]) -> TeamsSettings:
    """Reads options and secrets. Raises ConfigError, one sentence that names the setting."""
    rest = dict(options)
    insecure = rest.get("insecure_local") is INSECURE_LOCAL  # no file can say this
    if insecure:
        del rest["insecure_local"]
    try:
        given = TeamsOptions.model_validate(rest)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(["surfaces.teams", *map(str, first["loc"])])
        raise ConfigError(f"{where} is wrong: {first['msg']}.") from None
    app_id, tenant = given.app_id.lower(), given.tenant.lower()
    tenants = frozenset(one.lower() for one in given.tenants) | ({tenant} if tenant else set())
    password = secret(PASSWORD) or ""
    if not insecure:
        _needed("app_id", app_id, "the Microsoft App ID of your Azure Bot")
        _needed("tenant", tenant, "the id of the tenant that your Azure Bot is registered in")
        for one in tenants:
            _needed("tenants", one, "ids of tenants")
        if given.type == "managed-identity":
            password = ""
        elif not password:
            raise ConfigError(
                f"{PASSWORD} is missing: set it to the client secret of your Azure Bot's app, or "
                'use surfaces.teams.type = "managed-identity".'
            )
    return TeamsSettings(
        app_id, tenant, password, tenants, CLOUDS[given.cloud], given.path, insecure
    )


def _needed(name: str, value: str, what: str) -> None:
    if not re.fullmatch(GUID, value):
        raise ConfigError(f"surfaces.teams.{name} is missing or wrong: set it to {what}.")
