"""The interactive demonstration: one person at a terminal, who may approve what they asked for."""

from __future__ import annotations

import getpass
from pathlib import Path

from bot.app import App, until_told
from bot.approvers import Policies, Policy
from bot.core import Agent, ChatModel
from bot.demo.effects import Effects, tools
from bot.demo.process import RELEASE
from bot.model import Model
from bot.scripted import Script, call
from bot.secrets import secret

PROVIDERS = {
    "OPENAI_API_KEY": "openai:gpt-5-mini",
    "ANTHROPIC_API_KEY": "anthropic:claude-haiku-4-5",
}

INSTRUCTIONS = (
    "You help an on-call engineer at a terminal. Use your tools when they fit: restart_service "
    "and roll_back are approved by a person first, open_ticket asks for its details, ask_user "
    "lets you offer choices."
)

SCRIPT = Script(
    [
        "checkout answers slowly since 10:02. A restart should help; it needs your approval.",
        call("restart_service", service="checkout", reason="slow since 10:02"),
    ],
    "Thank you. Write anything to see a form next.",
    call("open_ticket", service="checkout"),
    "Thank you. Write anything to be asked two questions.",
    RELEASE.reply([]),
    "Thank you. Write anything, and approve with /remember this time.",
    call("roll_back", service="checkout", version="v41"),
    "Write anything once more: the same tool runs without asking now.",
    call("roll_back", service="search", version="v40"),
    "That was the demonstration: /quit ends it.",
)


async def run_alone(directory: Path) -> int:
    """Runs until the person quits. Returns 0."""
    user = getpass.getuser()
    model, about = _model()
    print(about)
    print(
        f"You are {user}, and the policy of this demonstration lets you approve what you asked "
        "for yourself\n(self_approval = true); a real one should name other people."
    )
    print('Write "checkout is slow" to begin; /help lists what else you can type.\n')
    me = f"console:local/{user}"
    app = App(
        database=f"sqlite:///{directory / 'interlock.db'}",
        agents={
            "demo": Agent(
                name="demo",
                model=model,
                instructions=INSTRUCTIONS,
                tools=tools(Effects(directory)),
            )
        },
        policies=Policies([Policy(name="demo", approvers=frozenset({me}), self_approval=True)]),
    )
    async with app.started():
        app.open_surface("console", {"user": user, "thread": "demo"})
        await until_told(app.run)
    return 0


def _model() -> tuple[ChatModel, str]:
    for key, name in PROVIDERS.items():
        if secret(key):
            return Model.open(name, api_key=secret(key)), f"{key} is set, so {name} answers."
    names = " or ".join(PROVIDERS)
    return SCRIPT, f"No {names} is set, so a scripted model answers: it follows its script."
