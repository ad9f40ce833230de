"""What an expired card offers, and a line that reminds people, on every surface."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapters.console import draw
from adapters.console.line import Again, Mistake, parse
from adapters.console.screen import NoCard
from adapters.slack.blocks import message, minimal
from bot.card import CardState
from bot.surface import Reply
from tests.fakes.slack import buttons_of
from tests.fakes.slack.blocks import message_error
from tests.fakes.slack.pings import pings_in
from tests.fakes.slack.visible import elements_of
from tests.unit.test_console_draw import printed
from tests.unit.test_console_screen import HERE, Terminal
from tests.unit.test_console_screen import card as console_card
from tests.unit.test_slack_blocks import card
from tests.unit.test_slack_group import card as member
from tests.unit.test_slack_group import group

EXPIRED: dict[str, Any] = {"again": True, "outcome": "Expired on Monday without an answer."}


def labels(shown: dict[str, Any]) -> list[str]:
    assert message_error(shown["text"], shown["blocks"], None) is None
    return buttons_of(shown)


def value(shown: dict[str, Any]) -> str:
    """Of the only button."""
    ((_, button),) = elements_of(shown)
    return str(button["value"])


def test_an_expired_card_has_one_button_on_slack_and_the_plain_one_too() -> None:
    expired = card(state=CardState.CLOSED, **EXPIRED)

    for shown in (message(expired, "T1"), minimal(expired)):
        assert labels(shown) == ["Ask again"]
        assert value(shown) == expired.nonce
    assert labels(message(replace(expired, again=False), "T1")) == []


def test_a_shared_card_has_one_button_for_all_that_expired() -> None:
    gone = [member(number, CardState.CLOSED, **EXPIRED) for number in (1, 2)]
    shared = group(member(0, CardState.DONE), *gone)

    for shown in (message(shared, "T1"), minimal(shared)):
        assert labels(shown) == ["Ask again"]
        assert value(shown) == shared.nonce


def test_a_shared_card_of_which_some_are_open_has_both() -> None:
    shared = group(member(0), member(1, CardState.CLOSED, **EXPIRED))

    drawn = labels(message(shared, "T1"))

    assert drawn[-1] == "Ask again"
    assert "Approve selected" in drawn


def test_a_reminder_mentions_those_of_this_workspace_and_nobody_by_its_text() -> None:
    keys = ("slack:T1/U_BEN", "slack:T1/@S_ONCALL", "slack:T2/U_EVE", "console:local/<cyn>")
    told = Reply("Still waiting: <!channel> <@U9>", mentions=keys)

    shown = message(told, "T1")

    assert message_error(shown["text"], shown["blocks"], None) is None
    assert shown["text"].startswith("<@U_BEN>, <!subteam^S_ONCALL>, slack:T2/U_EVE")
    assert "Still waiting" in shown["text"]
    tokens = {(one.kind, one.token) for one in pings_in({"ts": "1", **shown}, "C1")}
    assert tokens == {("user", "<@U_BEN>"), ("usergroup", "<!subteam^S_ONCALL>")}


def test_without_mentions_a_reply_is_what_it_was() -> None:
    assert pings_in({"ts": "1", **message(Reply("Done."), "T1")}, "C1") == []


# The console


@pytest.mark.parametrize(
    ("typed", "action"),
    [("/again", Again(None)), ("/again 2", Again(2)), ("/again #2", Again(2))],
)
def test_it_is_typed_with_or_without_a_number(typed: str, action: Again) -> None:
    assert parse(typed) == action
    assert isinstance(parse(f"{typed} please"), Mistake)


def test_the_line_of_an_expired_card_says_what_to_type() -> None:
    expired = replace(console_card("a"), state=CardState.CLOSED, **EXPIRED)

    assert "/again 3 asks again" in printed(draw.card(expired, 3))
    assert "/again" not in printed(draw.card(replace(expired, again=False), 3))


def test_only_a_card_that_expired_is_picked() -> None:
    terminal = Terminal()
    terminal.screen.card(HERE, console_card("a"))
    with pytest.raises(NoCard, match="No card here has expired"):
        terminal.screen.pick_expired(None)
    for name in ("b", "c"):
        expired = replace(console_card(name), state=CardState.CLOSED, **EXPIRED)
        terminal.screen.card(HERE, expired)

    with pytest.raises(NoCard, match="Name one of these: #2, #3"):
        terminal.screen.pick_expired(None)
    with pytest.raises(NoCard, match="Name one of these: #2, #3"):
        terminal.screen.pick_expired(1)
    assert terminal.screen.pick_expired(3).card.nonce == "c"
