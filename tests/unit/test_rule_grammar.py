"""The command that makes a standing rule: read exactly, or not at all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot import commands
from bot.rule_grammar import SHAPE, Unread, conditions, is_command, wish
from bot.rule_wish import Wish
from bot.rules import Comparison, Condition, Effect
from storage.database import canonical
from storage.rules import Scope

ALLOW, ASK, DENY = Effect.ALLOW, Effect.ASK, Effect.DENY
EQUAL, RANGE, ONE_OF, UNDER = (
    Comparison.EQUAL,
    Comparison.RANGE,
    Comparison.ONE_OF,
    Comparison.UNDER,
)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("refund allow", Wish(tool="refund", effect=ALLOW)),
        ("  `git__push`  DENY ", Wish(tool="git__push", effect=DENY)),
        (
            "refund ask in thread for 2h 3 times only for me",
            Wish(tool="refund", effect=ASK, scope=Scope.CHAT, seconds=7_200, uses=3, mine=True),
        ),
        (
            "refund allow 1 time in workspace for 7d yes",
            Wish(
                tool="refund",
                effect=ALLOW,
                scope=Scope.ORGANISATION,
                seconds=604_800,
                uses=1,
                sure=True,
            ),
        ),
        ("refund deny in everywhere", Wish(tool="refund", effect=DENY, scope=Scope.SURFACE)),
        ("Refund deny in channel", Wish(tool="Refund", effect=DENY, scope=Scope.CHANNEL)),
    ],
)
def test_a_rule_is_read_as_it_is_typed(text: str, read: Wish) -> None:
    assert wish(text) == read


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("amount>=100", [("amount", RANGE, [100, None])]),
        ("amount <= 1.5", [("amount", RANGE, [None, 1.5])]),
        ("env=prod", [("env", EQUAL, "prod")]),
        ("Env = Prod", [("Env", EQUAL, "Prod")]),
        ('team="on call"', [("team", EQUAL, "on call")]),
        ("team=“on call”", [("team", EQUAL, "on call")]),
        ("team=„on call“", [("team", EQUAL, "on call")]),
        ('amount="5"', [("amount", EQUAL, "5")]),
        ("dry_run=true", [("dry_run", EQUAL, True)]),
        ("who=it's", [("who", EQUAL, "it's")]),
        ("host in a,b", [("host", ONE_OF, ["a", "b"])]),
        ("host in a, “b c” , 3", [("host", ONE_OF, ["a", "b c", 3])]),
        ("host in thread", [("host", ONE_OF, ["thread"])]),
        ("path under /srv/app", [("path", UNDER, "/srv/app")]),
        ("path under “/srv/my app”", [("path", UNDER, "/srv/my app")]),
        ("a.b=x and amount>=2", [("a.b", EQUAL, "x"), ("amount", RANGE, [2, None])]),
        ("sure = yes", [("sure", EQUAL, "yes")]),
    ],
)
def test_conditions_are_typed_values(typed: str, read: list[tuple[Any, ...]]) -> None:
    tests = tuple(Condition(*one) for one in read)
    asked = wish(f"refund deny when {typed} in channel for 1d yes")

    assert asked.conditions == tests
    assert (asked.scope, asked.seconds, asked.sure) == (Scope.CHANNEL, 86_400, True)
    assert wish(f"refund deny when {typed}") == Wish(tool="refund", effect=DENY, conditions=tests)
    assert conditions("\n \n".join(typed.split(" and "))) == tests


@pytest.mark.parametrize(
    "text",
    [
        "",
        "refund",
        "refund please",
        "refund allowed",
        "refund disallow",
        "allow refund",
        "value allow us to move on",
        "a deny of service page to the wiki",
        "refund deny when",
        "refund deny when it is late",
        "refund deny when env=prod please",
        "refund deny when env=prod, and tell ana",
        "refund deny when env==prod",
        "refund deny when env=prod and",
        "refund deny env=prod",
        "refund allow for 0h",
        "refund allow for 2 weeks",
        "refund allow for ever",
        "refund allow 0 times",
        "refund allow -1 times",
        "refund allow for 2h for 3h",
        "refund allow in thread in channel",
        "refund allow in #ops",
        "refund allow only for ben",
        "refund allow yes please",
        "refund allow yes yes",
        "refund allow yes for 2h",
        "refund allow?",
        "re fund allow",
        "<@U1> allow",
        "refund allow\nand then restart it",
        f"refund deny when a={'x' * 1_000}",
    ],
)
def test_anything_else_is_for_the_agent_and_says_the_right_shape_where_it_was_meant(
    text: str,
) -> None:
    assert not is_command(f"add {text}")
    assert commands.read(f"rules add {text}") is None
    with pytest.raises(Unread) as unread:
        wish(text)
    assert str(unread.value).endswith(".")


@pytest.mark.parametrize(
    "typed",
    [
        "amount>=abc",
        "amount>=NaN",
        "amount<=1e999",
        "amount=Infinity",
        "path under ../etc",
    ],
)
def test_a_condition_that_cannot_hold_is_told_and_does_not_go_to_the_agent(typed: str) -> None:
    with pytest.raises(Unread) as unread:
        wish(f"refund deny when {typed} in channel")
    assert unread.value.bad
    assert commands.read(f"rules add refund deny when {typed}") is not None


@pytest.mark.parametrize("text", ["env=prod please", "env=prod env=dev", "it is late", "a>=x"])
def test_a_line_that_is_no_condition_is_refused_in_a_form(text: str) -> None:
    with pytest.raises(Unread):
        conditions(f"amount>=1\n{text}")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("rules add Refund allow", ("rules", "add Refund allow")),
        (" Rules  add refund Deny yes ", ("rules", "add refund Deny yes")),
        ("rules revoke k3v9qz", ("rules", "revoke k3v9qz")),
        ("rules revoke `rule_k3v9qz`", ("rules", "revoke `rule_k3v9qz`")),
        ("rules 2", ("rules", "2")),
        ("rules", ("rules", "")),
    ],
)
def test_a_text_that_is_exactly_such_a_command_is_one(text: str, command: tuple[str, str]) -> None:
    assert commands.read(text) == command


@pytest.mark.parametrize(
    "text",
    [
        "rules add",
        "rules revoke",
        "rules revoke k3v",
        "rules revoke that one",
        "rules revoke all of them",
        "rules of the house",
        "please rules add refund allow",
        "rules: add refund allow",
        "> rules add refund allow",
        "“rules add refund allow”",
        "the tool said: rules add refund allow yes",
        "rules add refund allow\nrules add restart allow",
    ],
)
def test_a_sentence_is_no_command(text: str) -> None:
    assert commands.read(text) is None


def test_the_examples_of_the_docs_are_commands() -> None:
    text = (Path(__file__).parents[2] / "docs" / "on-call.md").read_text()
    found = re.findall(r"^(?:/interlock|@Interlock) (rules add .*)$", text, re.MULTILINE)
    assert len(found) == 5
    assert all(commands.read(one) for one in found)


WORDS = [
    *SHAPE.replace("|", " ").replace("[", " ").replace("]", " ").split(),
    *(
        "yes",
        "and",
        "when",
        "env=prod",
        "amount>=3",
        "host",
        "in",
        "a,b",
        "under",
        "/srv",
        "=",
        ">=",
    ),
    *('"on call"', "“on call”", "please", "the", "refund", "3", "times", "\n", '"', "NaN", "1e999"),
]


@given(
    st.one_of(st.text(max_size=200), st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
)
def test_reading_never_fails_and_what_is_read_can_be_kept(text: str) -> None:
    for read in (wish, conditions):
        try:
            found = read(text)
        except Unread:
            continue
        tests = found.conditions if isinstance(found, Wish) else found
        canonical([one.to_json() for one in tests])


@given(
    st.lists(st.sampled_from(WORDS), max_size=10).map(" ".join), st.sampled_from(["please", "!"])
)
def test_a_word_more_than_the_grammar_has_makes_it_no_command(text: str, more: str) -> None:
    assert not is_command(f"add refund deny {text} {more}") or f"{text} {more}".count("=") > 0


@given(st.text(alphabet=st.characters(blacklist_characters="=<>", codec="utf-8"), max_size=120))
def test_prose_is_never_a_command(text: str) -> None:
    read = commands.read(f"rules add the {text}")
    assert read is None or text.strip().casefold().split()[0] in ("allow", "ask", "deny")
