"""The bot of the story as a process of its own, so that it can be killed:
`python -m bot.demo DIRECTORY [PORT]`."""

from __future__ import annotations

from pathlib import Path

from bot.app import App, until_told
from bot.approvers import Policies, Policy
from bot.clock import WallClock
from bot.core import Agent
from bot.demo.effects import Effects, tools
from bot.mcp.settings import server_settings
from bot.mcp.source import McpServer
from bot.scripted import Script, call

APPROVERS = frozenset({"console:local/ana", "console:local/ben"})

INCIDENT = Script(
    [
        "checkout answers slowly since 10:02. A restart should help; it needs an approval.",
        call("restart_service", service="checkout", reason="slow since 10:02"),
    ],
    call("open_ticket", service="checkout"),
    "checkout was restarted and the ticket is filed.",
)

RELEASE = Script(
    call(
        "ask_user",
        questions=[
            {
                "question": "Which services should be rolled back?",
                "header": "Services",
                "multiSelect": True,
                "options": [
                    {"label": "checkout", "description": "The one that is slow"},
                    {"label": "search", "description": "Shares its cache"},
                ],
            },
            {
                "question": "When?",
                "header": "When",
                "options": [
                    {"label": "Now", "description": "At once"},
                    {"label": "Tonight", "description": "When it is quiet"},
                ],
            },
        ],
    ),
    call("roll_back", service="checkout", version="v41"),
    "checkout runs v41 again. The docs site I cannot roll back; please ask its owners.",
)


DEPLOY = Script(
    call("deploys__deploy", service="checkout", version="v2"),
    "checkout runs v2 on every host of staging.",
)


def open_app(directory: Path, server_port: int | None = None) -> App:
    """The product on the embedded default, with scripted agents; one of them takes its tools from
    the MCP server at this port. ana and ben approve, and nobody approves what they asked for
    themselves."""
    toolbox = tools(Effects(directory))
    agents = {
        "incident": Agent(name="incident", model=INCIDENT, tools=toolbox),
        "release": Agent(name="release", model=RELEASE, tools=toolbox),
    }
    if server_port is not None:
        settings = server_settings("deploys", {"url": f"http://127.0.0.1:{server_port}/mcp"})
        source = McpServer("deploys", settings, WallClock())
        agents["deploy"] = Agent(name="deploy", model=DEPLOY, sources=[source])
    return App(
        database=f"sqlite:///{directory / 'interlock.db'}",
        agents=agents,
        policies=Policies([Policy(name="on-call", approvers=APPROVERS)]),
        poll_seconds=0.05,  # the people of the story click in another process
    )


async def run(directory: Path, server_port: int | None) -> None:
    app = open_app(directory, server_port)
    async with app.started():
        app.open_surface("console", {"agent": "incident"})
        await until_told(app.run)
