"""A strict fake of Slack: it refuses what Slack refuses, and delivers what people do to the bot."""

from tests.fakes.slack.blocks import validate_blocks, validate_view
from tests.fakes.slack.delivery import Delivery
from tests.fakes.slack.forms import ClientRefused
from tests.fakes.slack.installing import CLIENT_ID, CLIENT_SECRET, Elsewhere
from tests.fakes.slack.pings import Ping
from tests.fakes.slack.pressing import Interaction, Submission
from tests.fakes.slack.schema import Problem
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.visible import buttons_of, text_of
from tests.fakes.slack.workspace import (
    APP,
    APP_TOKEN,
    BOT_ID,
    BOT_TOKEN,
    BOT_USER,
    SIGNING_SECRET,
    TEAM,
    View,
)

__all__ = [
    "APP",
    "APP_TOKEN",
    "BOT_ID",
    "BOT_TOKEN",
    "BOT_USER",
    "CLIENT_ID",
    "CLIENT_SECRET",
    "SIGNING_SECRET",
    "TEAM",
    "ClientRefused",
    "Delivery",
    "Elsewhere",
    "FakeSlack",
    "Interaction",
    "Ping",
    "Problem",
    "Submission",
    "View",
    "buttons_of",
    "text_of",
    "validate_blocks",
    "validate_view",
]
