"""The app package: what an admin uploads, so that the bot can be added in Teams.

It asks for what the code uses and for nothing else: no permission beyond those of every bot, since
people call this one by a mention."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any, Final

from adapters.teams import icons
from adapters.teams.settings import PackageOptions
from bot.commands import HELP
from bot.secrets import ConfigError

SCHEMA: Final = "1.29"  # the first with slash commands
SHAPE: Final = "1.2"  # of our manifest: raise it with every change, or Teams takes no update
SCOPES: Final = ("team", "groupChat", "personal")

_SHORT: Final = "Runs tools for your team, and asks the right people before it does."
_FULL: Final = (
    "Mention the bot in a channel or group chat, or write to it alone, to have an agent work for "
    "you. Before it uses a tool that changes something, it shows exactly what would run and waits "
    "for the people who may approve it. What they saw is what runs, once."
)
_COMMAND: Final = re.compile(r"- `([a-z]+(?: [a-z]+)?)([^`]*)`: (.+)")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the same settings give the same bytes


def version(package: PackageOptions) -> str:
    return f"{SHAPE}.{package.revision}"


def manifest(app_id: str, package: PackageOptions) -> dict[str, Any]:
    """What `manifest.json` says. Raises ConfigError."""
    if not package.website:
        raise ConfigError(
            "surfaces.teams.package.website is missing: set it to a page (https) that tells your "
            "people about the bot and whom to ask."
        )
    return {
        "$schema": "https://developer.microsoft.com/json-schemas/teams/"
        f"v{SCHEMA}/MicrosoftTeams.schema.json",
        "manifestVersion": SCHEMA,
        "version": version(package),
        "id": app_id,
        "developer": {
            "name": package.name,
            "websiteUrl": package.website,
            "privacyUrl": package.website,
            "termsOfUseUrl": package.website,
        },
        "name": {"short": package.name},
        "description": {"short": _SHORT, "full": _FULL},
        "icons": {"color": "color.png", "outline": "outline.png"},
        "accentColor": icons.ACCENT,
        "bots": [
            {
                "botId": app_id,
                "scopes": list(SCOPES),
                "supportsFiles": True,
                "supportsTargetedMessages": True,
                "commandLists": [
                    {
                        "scopes": list(SCOPES),
                        "triggers": ["mention", "slash"],
                        "commands": list(_commands()),
                    }
                ],
            }
        ],
        "defaultInstallScope": "team",
        "defaultGroupCapability": {"team": "bot", "groupchat": "bot"},
        "supportsChannelFeatures": "tier1",
    }


def _commands() -> Iterator[dict[str, str]]:
    """The commands of `help`, which Teams offers to whoever mentions the bot or types a slash."""
    for name, arguments, told in _COMMAND.findall(HELP):
        about = told.replace("`", "")
        yield {"title": name, "description": f"{name}{arguments}: {about}" if arguments else about}


def archive(app_id: str, package: PackageOptions) -> bytes:
    """The package, a zip. Raises ConfigError."""
    about = json.dumps(manifest(app_id, package), indent=2, ensure_ascii=False) + "\n"
    files = {
        "manifest.json": about.encode(),
        "color.png": icons.color(),
        "outline.png": icons.outline(),
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as into:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            into.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
