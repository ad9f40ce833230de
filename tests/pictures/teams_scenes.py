"""The cards of Teams: every card in every state, one picture each. A new one is one line here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adapters.teams import cards, edits, group, home, pages, standing
from adapters.teams.events import Person, Pressed
from adapters.teams.outcome import Outcome
from adapters.teams.people import Member
from bot.card import CardState
from bot.surface import Content, Home, Place, Verb
from storage.conversations import Conversation
from tests.fakes.teams.cards import faults
from tests.pictures import scenes as slack

THREAD = Place("teams", "t-1", "19:ops@thread.tacv2", "1700000000001")
ENDED = (CardState.DONE, CardState.REFUSED, CardState.CLOSED)


def scenes() -> dict[str, dict[str, Any]]:
    """Cards by the name of their picture."""
    shown: dict[str, Content] = {
        "approval": slack.REFUND,
        "approval-dangerous": slack.SHELL,
        "approval-hiding": slack.HIDING,
        "approval-lookalikes": slack.LOOKALIKE,
        "approval-long": slack.LONG,
        "approval-waiting": slack.WAITING,
        "approval-expired": slack.EXPIRED,
        "approval-edited": slack.STALE,
        "approval-changed": slack.CHANGED,
        "approval-secret": slack.SECRET,
        "approval-file": slack.FILED,
        "approval-markup": replace(slack.SHELL, title=MARKUP, message=MARKUP, agent=MARKUP),
        "approval-elsewhere": slack.REFUND_ASKED,
        "ask-user": slack.ASKED,
        "form": slack.FORM,
        "page": slack.PAGE,
        "page-imitation": slack.TRICK,
        "task": slack.TASK,
        "task-done": replace(slack.TASK, state=CardState.DONE, title="restore_backup is done"),
        "task-failed": replace(slack.TASK, state=CardState.REFUSED, title="restore_backup failed"),
        "group": slack.GROUP,
        "group-partly": PARTLY,
        "group-done": replace(
            slack.GROUP,
            cards=tuple(
                replace(one, state=CardState.DONE, outcome=slack.ENDINGS[CardState.DONE])
                for one in slack.CALLS
            ),
        ),
        "approval-all-buttons": replace(
            slack.REFUND, standing=True, editable=True, remember="Approve, and do not ask again"
        ),
    }
    for name, card in {"approval": slack.REFUND, "form": slack.FORM, "page": slack.PAGE}.items():
        for state in ENDED:
            ended = replace(card, state=state, outcome=slack.ENDINGS[state])
            shown[f"{name}-{state.value}"] = ended
    drawn = {
        name: cards.activity(content, THREAD, NAMES)["attachments"][0]["content"]
        for name, content in shown.items()
    }
    return drawn | VIEWS


def wrong() -> dict[str, list[str]]:
    """What Teams would not take of them, by name."""
    return {name: found for name, card in scenes().items() if (found := faults(card))}


MARKUP = "**bold** [Approve](https://evil.test) <at>Ana</at> <b>x</b> \u202etxt.exe"
NAMES = {
    key: Member("29:x", key.rpartition("/")[2], "t-1", key.rpartition("_")[2].title(), False)
    for key in (*slack.DECIDERS, "slack:T1/U_ANA")
}
PARTLY = replace(
    slack.GROUP,
    cards=(
        replace(slack.CALLS[0], state=CardState.DONE, outcome=slack.ENDINGS[CardState.DONE]),
        replace(slack.CALLS[1], state=CardState.REFUSED, outcome=slack.ENDINGS[CardState.REFUSED]),
        *slack.CALLS[2:],
    ),
)
ABOUT = "If you approve it, what about later calls of refund?"
PRESSED = Pressed(
    verb="",
    nonce="n0nce",
    inputs={},
    conversation=Conversation(
        "teams", "t-1", THREAD.channel, "channel", "https://smba.test", "28:b"
    ),
    place=THREAD,
    person=Person("u", "29:u", "t-1"),
    message="1",
    invoked=True,
)


def viewed(outcome: Outcome) -> dict[str, Any]:
    return dict(outcome.view or {})


VIEWS: dict[str, dict[str, Any]] = {  # drawn for one person: name -> card
    "group-notice": group.draw(PARTLY, THREAD, NAMES, notice="1 of 2 was declined; 1 was refused."),
    "group-sure": group.sure(slack.GROUP, Verb.APPROVE),
    "pages-first": pages.page(slack.LONG),
    "pages-second": pages.page(slack.LONG, 2),
    "pages-secret": pages.page(slack.SECRET),
    "edit": edits.form(slack.EDITED, slack.EDITED.fields) or {},
    "home": home.draw(slack.INBOX),
    "home-rules": home.draw(slack.RULES, notice="Saved: refund runs without asking."),
    "home-nothing": home.draw(Home()),
    "home-opened": cards.draw(slack.REFUND, THREAD, NAMES, home=True),
    "status-tasks": home.running(slack.INBOX) or {},
    "remember": viewed(standing._form(PRESSED, slack.CHOICES, "Remember", ABOUT, "preview")),
    "remember-sure": viewed(
        standing._promise(
            PRESSED, slack.PROMISE, {"what": "exact"}, "Approve and remember", "save", "form"
        )
    ),
}
