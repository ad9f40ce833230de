"""What is on the terminal: numbers of cards, what is printed again, what grows."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from adapters.console.screen import NoCard, Screen
from bot.card import Card, CardState
from bot.question import Kind
from bot.surface import DeliveryError, Place

HERE = Place("console", "local", "console", "main")
ELSEWHERE = replace(HERE, root="other")


class Terminal:
    def __init__(self) -> None:
        self.out = io.StringIO()
        self.screen = Screen(Console(file=self.out, width=80, no_color=True), "main")

    def news(self) -> str:
        """What was printed since the last time."""
        shown = self.out.getvalue()
        self.out.seek(0)
        self.out.truncate()
        return shown


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


def card(nonce: str) -> Card:
    return Card(
        nonce=nonce,
        version=1,
        kind=Kind.APPROVAL,
        state=CardState.OPEN,
        title=f"run {nonce}",
        agent="agent",
    )


def ended(nonce: str) -> Card:
    return replace(card(nonce), version=2, state=CardState.DONE, outcome="Approved by ben.")


def test_cards_are_numbered_in_the_order_they_are_shown(terminal: Terminal) -> None:
    terminal.screen.card(HERE, card("a"))
    terminal.screen.card(HERE, card("b"))
    shown = terminal.news()
    assert shown.index("#1 approval") < shown.index("run a")
    assert shown.index("#2 approval") < shown.index("run b")
    assert terminal.screen.pick(2).card == card("b")


def test_a_card_that_settles_is_printed_as_its_line_under_the_same_number(
    terminal: Terminal,
) -> None:
    terminal.screen.card(HERE, card("a"))
    terminal.news()
    terminal.screen.card(HERE, ended("a"))
    assert terminal.news() == "✓ #1 run a Approved by ben.\n"


def test_the_same_card_is_not_printed_twice_nor_an_older_one_after_it(terminal: Terminal) -> None:
    terminal.screen.card(HERE, card("a"))
    terminal.screen.card(HERE, ended("a"))
    terminal.news()
    terminal.screen.card(HERE, ended("a"))
    terminal.screen.card(HERE, card("a"))
    assert terminal.news() == ""
    with pytest.raises(NoCard):
        terminal.screen.pick(1)


def test_an_open_card_that_changed_is_printed_anew(terminal: Terminal) -> None:
    terminal.screen.card(HERE, card("a"))
    terminal.news()
    terminal.screen.card(HERE, replace(card("a"), version=2, notices=("Escalated.",)))
    assert "Escalated." in terminal.news()


def test_what_belongs_to_another_thread_says_so(terminal: Terminal) -> None:
    terminal.screen.card(ELSEWHERE, card("a"))
    terminal.screen.reply(ELSEWHERE, "m1", "hello")
    shown = terminal.news()
    assert "#1 approval in thread other" in shown
    assert "▌ in thread other\n▌ hello\n" in shown
    assert terminal.screen.pick(1).place == ELSEWHERE


def test_without_a_number_the_only_open_card_is_meant(terminal: Terminal) -> None:
    terminal.screen.card(HERE, card("a"))
    terminal.screen.card(HERE, ended("a"))
    terminal.screen.typed()
    terminal.screen.card(HERE, card("b"))
    assert terminal.screen.pick(None).number == 2


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (None, "That could mean #2, #3: add the number, as in /approve 1."),
        (1, "#1 was settled before: Approved by ben."),
        (9, "There is no card #9."),
    ],
)
def test_a_number_that_means_no_card_is_said_in_one_sentence(
    terminal: Terminal, number: int | None, sentence: str
) -> None:
    for nonce in "abc":
        terminal.screen.card(HERE, card(nonce))
    terminal.screen.card(HERE, ended("a"))
    terminal.screen.typed()
    with pytest.raises(NoCard) as error:
        terminal.screen.pick(number)
    assert str(error.value) == sentence


def test_without_any_open_card_there_is_nothing_to_decide(terminal: Terminal) -> None:
    with pytest.raises(NoCard, match="No card is open here"):
        terminal.screen.pick(None)


def test_a_card_that_took_the_place_of_the_one_somebody_read_is_not_taken_for_it(
    terminal: Terminal,
) -> None:
    terminal.screen.card(HERE, card("a"))
    terminal.screen.typed()
    terminal.screen.card(HERE, ended("a"))  # somebody else, while "/approve" is being typed
    terminal.screen.card(HERE, card("b"))
    with pytest.raises(NoCard, match="#1, #2"):
        terminal.screen.pick(None)
    terminal.screen.typed()
    assert terminal.screen.pick(None).number == 2


def test_of_a_reply_that_grows_only_the_new_is_printed_from_the_cut_word_on(
    terminal: Terminal,
) -> None:
    shown = []
    for text in (
        "The order was de",
        "The order was delivered on",
        "The order was delivered on Monday.",
    ):
        terminal.screen.reply(HERE, "m1", text)
        shown.append(terminal.news())
    assert shown == ["▌ The order was de\n", "▌ …delivered on\n", "▌ Monday.\n"]


def test_a_reply_that_goes_on_after_a_line_goes_on_in_the_next(terminal: Terminal) -> None:
    terminal.screen.reply(HERE, "m1", "First:\n")
    terminal.screen.reply(HERE, "m1", "First:\n    code")
    assert terminal.news() == "▌ First:\n▌     code\n"


def test_a_reply_that_was_rewritten_is_printed_whole_and_an_unchanged_one_not(
    terminal: Terminal,
) -> None:
    terminal.screen.reply(HERE, "m1", "Half an ans")
    terminal.news()
    terminal.screen.reply(HERE, "m1", "Another answer.")
    assert terminal.news() == "▌ Another answer.\n"
    terminal.screen.reply(HERE, "m1", "Another answer.")
    assert terminal.news() == ""


def test_a_terminal_that_is_gone_is_a_failed_delivery() -> None:
    class Gone(io.StringIO):
        def write(self, text: str, /) -> int:
            raise OSError(5, "Input/output error")

    screen = Screen(Console(file=Gone()), "main")
    with pytest.raises(DeliveryError, match="terminal"):
        screen.say("hello")
