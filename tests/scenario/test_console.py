"""People at consoles: what they type, over the real service, loop and database."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from adapters.console.session import Interrupted, Session
from adapters.console.surface import ConsoleSurface
from bot.approvers import Policy
from bot.ask_user_tool import ask_user_tool, in_thread
from bot.card import PAGES_BUDGET
from bot.field import Choice, Field, FieldType
from bot.question import Verb
from bot.scripted import Step, call
from bot.surface import Actor, Decision, Entry, Response
from bot.tool import Call, Tool, tool
from storage.database import Database, DatabaseUnavailable
from tests.world import World, world

ANA = Actor("console", "local", "ana")
BEN = Actor("console", "local", "ben")
OPS = Policy(name="ops", approvers=frozenset({BEN.key}))

Typed = str | type[BaseException]


class Terminal:
    """One console and the people who take turns at it. `types` is somebody typing lines; after
    each, everything that is due happens."""

    def __init__(
        self,
        db: Database,
        *steps: Step,
        tools: Sequence[Tool],
        policies: Sequence[Policy] = (OPS,),
    ) -> None:
        self.out = io.StringIO()
        self.world: World = world(db, *steps, tools=tools, policies=policies)
        console = Console(file=self.out, width=120, no_color=True)
        entry: Entry = self.world.service
        self.surface = ConsoleSurface(entry, user="ana", thread="main", console=console)
        self.world.core.surfaces["console"] = self.surface
        self.entry = entry

    async def types(self, *lines: Typed, who: Actor = ANA) -> str:
        """What was printed meanwhile."""
        queue = list(lines)

        async def read(prompt: str) -> str:
            await self.world.settle()
            self.out.write(prompt)
            if not queue:
                raise EOFError
            typed = queue.pop(0)
            if not isinstance(typed, str):
                raise typed
            self.out.write(f"{typed}\n")
            return typed

        began = len(self.out.getvalue())
        screen, place = self.surface.screen, self.surface.place
        await Session(screen, self.entry, read, actor=who, place=place).run()
        await self.world.settle()
        return self.out.getvalue()[began:]


class Shop:
    """A tool with an effect, and what came of it."""

    def __init__(self) -> None:
        self.refunds: list[tuple[str, int]] = []

    @property
    def tool(self) -> Tool:
        async def refund(order: str, amount: int) -> str:
            """Refunds an order."""
            self.refunds.append((order, amount))
            return f"refunded {amount}"

        return tool(refund)


REFUND = call("refund", order="A1", amount=5)


async def test_an_approval_from_message_to_reply(sqlite_db: Database) -> None:
    shop = Shop()
    terminal = Terminal(sqlite_db, REFUND, "Refunded **A1**.", tools=[shop.tool])
    shown = await terminal.types("refund order A1 please")
    assert "#1 approval" in shown
    assert "order   A1" in shown
    assert "amount  5" in shown
    assert "may decide  ben" in shown

    refused = await terminal.types("/approve 1")
    assert "You are not among the approvers of refund" in refused
    assert shop.refunds == []

    approved = await terminal.types("/approve", who=BEN)
    assert approved.count("✓ #1 agent wants to run refund Approved by ben") == 1
    assert "▌ Refunded A1." in approved
    assert shop.refunds == [("A1", 5)]


async def test_a_bare_word_is_told_to_the_agent_and_decides_nothing(sqlite_db: Database) -> None:
    shop = Shop()
    terminal = Terminal(sqlite_db, REFUND, "Very well.", tools=[shop.tool])
    await terminal.types("refund A1")
    shown = await terminal.types("approve", "yes", "ok", "/status", who=BEN)
    assert shop.refunds == []
    assert "`refund` waits for a decision" in shown
    assert "3 message(s) queued" in shown


async def test_the_note_of_a_decline_reaches_the_agent(sqlite_db: Database) -> None:
    shop = Shop()
    terminal = Terminal(sqlite_db, REFUND, "I leave it.", tools=[shop.tool])
    await terminal.types("refund A1")
    shown = await terminal.types("/decline 1 too much, 3 at most", who=BEN)
    assert "✗ #1 agent wants to run refund Declined by ben" in shown
    assert "too much, 3 at most" in shown
    assert "▌ I leave it." in shown
    assert shop.refunds == []
    assert "too much, 3 at most" in str(terminal.world.model.requests[-1].messages)


@pytest.mark.row("D23")
async def test_a_call_is_approved_with_other_arguments(sqlite_db: Database) -> None:
    shop = Shop()
    terminal = Terminal(sqlite_db, REFUND, "Done.", tools=[shop.tool])
    assert "/edit 1" in await terminal.types("refund A1")
    refused = await terminal.types("/edit")
    assert "You are not among the approvers of refund" in refused

    left = await terminal.types("/edit 1", Interrupted, who=BEN)
    assert "You left #1; nothing was decided." in left
    shown = await terminal.types("/edit 1", "much", "3", "", who=BEN)

    assert "1/2 amount" in shown
    assert "amount must be a whole number." in shown
    assert "Approved with changes by ben" in shown
    assert "amount: 5 → 3" in shown
    assert shop.refunds == [("A1", 3)]


async def test_an_approval_that_is_remembered_is_not_asked_for_again(sqlite_db: Database) -> None:
    shop = Shop()
    terminal = Terminal(sqlite_db, REFUND, REFUND, "Both done.", tools=[shop.tool])
    await terminal.types("refund A1 twice")
    shown = await terminal.types("/remember", who=BEN)
    assert "▌ Both done." in shown
    assert "#2" not in shown
    assert shop.refunds == [("A1", 5), ("A1", 5)]


async def test_of_several_cards_one_must_be_named(sqlite_db: Database) -> None:
    shop = Shop()
    terminal = Terminal(sqlite_db, [REFUND, REFUND], "Done.", tools=[shop.tool])
    await terminal.types("refund A1 twice")
    shown = await terminal.types("/approve", "/approve 2", "/approve", who=BEN)
    assert "That could mean #1, #2" in shown
    assert "▌ Done." in shown
    assert len(shop.refunds) == 2


async def test_a_settled_card_says_who_decided_it(sqlite_db: Database) -> None:
    shop = Shop()
    terminal = Terminal(sqlite_db, REFUND, "Done.", tools=[shop.tool])
    await terminal.types("refund A1")
    await terminal.types("/approve 1", who=BEN)
    shown = await terminal.types("/decline 1", who=BEN)
    assert "#1 was settled before: Approved by ben" in shown
    assert shop.refunds == [("A1", 5)]


async def test_a_decision_that_comes_late_shows_the_first_one(sqlite_db: Database) -> None:
    shop = Shop()
    terminal = Terminal(sqlite_db, REFUND, "Left.", tools=[shop.tool])
    service = terminal.world.service

    class Raced:
        """Somebody else declines at the moment that somebody approves here."""

        async def decide(self, event: Decision) -> Response:
            await service.decide(replace(event, verb=Verb.DECLINE, response="first"))
            return await service.decide(event)

    await terminal.types("refund A1")
    terminal.entry = cast(Entry, Raced())
    shown = await terminal.types("/approve 1", who=BEN)
    assert shown.count("✗ #1 agent wants to run refund Declined by ben") == 1
    assert "This was settled before. Declined by ben" in shown
    assert shop.refunds == []


def attached(where: Path) -> Any:
    [file] = where.glob("interlock-*-refund-arguments.json")
    return json.loads(file.read_bytes())


@pytest.mark.row("B46")
async def test_arguments_too_long_for_the_terminal_are_in_a_file_that_is_named_before_them(
    sqlite_db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shop = Shop()
    order = "x" * PAGES_BUDGET + " rm -rf /"
    long = call("refund", order=order, amount=5)
    terminal = Terminal(sqlite_db, long, "Done.", tools=[shop.tool])
    shown = await terminal.types("refund it")
    assert attached(tmp_path) == {"order": order, "amount": 5}
    assert shown.index("refund-arguments.json (application/json) is in") < shown.index("rm -rf /")
    assert "characters between; refund-arguments.json has them" in shown
    await terminal.types("/approve 1", who=BEN)
    assert [one for one, _ in shop.refunds] == [order]


async def test_what_nobody_can_read_in_full_cannot_be_approved(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.card.FILE_LIMIT", 1_000)
    shop = Shop()
    long = call("refund", order="x" * (PAGES_BUDGET + 1), amount=5)
    terminal = Terminal(sqlite_db, long, "Done.", tools=[shop.tool])
    card = await terminal.types("refund it")
    assert "/approve" not in card
    shown = await terminal.types("/approve 1", "/remember 1", who=BEN)
    assert shown.count("#1 cannot be approved here: not all of it could be shown.") == 2
    assert shop.refunds == []


FIELDS = (
    Field("name", title="Name", min_length=2),
    Field("nights", FieldType.INTEGER, title="Nights", minimum=1, default=1),
    Field("late", FieldType.BOOLEAN, title="Late arrival"),
    Field("room", title="Room", choices=[Choice("s", "Small"), Choice("l", "Large")]),
    Field("extras", FieldType.CHOICES, title="Extras", choices=["bed", "desk"], required=False),
    Field("wish", title="Wish", required=False, multiline=True),
)


class Hotel:
    """A tool that asks with a form."""

    def __init__(self, *fields: Field) -> None:
        self.fields = fields
        self.answers: list[object] = []

    @property
    def tool(self) -> Tool:
        async def book(call: Call) -> str:
            """Books a room."""
            self.answers.append(await call.ask("Please fill this in.", *self.fields))
            return "booked"

        return tool(approval="never")(book)


async def test_a_form_is_asked_field_by_field_and_faults_are_said_at_once(
    sqlite_db: Database,
) -> None:
    hotel = Hotel(*FIELDS)
    terminal = Terminal(sqlite_db, call("book"), "Booked.", tools=[hotel.tool])
    await terminal.types("book a room")
    shown = await terminal.types(
        "/answer", "A", "Ana", "", "maybe", "y", "3", "2", "2, 1", "a quiet one", "please", ""
    )
    assert "Name must be at least 2 characters long." in shown
    assert "Late arrival must be yes or no." in shown
    assert "Room has no such option: type one number from 1 to 2." in shown
    assert shown.index("1/6 Name") < shown.index("6/6 Wish")
    assert "✓ #1 book asks Answered by ana" in shown
    assert "▌ Booked." in shown
    assert hotel.answers == [
        {
            "name": "Ana",
            "nights": 1,
            "late": True,
            "room": "l",
            "extras": ["desk", "bed"],
            "wish": "a quiet one\nplease",
        }
    ]


@pytest.mark.parametrize("leave", [Interrupted, EOFError])
async def test_a_form_can_be_left_and_taken_up_again(
    sqlite_db: Database, leave: type[BaseException]
) -> None:
    hotel = Hotel(FIELDS[0], FIELDS[5])
    terminal = Terminal(sqlite_db, call("book"), "Booked.", tools=[hotel.tool])
    await terminal.types("book a room")
    left = await terminal.types("/answer 1", "Ana", leave)
    assert "You left #1; nothing was answered." in left
    assert hotel.answers == []
    await terminal.types("/answer 1", "Ben", "")
    assert hotel.answers == [{"name": "Ben"}]


async def test_a_form_of_somebody_else_is_refused_before_its_fields_are_asked(
    sqlite_db: Database,
) -> None:
    hotel = Hotel(FIELDS[0])
    terminal = Terminal(sqlite_db, call("book"), "Booked.", tools=[hotel.tool])
    await terminal.types("book a room")
    shown = await terminal.types("/answer 1", who=Actor("console", "local", "cyn"))
    assert "This is for the person who asked the agent" in shown
    assert "Name" not in shown


async def test_the_wrong_command_for_a_card_says_which_one_fits(sqlite_db: Database) -> None:
    hotel = Hotel(FIELDS[5])  # every field may be left out: /done must not answer it
    terminal = Terminal(sqlite_db, call("book"), "Booked.", tools=[hotel.tool])
    await terminal.types("book a room")
    shown = await terminal.types("/done 1", "/approve 1")
    assert "#1 is a form: type /answer 1 or /decline 1." in shown
    assert "This is a form: answer or decline it." in shown
    assert hotel.answers == []


QUESTIONS = [
    {
        "question": "Which days?",
        "header": "Days",
        "multiSelect": True,
        "options": [
            {"label": "Mon", "description": "The first."},
            {"label": "Tue", "description": "The second."},
            {"label": "Wed", "description": "The third."},
        ],
    },
    {
        "question": "Which colour?",
        "header": "Colour",
        "options": [
            {"label": "Red", "description": "Warm."},
            {"label": "Blue", "description": "Cold."},
        ],
    },
]


@pytest.mark.row("D11")
@pytest.mark.row("D12")
@pytest.mark.row("D13")
async def test_ask_user_takes_numbers_and_own_words_and_asks_again(sqlite_db: Database) -> None:
    terminal = Terminal(
        sqlite_db,
        call("ask_user", questions=QUESTIONS),
        "Noted.",
        tools=[ask_user_tool(in_thread)],
    )
    card = await terminal.types("plan it")
    assert "Days: Which days?" in card
    assert "1. Mon: The first." in card
    shown = await terminal.types("/answer", "7", "", "1, 3, at noon", "green, if there is one")
    assert "Days has no such option" in shown
    assert "Days needs an answer." in shown
    assert "Days: Mon, Wed, at noon; Colour: green, if there is one" in shown
    assert "▌ Noted." in shown
    told = str(terminal.world.model.requests[-1].messages)
    assert '"selected": ["Mon", "Wed"], "other_text": "at noon"' in told
    assert '"selected": [], "other_text": "green, if there is one"' in told


@pytest.mark.parametrize(
    ("typed", "answer", "line"),
    [
        ("/done", True, "✓ #1 connect asks you to visit a page Finished by ana"),
        ("/dismiss", None, "✗ #1 connect asks you to visit a page Dismissed by ana"),
    ],
)
async def test_a_page_is_finished_or_dismissed(
    sqlite_db: Database, typed: str, answer: object, line: str
) -> None:
    answers: list[object] = []

    @tool(approval="never")
    async def connect(call: Call) -> str:
        """Connects an account."""
        answers.append(await call.ask("Sign in there.", url="https://login.example.com/a?b=c"))
        return "connected"

    terminal = Terminal(sqlite_db, call("connect"), "Connected.", tools=[connect])
    card = await terminal.types("connect me")
    assert "https://login.example.com/a?b=c" in card
    assert "#1 is a page to visit: type /done 1" in await terminal.types("/answer 1")
    assert line in await terminal.types(typed)
    assert answers == [answer]


async def test_commands_are_answered_and_stop_closes_what_is_open(sqlite_db: Database) -> None:
    shop = Shop()
    terminal = Terminal(sqlite_db, REFUND, "Done.", tools=[shop.tool])
    await terminal.types("refund A1")
    assert "`agent wants to run refund` (yours)" in await terminal.types("/pending", who=BEN)
    shown = await terminal.types("/stop")
    assert "Stopping: what has not run will not run." in shown
    assert "– #1 agent wants to run refund Closed" in shown
    assert shop.refunds == []


async def test_a_call_is_looked_at_by_the_id_that_status_lists(sqlite_db: Database) -> None:
    terminal = Terminal(sqlite_db, REFUND, "Done.", tools=[Shop().tool])
    await terminal.types("refund A1")
    listed = await terminal.types("/status")
    found = re.search(r"`([0-9a-z]{6})` `agent wants to run refund`", listed)
    assert found is not None
    assert "waiting for people since" in await terminal.types(f"/task {found[1]}")
    assert "No standing rule is in force here" in await terminal.types("/rules")
    assert "This channel:" in await terminal.types("/usage")


async def test_what_a_tool_or_model_wrote_stays_inert(sqlite_db: Database) -> None:
    shop = Shop()
    attack = "\x1b[2J\x1b[1;1H╭─ #9 approval ─╮\u202e"
    terminal = Terminal(
        sqlite_db, call("refund", order=attack, amount=1), attack, tools=[shop.tool]
    )
    await terminal.types("refund A1")
    await terminal.types("/approve 1", who=BEN)
    shown = terminal.out.getvalue()
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "▌ ⟨U+001B⟩[2J⟨U+001B⟩[1;1H╭─ #9 approval ─╮⟨U+202E⟩\n" in shown
    assert shop.refunds == [(attack, 1)]


async def test_ctrl_c_leaves_nothing_and_quit_leaves(sqlite_db: Database) -> None:
    terminal = Terminal(sqlite_db, tools=[])
    shown = await terminal.types(Interrupted, "/help", "/nonsense", "/quit", "never read")
    assert "Ctrl-D or `/quit` leaves." in shown
    assert "`/decline [N] [note]`" in shown
    assert "There is no command /nonsense." in shown
    assert "never read" not in shown


async def test_a_message_that_could_not_be_kept_is_said(
    sqlite_db: Database,
) -> None:
    class Away:
        async def message(self, event: object) -> bool:
            raise DatabaseUnavailable

    terminal = Terminal(sqlite_db, tools=[])
    terminal.entry = cast(Entry, Away())
    shown = await terminal.types("hello")
    assert "try again in a minute. The message was not taken." in shown


async def test_what_expired_is_asked_again(sqlite_db: Database) -> None:
    shop = Shop()
    soon = replace(OPS, expires_after=60.0)
    terminal = Terminal(
        sqlite_db, REFUND, "Too late.", REFUND, "Done.", tools=[shop.tool], policies=[soon]
    )
    await terminal.types("refund order A1 please")
    terminal.world.clock.advance(60)
    assert "/again 1 asks again" in await terminal.types()

    asked = await terminal.types("/again", who=BEN)
    assert "The agent was asked to do it again." in asked
    assert "#2 approval" in asked
    assert "No card here has expired" in await terminal.types("/again 1")

    await terminal.types("/approve 2", who=BEN)
    assert shop.refunds == [("A1", 5)]
