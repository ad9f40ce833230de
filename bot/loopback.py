"""What is this very machine, and the permission to serve it without authentication, which only the
command line can give."""

from __future__ import annotations

import ipaddress
from typing import Final

from bot.secrets import ConfigError

INSECURE_LOCAL: Final = object()  # no configuration file can say this

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def is_loopback(host: str) -> bool:
    """Whether a name or address is that of this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_beyond_loopback(host: str) -> None:
    """Raises ConfigError where others than this machine could reach the web server."""
    if host not in _LOOPBACK:
        raise ConfigError(
            f"--insecure-local lets everybody in who reaches server.host = {host}: "
            "use it with 127.0.0.1 only."
        )
