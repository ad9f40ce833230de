"""Which requests are Teams': pure checks of what a token proves and of what stands in the request.

botframework-connector 4.17.1 checks signature, audience and issuer. It takes tokens that never
expire, activities of channels where callers choose their own name, of any tenant, and without a
service URL (platforms/teams.md 3): that is refused here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from adapters.teams import limits
from adapters.teams.clouds import Cloud
from bot.loopback import is_loopback

_SERVICE_URL: Final = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[\w.~-]*)*", re.ASCII)
_PASSED_ON: Final = frozenset(
    {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"}
)
_TENANT: Final = re.compile(r"[0-9A-Za-z-]{1,80}", re.ASCII)


class Refused(Exception):
    """A request that is not let in, and the status it is answered with. The text is for the log and
    quotes nothing of the request."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Gate:
    """Who is let in. `insecure` (never but on loopback): nobody proves anything, and `tenants` may
    be empty, which is any."""

    app_id: str
    tenants: frozenset[str]
    cloud: Cloud
    insecure: bool = False

    def check_claims(self, claims: Mapping[str, Any], now: float) -> None:
        """The claims of a token, before its signature is looked at and again after it. Raises
        Refused."""
        if claims.get("iss") != self.cloud.issuer:
            raise Refused(401, "it is signed by somebody else")
        if not self.app_id or claims.get("aud") != self.app_id:
            raise Refused(401, "it is for another bot")
        expires = claims.get("exp")
        if isinstance(expires, bool) or not isinstance(expires, int | float):
            raise Refused(401, "it never expires")
        if expires < now - limits.LEEWAY_SECONDS:
            raise Refused(401, "it has expired")

    def check_activity(self, activity: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
        """What was sent, once it is known who sent it; returns the tenant. Raises Refused."""
        if activity.get("channelId") != "msteams":
            raise Refused(403, "it is of another channel")
        service = activity.get("serviceUrl")
        if not isinstance(service, str) or not self.trusts(service):
            raise Refused(403, "its service URL is none of Teams'")
        if not self.insecure and claims.get("serviceurl") != service:
            raise Refused(403, "its service URL is not the token's")
        tenant = tenant_of(activity)
        if not tenant or (tenant not in self.tenants and (self.tenants or not self.insecure)):
            raise Refused(403, "its tenant is not served")
        return tenant

    def trusts(self, service_url: str) -> bool:
        """Whether our token may be sent there: asked again before every call."""
        if not _SERVICE_URL.fullmatch(service_url) or len(service_url) > 500:
            return False
        try:
            parts = urlsplit(service_url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            return False
        if self.insecure:
            return is_loopback(host)
        return f"{parts.scheme}://{parts.netloc}" in self.cloud.services


def tenant_of(activity: Mapping[str, Any]) -> str:
    """The tenant that the activity names, the same wherever it does; empty if none or several."""
    named: set[object] = set()
    for outer, inner, key in (
        ("conversation", None, "tenantId"),
        ("channelData", "tenant", "id"),
    ):
        found: object = activity.get(outer)
        if inner is not None and isinstance(found, Mapping):
            found = found.get(inner)
        if isinstance(found, Mapping) and key in found:
            named.add(found[key] if isinstance(found[key], str) else None)
    tenant = next(iter(named)) if len(named) == 1 else None
    return tenant.lower() if isinstance(tenant, str) and _TENANT.fullmatch(tenant) else ""


def is_local(remote: str, headers: Mapping[str, str]) -> bool:
    """Whether a request comes from this machine and was meant for it: not through a proxy or a
    tunnel that runs here, nor from a page whose name was made to lead here."""
    if not is_loopback(remote) or any(name.lower() in _PASSED_ON for name in headers):
        return False
    try:
        return is_loopback(urlsplit(f"//{headers.get('Host', '')}").hostname or "")
    except ValueError:
        return False
