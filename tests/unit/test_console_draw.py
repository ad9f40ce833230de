"""Cards and replies as a terminal shows them."""

import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from adapters.console import draw
from adapters.console.text import safe
from bot.ask_user import AskedQuestion, Option, to_fields
from bot.card import PAGES_BUDGET, Argument, Card, CardState, TaskCard
from bot.confusable import imitations
from bot.field import Choice, Field, FieldType, Format
from bot.outcome import outcome_question
from bot.question import Kind
from bot.text import is_unseen
from tests import hostile as hostile_texts

ESC = "\x1b[2J\x1b[31m"


def printed(drawn: RenderableType, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, no_color=True).print(drawn)
    return out.getvalue()


def flat(shown: str) -> str:
    """The text without frames and folds."""
    return "".join(line.strip("│╭╮╰╯─▌ ") for line in shown.splitlines())


APPROVAL = Card(
    nonce="n1",
    version=1,
    kind=Kind.APPROVAL,
    state=CardState.OPEN,
    title="agent wants to run refund",
    agent="agent",
    tool="refund",
    arguments=(Argument("order", "A1"), Argument("lines", '[{"sku":"x","count":2}]')),
    deciders=("console:local/ben", "slack:T1/EVE"),
    remember="Approve, and do not ask again for refund in this thread",
)
TASK = TaskCard(
    nonce="n4",
    version=1,
    state=CardState.OPEN,
    title="export is running",
    agent="agent",
    tool="export",
    status="working",
    message="",
)
FORM = Card(
    nonce="n2",
    version=1,
    kind=Kind.FORM,
    state=CardState.OPEN,
    title="book asks",
    agent="agent",
    tool="book",
    message="Please tell me\nwhere to send it.",
    fields=(
        Field("name", title="Your name", min_length=2, max_length=80, pattern="^[A-Z]"),
        Field("mail", title="Mail", format=Format.EMAIL, description="For the receipt."),
        Field("count", FieldType.INTEGER, title="How many", minimum=1, maximum=9, default=1),
        Field("weight", FieldType.NUMBER, title="Weight", required=False),
        Field("gift", FieldType.BOOLEAN, title="As a gift", default=False),
        Field("size", title="Size", choices=[Choice("s", "Small", "Up to 2 kg"), Choice("l")]),
        Field("extras", FieldType.CHOICES, choices=["bow", "card"], min_items=1, default=["bow"]),
        Field("note", title="Note", required=False, multiline=True),
        Field("colour", title="Colour", choices=["red"], allow_other=True, required=False),
    ),
    deciders=("console:local/ana",),
)
ASKED = (
    AskedQuestion("Which way?", "Way", (Option("Left", "Past the mill."), Option("Right", "Up."))),
    AskedQuestion("Which days?", "Days", (Option("Mon", "a"), Option("Tue", "b")), True),
)
CHOOSING = Card(
    nonce="n3",
    version=1,
    kind=Kind.FORM,
    state=CardState.OPEN,
    title="agent asks",
    agent="agent",
    tool="ask_user",
    message="Which way?\nWhich days?",
    fields=to_fields(ASKED),
    choosing=True,
    deciders=("console:local/ana",),
)
PAGE = Card(
    nonce="n4",
    version=1,
    kind=Kind.PAGE,
    state=CardState.OPEN,
    title="connect asks you to visit a page",
    agent="agent",
    tool="connect",
    message="Sign in there.",
    url="https://accounts.example.com@login.example.net:8443/start?next=%2Fa&state=" + "x" * 200,
    deciders=("console:local/ana",),
)
_OUTCOME = outcome_question("refund")
OUTCOME = Card(
    nonce="n5",
    version=1,
    kind=Kind.FORM,
    state=CardState.OPEN,
    title="What came of refund?",
    agent="agent",
    tool="refund",
    message=_OUTCOME.message,
    fields=_OUTCOME.fields,
    arguments=(Argument("order", "A1"),),
    deciders=("console:local/ben",),
)
BARE = Card(nonce="n", version=1, kind=Kind.APPROVAL, state=CardState.OPEN, title="t", agent="a")
CARDS = (APPROVAL, FORM, CHOOSING, PAGE, OUTCOME)


