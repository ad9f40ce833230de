"""Addresses in other texts are told where their hosts are not what they seem."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.slack.blocks import message
from adapters.slack.text import sections
from bot import hosts
from bot.card import HIDDEN, IMITATING, Argument, Card, CardState, Kind, revealed, warnings
from tests.fakes.slack import text_of

CARD = Card(
    nonce="n1",
    version=1,
    kind=Kind.APPROVAL,
    state=CardState.OPEN,
    title="agent wants to run fetch",
    agent="agent",
    tool="fetch",
)


@pytest.mark.row("B56")
@pytest.mark.parametrize(
    ("text", "host", "why"),
    [
        ("curl https://xn--80ak6aa92e.com/x", "xn--80ak6aa92e.com", "Cyrillic letters"),
        ("see xn--pypal-4ve.com now", "xn--pypal-4ve.com", "Cyrillic and Latin letters in one"),
        ("HTTPS://XN--80AK6AA92E.com", "XN--80AK6AA92E.com", "Punycode"),
        ("(https://pаypal.com/)", "pаypal.com", "mixes Cyrillic and Latin letters in one word"),
        ("https://münchen.de", "münchen.de", "outside a to z"),
        ("https://good.test@evil.test/a", "evil.test", "before the @"),
        ("https://bot:[password hidden: 9 characters, #01234567]@x.test", "", ""),
        ("https://[password hidden: 9 characters, #01234567]@evil.test/", "evil.test", "the @"),
        ('{"url":"https://good.test\\\\@evil.test"}', "https://good.test\\\\@evil.test", "alike"),
        ("http://plain.test and https://ok.test/?q=a@b", "", ""),
        ('{"a":"https://ok.test\\nmore"}', "", ""),
        ("mail ben@ok.test, file://x, //x", "", ""),
    ],
)
def test_an_odd_address_in_a_text_is_found(text: str, host: str, why: str) -> None:
    found = list(hosts.odd(text))
    assert [one for one, _ in found] == ([host] if host else [])
    assert all(why in told for _, told in found)


def test_the_card_says_which_argument_leads_where() -> None:
    card = replace(CARD, arguments=(Argument("url", "https://xn--80ak6aa92e.com/"),))
    [told] = warnings(card)
    assert told.startswith("⚠️ url leads to xn--80ak6aa92e.com: The host is written in Punycode")
    assert told in text_of(message(card, "T1"))


def test_what_is_said_is_bounded_in_number_and_length() -> None:
    text = " ".join(f"https://xn--80ak6aa92e.{'x' * 60}{number}.com/" for number in range(500))
    told = warnings(replace(CARD, message=text, arguments=(Argument("n" * 500, text),)))
    assert len(told) == hosts.MOST + 1
    assert told[-1].startswith("⚠️ 997 more addresses")
    assert max(map(len, told)) < 600


def test_it_is_said_why_something_is_written_out() -> None:
    assert warnings(replace(CARD, message="plain")) == ()
    assert warnings(replace(CARD, message="pаypal")) == (IMITATING,)
    assert warnings(replace(CARD, arguments=(Argument("a", "x\u200b"),))) == (HIDDEN,)
    both = replace(CARD, tool="pаypal", arguments=(Argument("a\u202e", "x"),))
    assert warnings(both) == (HIDDEN, IMITATING)
    assert revealed(both).notices == (HIDDEN, IMITATING)


@pytest.mark.parametrize(
    ("markdown", "marked"),
    [
        ("[Apple](https://xn--80ak6aa92e.com/a)", "(⚠️ xn--80ak6aa92e.com: The host is written"),
        ("https://xn--pypal-4ve.com/", "(⚠️ xn--pypal-4ve.com: The host is written"),
    ],
)
def test_a_link_of_a_reply_says_that_its_host_is_odd(markdown: str, marked: str) -> None:
    [shown] = sections(markdown)
    assert marked in shown


def test_no_link_leads_to_letters_that_imitate() -> None:
    [shown] = sections("go to https://pаypal.com/login now")
    assert shown == "go to https://p⟨U+0430⟩ypal.com/login now"
    [shown] = sections("[log in](https://pаypal.com/login)")
    assert "<" not in shown
