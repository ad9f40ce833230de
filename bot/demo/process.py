"""The bot of the story as a process of its own, so that it can be killed:
`python -m bot.demo DIRECTORY`."""

from __future__ import annotations

from pathlib import Path

from bot.app import App, until_told
from bot.approvers import Policies, Policy
from bot.core import Agent
from bot.demo.effects import Effects, tools
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


def open_app(directory: Path) -> App:
    """The product on the embedded default, with two scripted agents. ana and ben approve, and
    nobody approves what they asked for themselves."""
    toolbox = tools(Effects(directory))
    return App(
        database=f"sqlite:///{directory / 'interlock.db'}",
        agents={
            "incident": Agent(name="incident", model=INCIDENT, tools=toolbox),
            "release": Agent(name="release", model=RELEASE, tools=toolbox),
        },
        policies=Policies([Policy(name="on-call", approvers=APPROVERS)]),
        poll_seconds=0.05,  # the people of the story click in another process
    )


async def run(directory: Path) -> None:
    app = open_app(directory)
    async with app.started():
        app.open_surface("console", {"agent": "incident"})
        await until_told(app.run)