def settled(card: Card, state: CardState) -> Card:
    return replace(card, state=state, outcome="Ended by ben on a day.")


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.title)
def test_an_open_card_is_a_panel_with_its_number_and_what_can_be_typed(
    card: Card, width: int
) -> None:
    shown = printed(draw.card(card, 7), width)
    assert shown.startswith("╭─ #7 ")
    assert "/decline 7" in shown
    assert all(len(line) <= width for line in shown.splitlines())


@pytest.mark.parametrize("state", [CardState.DONE, CardState.REFUSED, CardState.CLOSED])
@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.title)
def test_a_settled_card_is_one_line_with_its_outcome(card: Card, state: CardState) -> None:
    shown = printed(draw.card(settled(card, state), 7), 200)
    assert shown.rstrip("\n").count("\n") == 0
    assert "#7 " in shown
    assert f"{card.title} Ended by ben on a day." in shown
    assert "/" not in shown


def test_an_approval_says_the_tool_the_deciders_and_what_each_command_does() -> None:
    shown = printed(draw.card(APPROVAL, 1))
    assert "agent wants to run refund" in shown
    assert "ben, slack:T1/EVE" in shown
    assert "/approve 1 " in shown
    assert "do not ask again for refund in this thread" in shown


@given(st.text(), st.text(min_size=1), st.integers(30, 120))
def test_every_character_of_an_argument_is_on_the_card(value: str, name: str, width: int) -> None:
    card = replace(BARE, arguments=(Argument(name, value), Argument("last", "here")))
    shown = printed(draw.card(card, 1), width)
    left = shown[shown.index("Arguments") : shown.index("Nobody may")]
    seen = sorted("".join(left.split()))
    for char in "".join(safe(value, lines=True, exact=True).split()):
        seen.remove(char)  # raises when it is not there as often


def test_a_long_argument_is_folded_and_whole() -> None:
    value = "".join(f"{number:05d}" for number in range(1600))
    card = replace(BARE, arguments=(Argument("data", value),))
    assert value in flat(printed(draw.card(card, 1))).replace("data  ", "")


def test_an_argument_cannot_pass_for_another_one() -> None:
    forged = replace(
        BARE, arguments=(Argument("note", "fine\namount  1"), Argument("amount", "9000"))
    )
    lines = [line.strip("│ ") for line in printed(draw.card(forged, 1)).splitlines()]
    assert [line for line in lines if line.startswith("amount")] == ["amount  1", "amount  9000"]
    columns = [line.index("amount") for line in printed(draw.card(forged, 1)).splitlines()
               if "amount" in line]  # fmt: skip
    assert columns[0] > columns[1]


def test_approve_is_not_offered_when_the_arguments_are_not_all_there() -> None:
    card = replace(
        BARE, complete=False, remember="Approve for good", notices=("Too long to be shown.",)
    )
    shown = printed(draw.card(card, 1))
    assert "Too long to be shown." in shown
    assert "/approve" not in shown
    assert "/remember" not in shown
    assert "no arguments" not in shown


@pytest.mark.row("B46")
@pytest.mark.parametrize(("size", "cut"), [(PAGES_BUDGET - 2, False), (PAGES_BUDGET + 1, True)])
def test_arguments_are_printed_whole_or_the_card_says_where_the_rest_is(
    size: int, cut: bool
) -> None:
    card = replace(
        BARE, arguments=(Argument("a", "x" * (size - 8) + " rm -rf"), Argument("b", "")), file="f"
    )
    shown = printed(draw.card(card, 1))
    assert "rm -rf" in shown
    assert ("characters between; f has them" in shown) is cut
    assert (shown.count("x") >= size - 8) is not cut


def test_a_card_that_nobody_may_decide_says_so() -> None:
    card = replace(
        BARE,
    )
    assert "Nobody may decide this" in printed(draw.card(card, 1))


