"""What a typed line means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.console.line import (
    HELP,
    Action,
    Answer,
    Approve,
    Ask,
    Blank,
    Decline,
    Dismiss,
    Done,
    Edit,
    Help,
    Mistake,
    Quit,
    Say,
    parse,
)


@pytest.mark.parametrize(
    ("typed", "action"),
    [
        ("", Blank()),
        ("  \t ", Blank()),
        ("hello there", Say("hello there")),
        ("  hello  ", Say("hello")),
        ("/approve", Approve(None)),
        ("/approve 2", Approve(2)),
        ("/approve #2", Approve(2)),
        ("/Approve\t 2 ", Approve(2)),
        ("/remember", Approve(None, remember=True)),
        ("/remember 3", Approve(3, remember=True)),
        ("/edit", Edit(None)),
        ("/edit 2", Edit(2)),
        ("/decline", Decline(None)),
        ("/decline 2", Decline(2)),
        ("/decline too much", Decline(None, "too much")),
        ("/decline 2 too  much, 3 at most", Decline(2, "too  much, 3 at most")),
        ("/decline #12 no", Decline(12, "no")),
        ("/decline 2 line\nanother", Decline(2, "line\nanother")),
        ("/answer", Answer(None)),
        ("/answer 1", Answer(1)),
        ("/done", Done(None)),
        ("/done 4", Done(4)),
        ("/dismiss", Dismiss(None)),
        ("/dismiss 5", Dismiss(5)),
        ("/status", Ask("status")),
        ("/pending", Ask("pending")),
        ("/status 2", Ask("status", "2")),
        ("/task k3v9qz", Ask("task", "k3v9qz")),
        ("/rules", Ask("rules")),
        ("/usage", Ask("usage")),
        ("/stop", Ask("stop")),
        ("/help", Help()),
        ("/quit", Quit()),
        (" /approve 1", Say("/approve 1")),
        ("please\n/approve 1", Say("please\n/approve 1")),
    ],
)
def test_a_line_is_one_action(typed: str, action: Action) -> None:
    assert parse(typed) == action


@pytest.mark.parametrize(
    "word",
    [
        "yes",
        "YES",
        "y",
        "ok",
        "OK",
        "approve",
        "Approve",
        "approved",
        "decline",
        "no",
        "1",
        "#1",
        "done",
        "answer",
        "stop",
        "quit",
    ],
)
def test_a_bare_word_is_a_message_and_never_a_decision(word: str) -> None:
    assert parse(word) == Say(word)


@pytest.mark.parametrize(
    "typed",
    [
        "/",
        "/ approve 1",
        "/aprove",
        "/approve1",
        "/approve all",
        "/approve 1 2",
        "/approve -1",
        "/approve ١",
        "/approve 12345678901",
        "/answer yes",
        "/done 1 ok",
        "/quit now",
        "/etc/hosts is odd",
    ],
)
def test_what_cannot_be_read_is_said_and_does_nothing(typed: str) -> None:
    action = parse(typed)
    assert isinstance(action, Mistake)
    assert action.sentence.endswith(".")


@given(st.text())
def test_only_a_slash_at_the_very_beginning_makes_a_command(text: str) -> None:
    action = parse(text)
    assert text.startswith("/") or isinstance(action, Say | Blank)


@pytest.mark.parametrize(
    "command",
    [
        "/approve",
        "/remember",
        "/decline",
        "/answer",
        "/done",
        "/dismiss",
        "/status",
        "/pending",
        "/task",
        "/rules",
        "/usage",
        "/stop",
        "/quit",
    ],
)
def test_the_help_names_every_command(command: str) -> None:
    assert command in HELP
