"""Cards as Slack messages: every kind in every state is one that Slack takes, inert and honest."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.slack import limits
from adapters.slack.blocks import message, minimal
from bot.card import Argument, Card, CardState, Kind
from bot.field import Choice, Field
from bot.surface import Reply
from tests.fakes.slack import buttons_of, text_of
from tests.fakes.slack.blocks import message_error
from tests.fakes.slack.pings import pings_in

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=400)
EVIL = "<!channel> <@U9> <https://evil.test|Approve> *x* ```"


def card(kind: Kind = Kind.APPROVAL, state: CardState = CardState.OPEN, **given: object) -> Card:
    base: dict[str, object] = {
        "nonce": "n0nce",
        "version": 1,
        "kind": kind,
        "state": state,
        "title": "ops wants to run refund",
        "agent": "ops",
        "tool": "refund",
        "deciders": ("slack:T1/U_ANA", "slack:T2/U_BEN", "console:local/<cyn>"),
        "outcome": "" if state is CardState.OPEN else "Approved by ana at 10:00.",
    }
    return Card(**(base | given))  # type: ignore[arg-type]


def choice(count: int, **given: object) -> Field:
    choices = [Choice(f"v{n}", f"Title {n}", f"What {n} means") for n in range(count)]
    return Field("q1", title="Colour", description="Which one?", choices=choices, **given)  # type: ignore[arg-type]


EXAMPLES = {
    "approval": card(arguments=(Argument("order", "4711"), Argument("note", EVIL))),
    "approval, remembered": card(remember="Approve, and do not ask again for refund here"),
    "approval, incomplete": card(complete=False, notices=("The arguments are too long.",)),
    "approval, hostile": card(title=EVIL, agent=EVIL, tool=EVIL, deciders=(EVIL,), outcome=EVIL),
    "approval, nobody": card(deciders=()),
    "approval, empty texts": card(arguments=(Argument("a", ""), Argument("b", " \n"))),
    "approval, at the budget": card(arguments=(Argument("text", "x&<" * 2_600),)),
    "approval, far over it": card(arguments=(Argument("text", "x&<" * 20_000),)),
    "approval, of many": card(arguments=tuple(Argument(f"a{n}", EVIL) for n in range(900))),
    "form": card(Kind.FORM, message=EVIL, fields=(Field("a"), Field("b", required=False))),
    "form, long": card(
        Kind.FORM,
        message="word " * 4_000,
        fields=tuple(Field(f"f{n}", description="d" * 300) for n in range(60)),
    ),
    "ask_user": card(Kind.FORM, choosing=True, fields=(choice(3, allow_other=True),)),
    "ask_user, several": card(
        Kind.FORM,
        choosing=True,
        fields=(choice(3, allow_other=True), Field("q2", "choices", choices=["a", EVIL])),  # type: ignore[arg-type]
    ),
    "ask_user, long labels": card(
        Kind.FORM, choosing=True, fields=(Field("q1", choices=["a" * 200, "b" * 2_000]),)
    ),
    "page": card(Kind.PAGE, message="Log in", url="https://login.test/auth?x=1&y=<!here>"),
    "page, long": card(Kind.PAGE, url="https://login.test/" + "a" * 5_000),
    "page, unreadable": card(Kind.PAGE, url="https://[<!channel>"),
}


@pytest.mark.parametrize("state", CardState)
@pytest.mark.parametrize("name", EXAMPLES)
def test_slack_takes_every_card_in_every_state_and_reads_nothing_in_it(
    name: str, state: CardState
) -> None:
    shown = EXAMPLES[name]
    outcome = "" if state is CardState.OPEN else f"Approved by ana: {EVIL}"
    drawn = Card(
        **{k: getattr(shown, k) for k in Card.__slots__} | {"state": state, "outcome": outcome}
    )
    for payload in (message(drawn, "T1"), minimal(drawn)):
        assert message_error(payload["text"], payload["blocks"], None) is None
        tokens = {ping.token for ping in pings_in({"ts": "1", **payload}, "C1")}
        assert tokens <= {"<@U_ANA>"}
    if state is not CardState.OPEN:
        assert buttons_of(message(drawn, "T1")) == []
        assert buttons_of(minimal(drawn)) == []
        assert "Approved by ana" in text_of(message(drawn, "T1"))


@settings(max_examples=60)
@given(TEXT, TEXT, st.sampled_from(list(Kind)))
def test_no_text_of_a_card_pings_anybody(one: str, two: str, kind: Kind) -> None:
    fields = (Field("f", title=one, description=two),)
    drawn = card(
        kind,
        title=one,
        agent=two,
        tool=two,
        message=one,
        arguments=(Argument(one, two + EVIL),),
        fields=fields,
        url=f"https://a.test/{two}",
        deciders=(one,),
        notices=(two,),
    )
    payload = message(drawn, "T1")
    assert pings_in({"ts": "1", **payload}, "C1") == []
    assert message_error(payload["text"], payload["blocks"], None) is None


def test_every_argument_is_there_byte_for_byte_over_as_many_blocks_as_it_takes() -> None:
    value = "".join(f"{n:>6} <&>\n" for n in range(600))
    shown = message(card(arguments=(Argument("log", value), Argument("n", "7"))), "T1")
    assert "".join(pieces_of(shown)) == value + "7"
    assert "Approve" in buttons_of(shown)


def test_an_approval_offers_what_its_card_allows() -> None:
    assert buttons_of(message(card(), "T1")) == ["Approve", "Decline", "Decline with a note"]
    remembered = message(card(remember="Approve and remember in this thread"), "T1")
    assert buttons_of(remembered)[1] == "Approve for this thread"


def test_what_the_standing_button_means_is_said_in_full() -> None:
    label = "Approve, and do not ask again for a_tool_with_quite_a_long_name_indeed in this thread"
    assert label in text_of(message(card(remember=label), "T1"))


def test_approve_is_not_offered_where_something_cannot_be_reached() -> None:
    incomplete = card(complete=False, remember="remember")
    for payload in (message(incomplete, "T1"), minimal(incomplete)):
        assert buttons_of(payload) == ["Decline", "Decline with a note"]


WHOLE = {
    "message": card(Kind.FORM, message="m" * 9_000),
    "argument": card(arguments=(Argument("a", "x" * 9_000),)),
    "one of many arguments": card(arguments=tuple(Argument(f"a{n}", "x" * 99) for n in range(500))),
    "name of an argument": card(arguments=(Argument("n" * 3_000, "x"),)),
    "white space": card(arguments=(Argument("a", " \n" * 200),)),
    "field": card(Kind.FORM, fields=tuple(Field(f"f{n}", title="t" * 900) for n in range(20))),
    "choices": card(Kind.FORM, fields=(choice(11),)),
    "address": card(Kind.PAGE, url="https://login.test/" + "a" * 5_000),
    "notice": card(notices=("n" * 2_000,)),
}


@pytest.mark.row("B46")
@pytest.mark.parametrize("name", WHOLE)
def test_whatever_is_cut_on_a_card_is_one_button_away(name: str) -> None:
    shown = message(WHOLE[name], "T1")
    assert message_error(shown["text"], shown["blocks"], None) is None
    assert buttons_of(shown)[-1] == "Show everything"
    assert ("Approve" in buttons_of(shown)) is (WHOLE[name].kind is Kind.APPROVAL)


def test_a_card_that_is_whole_has_no_button_for_more() -> None:
    for name in ("approval", "approval, at the budget", "form", "ask_user, long labels", "page"):
        assert "Show everything" not in buttons_of(message(EXAMPLES[name], "T1"))


@pytest.mark.row("B46")
def test_a_long_argument_shows_its_beginning_its_end_and_what_is_between() -> None:
    value = "begin " + "x" * 40_000 + " rm -rf /"
    drawn = card(arguments=(Argument("first", "1"), Argument("command", value), Argument("n", "7")))
    shown = message(drawn, "T1")
    text = text_of(shown)
    assert "begin xx" in text
    assert "xx rm -rf /" in text
    [line] = re.findall(r"… ([\d,]+) characters between, press “Show everything” to read", text)
    assert int(line.replace(",", "")) == len(value) - sum(map(len, pieces_of(shown))) + len("17")
    assert "7" in pieces_of(shown)


def pieces_of(shown: dict[str, Any]) -> list[str]:
    """The exact texts of a message."""
    return [
        part["elements"][0]["text"]
        for block in shown["blocks"]
        if block["type"] == "rich_text"
        for part in block["elements"]
        if part["type"] == "rich_text_preformatted"
    ]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 5_000)).map(
            lambda sizes: Argument("n" * sizes[0], "v" * sizes[1])
        ),
        max_size=60,
    )
)
def test_every_argument_is_whole_or_the_card_says_so(arguments: list[Argument]) -> None:
    shown = message(card(arguments=tuple(arguments)), "T1")
    assert message_error(shown["text"], shown["blocks"], None) is None
    values = [one.value for one in arguments if one.value]
    joined = "".join(pieces_of(shown))
    assert (joined == "".join(values)) is ("Show everything" not in buttons_of(shown))


def test_a_settled_card_offers_nothing_to_press_for_what_is_left_out() -> None:
    drawn = card(state=CardState.DONE, arguments=(Argument("a", "x" * 9_000),))
    shown = message(drawn, "T1")
    assert "characters between …" in text_of(shown)
    assert "Show everything" not in text_of(shown)


def test_a_long_note_stands_on_the_settled_card_in_full() -> None:
    told = f"Declined by ana: {'n' * 2_999}."
    assert told in "".join(
        text_of(message(card(state=CardState.REFUSED, outcome=told), "T1")).split("\n")
    )


@pytest.mark.row("B46")
def test_the_plain_fallback_shows_all_or_says_where_all_is() -> None:
    short = card(arguments=(Argument("order", "4711"),))
    assert "4711" in text_of(minimal(short))
    assert buttons_of(minimal(short)) == ["Approve", "Decline", "Decline with a note"]
    long = card(arguments=(Argument("order", "4" * 4_000 + " rm -rf"),))
    assert buttons_of(minimal(long))[::3] == ["Approve", "Show everything"]
    assert text_of(minimal(long)).count("4") < 4_000
    assert "4 rm -rf" in text_of(minimal(long))
    assert "characters between" in text_of(minimal(long))


def test_only_people_of_this_workspace_are_mentioned() -> None:
    shown = text_of(message(card(), "T1"))
    assert "<@U_ANA>, slack:T2/U_BEN, console:local/<cyn>" in shown


def test_a_card_that_nobody_may_decide_says_so() -> None:
    assert "no approver is configured" in text_of(message(card(deciders=()), "T1"))


def test_buttons_carry_the_verb_and_the_nonce_and_nothing_else() -> None:
    for drawn in EXAMPLES.values():
        for block in message(drawn, "T1")["blocks"]:
            for element in block["elements"] if block["type"] == "actions" else ():
                assert element["value"] == "n0nce"
                assert element["action_id"].removeprefix("interlock.").rstrip("0123456789") in (
                    "approve",
                    "remember",
                    "decline",
                    "note",
                    "answer",
                    "pick.",
                    "link",
                    "finished",
                    "show",
                )


def test_one_question_with_one_pick_has_its_choices_as_buttons() -> None:
    asked = message(EXAMPLES["ask_user"], "T1")
    assert buttons_of(asked) == ["Title 0", "Title 1", "Title 2", "Other…", "Decline"]
    assert "What 1 means" in text_of(asked)
    plain = card(Kind.FORM, fields=(choice(2),))
    assert buttons_of(message(plain, "T1")) == ["Title 0", "Title 1", "Decline"]


def test_several_questions_have_one_button_that_opens_them() -> None:
    shown = message(EXAMPLES["ask_user, several"], "T1")
    assert buttons_of(shown) == ["Answer", "Decline"]


def test_a_form_that_does_not_fit_says_where_the_rest_is() -> None:
    shown = text_of(message(EXAMPLES["form, long"], "T1"))
    assert "more of the things asked for. Press “Show everything” to read all." in shown


def test_a_page_shows_its_whole_address_as_text_with_the_host_marked() -> None:
    url = "https://login.example.test:8443/auth?state=1"
    shown = message(card(Kind.PAGE, url=url), "T1")
    assert url in text_of(shown)
    assert "It leads to login.example.test:8443." in text_of(shown)
    assert buttons_of(shown) == ["Show the link", "I have finished", "Decline"]
    assert all("url" not in element for b in shown["blocks"] for element in b.get("elements", ()))


def test_a_reply_is_drawn_whole_within_the_limits() -> None:
    text = "\n\n".join(f"paragraph {n} " + "word " * 100 for n in range(18))
    shown = message(Reply(text), "T1")
    assert message_error(shown["text"], shown["blocks"], None) is None
    assert all(f"paragraph {n} " in text_of(shown) for n in range(18))
    assert len(shown["text"]) <= limits.FALLBACK_TEXT


def test_the_notification_of_a_card_is_one_inert_line() -> None:
    shown = message(card(title=EVIL), "T1")
    assert shown["text"].startswith("&lt;!channel&gt;")
    settled = message(card(state=CardState.DONE), "T1")
    assert settled["text"] == "ops wants to run refund — Approved by ana at 10:00."


def test_action_ids_are_distinct_within_a_message() -> None:
    for drawn in EXAMPLES.values():
        blocks = message(drawn, "T1")["blocks"]
        ids = [e["action_id"] for b in blocks if b["type"] == "actions" for e in b["elements"]]
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("decider", "shown"),
    [
        ("slack:T1/@S1", "<!subteam^S1>"),
        ("slack:T1/#C1", "<#C1>"),
        ("slack:T1/@U1", "slack:T1/@U1"),
        ("slack:T1/#S1", "slack:T1/#S1"),
        ("slack:T1/S1", "slack:T1/S1"),
        ("slack:T2/@S1", "slack:T2/@S1"),
        ("slack:T1/@S1> <!channel", "slack:T1/@S1&gt; &lt;!channel"),
        ("anyone but the requester", "anyone but the requester"),
    ],
)
def test_a_group_of_this_workspace_is_mentioned_and_nothing_else_is(
    decider: str, shown: str
) -> None:
    drawn = message(card(deciders=(decider,)), "T1")
    lines = [one["text"]["text"] for one in drawn["blocks"] if one["type"] == "section"]
    assert f"*Who may decide:* {shown}" in lines