@pytest.mark.parametrize(
    "expected",
    [
        "where to send it.",
        "1. Your name",
        "Text, matching “^[A-Z]”, at least 2 characters, at most 80 characters.",
        "An email address such as name@example.com.",
        "For the receipt.",
        "A whole number, at least 1, at most 9. Left empty: 1.",
        "A number. May be left empty.",
        "y or n. Left empty: no.",
        "1. Small: Up to 2 kg",
        "2. l",
        "The numbers of options, separated by commas, at least 1 choices. Left empty: bow.",
        "an empty line ends it. May be left empty.",
        "The number of one option, or your own answer. May be left empty.",
    ],
)
def test_a_form_shows_its_fields_with_their_rules_and_choices(expected: str) -> None:
    assert expected in printed(draw.card(FORM, 1), 120)


def test_an_ask_user_card_shows_header_question_and_numbered_options() -> None:
    shown = printed(draw.card(CHOOSING, 1))
    for expected in (
        "Way: Which way?",
        "1. Left: Past the mill.",
        "2. Right: Up.",
        "Other: type a number, or your own answer.",
        "Days: Which days?",
        "Other: type numbers separated by commas, or your own answer.",
    ):
        assert expected in shown
    assert shown.count("Which way?") == 1


def test_nothing_in_a_question_can_pass_for_an_option() -> None:
    offered = (Option("Yes", "Go on. " + "x" * 30 + "\n3. Fake: word."), Option("No", "Stop."))
    asked = AskedQuestion("Go " + "y" * 36 + "\n3. Fake: word.", "Go", offered)
    field = Field("f", description="3. Fake: word.", choices=[Choice("a", "Yes"), Choice("b")])
    for card in (
        replace(CHOOSING, fields=to_fields([asked])),
        replace(FORM, fields=(field,)),
    ):
        lines = printed(draw.card(card, 1), 50).splitlines()
        numbers = {line.index("2. ") for line in lines if "2. " in line}
        fakes = {line.index("3. Fake") for line in lines if "3. Fake" in line}
        assert fakes
        assert len(numbers) == 1
        assert numbers.isdisjoint(fakes)


def test_a_page_shows_the_whole_address_and_names_its_host() -> None:
    shown = printed(draw.card(PAGE, 1))
    assert PAGE.url in flat(shown)
    assert "host  login.example.net:8443" in shown
    assert "The part before the @ is not where this leads" in shown
    assert "/done 1" in shown


def test_a_page_is_never_a_link() -> None:
    out = io.StringIO()
    Console(file=out, width=300, force_terminal=True).print(draw.card(PAGE, 1))
    assert "\x1b]8" not in out.getvalue()


@pytest.mark.parametrize(
    ("url", "warning"),
    [
        ("https://xn--pypal-4ve.com/", "Punycode"),
        ("https://p\u0430ypal.com/", "imitate another name"),
        ("http://example.com/", "not encrypted"),
        ("https://good.com\\@evil.com/", "do not open it"),
        ("javascript:alert(1)", "do not open it"),
        ("https://[::1", "do not open it"),
    ],
)
def test_what_is_odd_about_an_address_is_said(url: str, warning: str) -> None:
    card = replace(BARE, kind=Kind.PAGE, url=url)
    shown = printed(draw.card(card, 1), 200)
    assert url.replace("\u0430", "⟨U+0430⟩") in shown
    assert warning in shown


@pytest.mark.parametrize(
    ("card", "expected"),
    [(APPROVAL, "/approve 3"), (FORM, "/answer 3"), (PAGE, "/done 3"), (OUTCOME, "/answer 3")],
)
def test_what_fits_a_card_is_said_in_one_sentence(card: Card, expected: str) -> None:
    assert expected in draw.typed(card, 3)


