"""What a typed line means: a message to the agent, or one of the commands, which begin with /.

A bare word such as "approve", "yes" or "ok" is always a message and never a decision."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

HELP: Final = """\
Whatever you type goes to the agent, except for these:
- `/approve [N]`: lets card N run, once
- `/edit [N]`: the same with other arguments, asked for one after the other (Ctrl-C leaves it)
- `/remember [N]`: lets it run, and no more questions about this tool in this thread
- `/decline [N] [note]`: says no; the note goes to the agent
- `/answer [N]`: answers a form, one field after the other (Ctrl-C leaves it)
- `/done [N]`: you have finished on the page
- `/dismiss [N]`: closes it without an answer
- `/again [N]`: has the agent asked again for what expired on card N
- `/cancel [N]`: asks the server to stop background call N
- `/status [PAGE]`: what the agent is doing in this thread and in the others
- `/pending [PAGE]`: the questions that wait for somebody
- `/task ID`: one call in detail; `/status` lists the ids
- `/rules [PAGE]`: the standing rules; `/rules add …` and `/rules revoke ID` make and end one
- `/usage`: tokens and cost
- `/stop`: stops the agent in this thread
- `/quit`: leaves (Ctrl-D)
N may be left out while one card is open. A line that begins with a space is always a message."""


@dataclass(frozen=True, slots=True)
class Blank:
    """Nothing was typed."""


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Approve:
    number: int | None
    remember: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """Approve with other arguments."""

    number: int | None


@dataclass(frozen=True, slots=True)
class Decline:
    number: int | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    number: int | None


@dataclass(frozen=True, slots=True)
class Done:
    number: int | None


@dataclass(frozen=True, slots=True)
class Dismiss:
    number: int | None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop a background call."""

    number: int | None


@dataclass(frozen=True, slots=True)
class Again:
    """Ask again for what expired."""

    number: int | None


@dataclass(frozen=True, slots=True)
class Ask:
    """A command that every surface has (`bot.commands`)."""

    name: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Help:
    """The list of what can be typed."""


@dataclass(frozen=True, slots=True)
class Quit:
    """Leave the console."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A command that cannot be read; nothing happens but this sentence."""

    sentence: str


CardAction = Approve | Edit | Decline | Answer | Done | Dismiss
Action = Blank | Say | CardAction | Cancel | Again | Ask | Help | Quit | Mistake

_NUMBER: Final = re.compile(r"#?([0-9]{1,9})")


def parse(line: str) -> Action:
    """Reads one line. Never raises."""
    if not line.strip():
        return Blank()
    if not line.startswith("/"):
        return Say(line.strip())
    word, rest = _split(line[1:])
    match word.casefold():
        case (
            "approve" | "remember" | "edit" | "answer" | "done" | "dismiss" | "cancel" | "again"
        ) as name:
            return _of_card(name, rest)
        case "decline":
            first, note = _split(rest)
            number = _number(first)
            return Decline(None, rest) if number is None else Decline(number, note)
        case "status" | "pending" | "task" | "rules" as name:
            return Ask(name, rest)
        case "usage" | "stop" | "help" | "quit" as name:
            return Mistake(f"/{name} stands alone.") if rest else _alone(name)
        case _:
            return Mistake(
                f"There is no command /{word}. /help lists them; to say this to the agent, begin "
                "the line with a space."
            )


def _of_card(name: str, rest: str) -> Action:
    number = _number(rest)
    if rest and number is None:
        return Mistake(f"/{name} takes the number of a card and nothing else, as in /{name} 1.")
    match name:
        case "approve":
            return Approve(number)
        case "remember":
            return Approve(number, remember=True)
        case "edit":
            return Edit(number)
        case "answer":
            return Answer(number)
        case "done":
            return Done(number)
        case "cancel":
            return Cancel(number)
        case "again":
            return Again(number)
        case _:
            return Dismiss(number)


def _alone(name: str) -> Action:
    match name:
        case "help":
            return Help()
        case "quit":
            return Quit()
        case _:
            return Ask(name)


def _split(text: str) -> tuple[str, str]:
    """The first word and the rest."""
    found = re.match(r"\S*", text)
    word = found[0] if found else ""
    return word, text[len(word) :].strip()


def _number(text: str) -> int | None:
    found = _NUMBER.fullmatch(text)
    return int(found[1]) if found else None
