"""A strict fake of Teams: its connector over real HTTP, its signed requests, its clients."""

from tests.fakes.teams.cards import button, buttons_of, faults, text_of
from tests.fakes.teams.server import BOT, TENANT, FakeTeams, Shown, Stated
from tests.fakes.teams.tokens import APP, Entra, signed

__all__ = [
    "APP",
    "BOT",
    "TENANT",
    "Entra",
    "FakeTeams",
    "Shown",
    "Stated",
    "button",
    "buttons_of",
    "faults",
    "signed",
    "text_of",
]