def hostile(text: str, state: CardState) -> list[RenderableType]:
    title = text.strip() or "t"
    choices = [Choice("a", title, text), Choice("b", "b" + text, text)]
    fields = tuple(
        Field(name, title=title, description=text, choices=offered)
        for name, offered in (("f", ()), ("g", choices))
    )
    parts: dict[str, Any] = {
        "nonce": "n", "version": 1, "state": state, "title": text, "agent": text, "tool": text,
        "message": text, "deciders": (text,), "notices": (text,), "outcome": text,
    }  # fmt: skip
    arguments = (Argument(text, text),)
    return [
        draw.card(Card(**parts, kind=Kind.APPROVAL, arguments=arguments, remember=text), 1, text),
        draw.card(Card(**parts, kind=Kind.FORM, fields=fields), 1, text),
        draw.card(Card(**parts, kind=Kind.FORM, fields=fields[1:], choosing=True), 1, text),
        draw.card(Card(**parts, kind=Kind.PAGE, url=text or "x"), 1, text),
        draw.reply(text, text),
        draw.sentence(text),
    ]


TEXTS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"])
) | st.sampled_from(
    [
        ESC,
        "\x9b2J",
        "\u202eabc",
        "[red]x[/red]",
        "[link=http://x]y[/link]",
        ":smile:",
        "```\n" + ESC,
        *hostile_texts.TEXTS,
    ]
)


@given(TEXTS, st.sampled_from(CardState), st.integers(20, 100))
def test_nothing_that_others_wrote_reaches_the_terminal_as_a_control(
    text: str, state: CardState, width: int
) -> None:
    for drawn in hostile(text, state):
        shown = printed(drawn, width).replace("\n", "").replace("\ufe0f", "").replace("\u200d", "")
        assert not [char for char in shown if is_unseen(char)]


@pytest.mark.parametrize("text", hostile_texts.TEXTS)
@pytest.mark.parametrize("state", CardState)
def test_nothing_that_others_wrote_imitates_other_letters(text: str, state: CardState) -> None:
    for drawn in [*hostile(text, state), draw.task(TASK, 1), draw.task(_task(text), 1, text)]:
        shown = printed(drawn, 5_000)
        assert not imitations(shown), shown


def _task(text: str) -> TaskCard:
    return replace(TASK, title=text, agent=text, tool=text, status=text, message=text)


@pytest.mark.parametrize(
    "text", ["[red]x[/red]", "[link=http://x]y[/link]", ":smile:", "[/]", "[@"]
)
def test_markup_of_the_terminal_library_is_plain_text(text: str) -> None:
    for drawn in hostile(text, CardState.OPEN):
        assert text in printed(drawn, 150)


@given(st.text(alphabet="╭─#1 approval╮│▌✓\n* `x", max_size=200), st.integers(20, 60))
def test_nothing_that_others_wrote_begins_at_the_left_edge(text: str, width: int) -> None:
    for line in printed(draw.reply(text), width).splitlines():
        assert line.startswith("▌")
    for line in printed(draw.sentence(text), width).splitlines():
        assert line.startswith("  ")
    ended = replace(BARE, state=CardState.DONE, title=text, outcome=text)
    first, *rest = printed(draw.card(ended, 1), width).splitlines()
    assert first.startswith("✓ #1 ")
    assert all(line.startswith("     ") for line in rest)


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**Done**: it is `ok`", "Done: it is `ok`"),
        ("## Result", "Result"),
        ("2**3 is 8 and 2**4 is 16", "2**3 is 8 and 2**4 is 16"),
        ("`**kwargs` and **bold**", "`**kwargs` and bold"),
        ("- one", "- one"),
        ("<b>List<int></b> &amp; [a](http://x)", "<b>List<int></b> &amp; [a](http://x)"),
    ],
)
def test_a_reply_keeps_what_was_written(markdown: str, shown: str) -> None:
    assert printed(draw.reply(markdown)) == f"▌ {shown}\n"


def test_code_in_a_reply_is_left_alone() -> None:
    text = "```python\n# no heading\nf(**kwargs, **more)\n```\nafter **that**"
    lines = [line.removeprefix("▌ ") for line in printed(draw.reply(text)).splitlines()]
    assert lines == ["```python", "# no heading", "f(**kwargs, **more)", "```", "after that"]
