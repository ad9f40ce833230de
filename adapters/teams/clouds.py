"""The clouds that Teams runs in: who signs what they send, and where they are spoken to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Cloud:
    """`issuer` signs what comes in, with keys told at `metadata_url`. `login_url` gives our tokens
    for `scope`. `services` are the origins that our tokens may be sent to. Files are kept on hosts
    under `files`. `web` is where people open Teams."""

    issuer: str
    metadata_url: str
    login_url: str
    scope: str
    services: frozenset[str]
    files: str
    web: str = "https://teams.microsoft.com"


def _public(service: str) -> Cloud:
    return Cloud(
        issuer="https://api.botframework.com",
        metadata_url="https://login.botframework.com/v1/.well-known/openidconfiguration",
        login_url="https://login.microsoftonline.com/",
        scope="https://api.botframework.com",
        services=frozenset({service}),
        files="sharepoint.com",
    )


def _government(service: str, files: str, web: str) -> Cloud:
    return Cloud(
        issuer="https://api.botframework.us",
        metadata_url="https://login.botframework.azure.us/v1/.well-known/openidconfiguration",
        login_url="https://login.microsoftonline.us/",
        scope="https://api.botframework.us",
        services=frozenset({service}),
        files=files,
        web=web,
    )


CLOUDS: Final = {
    "public": _public("https://smba.trafficmanager.net"),
    "gcc": _public("https://smba.infra.gcc.teams.microsoft.com"),
    "gcc-high": _government(
        "https://smba.infra.gov.teams.microsoft.us",
        "sharepoint.us",
        "https://gov.teams.microsoft.us",
    ),
    "dod": _government(
        "https://smba.infra.dod.teams.microsoft.us",
        "sharepoint-mil.us",
        "https://dod.teams.microsoft.us",
    ),
}
