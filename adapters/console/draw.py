"""Cards, replies and sentences as a terminal shows them.

Whatever people, models or tools wrote goes through `safe` and stands in a frame, behind a bar or
indented: what begins at the left edge is ours, so that no text can pass for a card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.panel import Panel
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from adapters.console.answer import question
from adapters.console.text import Exact, safe
from bot import address
from bot.ask_user import render_lines
from bot.card import PAGES_BUDGET, Card, CardState, TaskCard, warnings
from bot.excerpt import excerpt
from bot.field import Choice, Field, FieldType, Value
from bot.question import Kind
from bot.value import FORMAT_SENTENCES

_COLOURS: Final = {Kind.APPROVAL: "yellow", Kind.FORM: "cyan", Kind.PAGE: "magenta"}
_MARKS: Final = {
    CardState.OPEN: ("?", "yellow"),
    CardState.DONE: ("✓", "green"),
    CardState.REFUSED: ("✗", "red"),
    CardState.CLOSED: ("–", "bright_black"),
}
_HERE: Final = "console:local/"  # what every key of a person at this console begins with


def card(card: Card, number: int, thread: str = "") -> RenderableType:
    """A card under the number that people type: a panel while it is open, then one line.
    `thread` is named when it is not the one that is shown."""
    return _panel(card, number, thread) if card.open else _settled(card, number)


def task(task: TaskCard, number: int, thread: str = "") -> RenderableType:
    """A background call in a line or two: it is printed again whenever it changes."""
    mark, colour = ("…", "yellow") if task.open else _MARKS[task.state]
    line = Text.assemble((safe(task.title), "bold"), f" ({safe(task.status)}) ", safe(task.message))
    if thread:
        line.append(f" in thread {safe(thread)}")
    if task.open:
        line.append(f"  /cancel {number} stops it", style="bright_black")
    return _beside(Text(f"{mark} ", style=colour), line)


def _settled(card: Card, number: int) -> RenderableType:
    mark, colour = _MARKS[card.state]
    line = Text.assemble((safe(card.title), "bold"), " ", safe(card.outcome))
    if card.again:
        line.append(f"  /again {number} asks again", style="bright_black")
    return _beside(Text(f"{mark} #{number} ", style=colour), line)


def _panel(card: Card, number: int, thread: str) -> RenderableType:
    kind = "question" if card.choosing else card.kind.value
    title = f"#{number} {kind}" + (f" in thread {safe(thread)}" if thread else "")
    body = [Text(safe(card.title), style="bold"), *_content(card), _deciders(card)]
    return Panel(
        Group(*_spaced(body), Text(), _hints(card, number)),
        title=Text(title),
        title_align="left",
        border_style=_COLOURS[card.kind],
    )


def _content(card: Card) -> Iterator[RenderableType]:
    yield _rows([("tool", card.tool), ("agent", card.agent)])
    if card.message and not card.choosing:  # an ask_user message repeats its questions
        yield Text(safe(card.message, lines=True))
    if card.arguments:
        yield Group(Text("Arguments"), *(Padding(one, (0, 0, 0, 2)) for one in _arguments(card)))
    elif card.kind is Kind.APPROVAL and card.complete:
        yield Text("It takes no arguments.")
    if card.url:
        yield _page(card.url)
    for position, one in enumerate(card.fields, 1):
        mark = f"{position}. " if len(card.fields) > 1 else ""
        yield field(one, mark, choosing=card.choosing)
    for notice in card.notices:
        yield Text(safe(notice), style="red")
    for warning in warnings(card):
        yield Text(warning, style="red")


def _arguments(card: Card) -> Iterator[RenderableType]:
    """All of them; of more than anybody reads on a terminal, their beginnings and ends."""
    size = sum(len(one.name) + len(one.value) for one in card.arguments)
    if size <= PAGES_BUDGET:
        yield _rows([(one.name, one.value) for one in card.arguments])
        return
    for one in card.arguments:
        part = excerpt(one.value, PAGES_BUDGET // len(card.arguments))
        yield _rows([(one.name, part.head)])
        if part.left_out:
            where = f"; {card.file} has them" if card.file else ""
            yield Text(f"… {part.left_out:,} characters between{where} …", style="red")
            yield _rows([(one.name, part.tail)])


def _rows(rows: Iterable[tuple[str, str]]) -> RenderableType:
    """Names and their values, every character of them."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, value in rows:
        shown = Text(safe(value, lines=True, exact=True))
        grid.add_row(Exact(Text(safe(name, exact=True), style="bright_black")), Exact(shown))
    return grid


def _page(url: str) -> RenderableType:
    """The whole address with its host marked, in colour and in words; nothing opens it."""
    read = address.read(url)
    whole = Text.assemble(
        safe(read.before), (safe(read.host, exact=True), "bold reverse"), safe(read.after)
    )
    parts: list[RenderableType] = [Exact(whole)]
    if read.host:
        parts.append(_rows([("host", read.host)]))
    parts += [Text(safe(warning), style="red") for warning in read.warnings]
    return Group(*parts)


def _deciders(card: Card) -> RenderableType:
    if not card.deciders:
        return Text("Nobody may decide this: no approver is configured.", style="red")
    return _rows([("may decide", ", ".join(key.removeprefix(_HERE) for key in card.deciders))])


def _hints(card: Card, number: int) -> RenderableType:
    """What can be typed."""
    hints = {}
    match card.kind:
        case Kind.APPROVAL:
            if card.complete:
                hints[f"/approve {number}"] = "let it run"
            if card.complete and card.editable:
                hints[f"/edit {number}"] = "let it run with other arguments"
            if card.complete and card.remember is not None:
                hints[f"/remember {number}"] = card.remember
        case Kind.FORM:
            hints[f"/answer {number}"] = "answer it here"
        case Kind.PAGE:
            hints[f"/done {number}"] = "you have finished there"
        case unreachable:
            assert_never(unreachable)
    hints[f"/decline {number} [note]"] = "say no"
    if card.kind is not Kind.APPROVAL:
        hints[f"/dismiss {number}"] = "close it without an answer"
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    for line, meaning in hints.items():
        grid.add_row(Text(line, style="bold"), Text(safe(meaning), style="bright_black"))
    return grid


def typed(card: Card, number: int) -> str:
    """What to type for this card, for somebody who typed what does not fit it."""
    match card.kind:
        case Kind.APPROVAL:
            return f"#{number} asks for an approval: type /approve {number} or /decline {number}."
        case Kind.FORM:
            return f"#{number} is a form: type /answer {number} or /decline {number}."
        case Kind.PAGE:
            return f"#{number} is a page to visit: type /done {number} or /decline {number}."
        case unreachable:
            assert_never(unreachable)


# --- Fields


def field(field: Field, mark: str = "", *, choosing: bool = False) -> RenderableType:
    """One field: what it asks for, its rules and its choices. `mark` goes before its name."""
    if choosing:  # as the console's ask_user prompt
        asked, *offered, other = map(safe, render_lines(question(field)))
        options = [_option(*line.split(" ", 1)) for line in offered]
        return _beside(Text(mark), Group(Text(asked), *options, Text(other)))
    body: list[RenderableType] = [Text(safe(field.label), style="bold")]
    if field.description:
        body.append(Text(safe(field.description, lines=True)))
    labels = [option.label for option in question(field).options]
    for number, (label, choice) in enumerate(zip(labels, field.choices, strict=True), 1):
        said = f"{label}: {choice.description}" if choice.description else label
        body.append(_option(f"{number}.", safe(said)))
    body.append(Text(safe(rules(field)), style="bright_black"))
    return _beside(Text(mark), Group(*body))


def _option(number: str, said: str) -> RenderableType:
    """Further in than any text around it, so that none can pass for an option."""
    return _beside(Text(f"  {number} "), Text(said))


def rules(field: Field) -> str:
    """What a field takes, in one sentence."""
    parts = [_takes(field)]
    if field.pattern is not None:
        parts.append(f"matching “{field.pattern}”")
    for low, high, unit in (
        (field.min_length, field.max_length, " characters"),
        (field.minimum, field.maximum, ""),
        (field.min_items, field.max_items, " choices"),
    ):
        if low is not None:
            parts.append(f"at least {low}{unit}")
        if high is not None:
            parts.append(f"at most {high}{unit}")
    if field.allow_other:
        parts.append("or your own answer")
    if field.multiline:
        parts.append("on several lines if you like; an empty line ends it")
    sentence = ", ".join(parts)
    if field.default is not None:
        return f"{sentence}. Left empty: {_default(field, field.default)}."
    return f"{sentence}." if field.required else f"{sentence}. May be left empty."


def _takes(field: Field) -> str:
    match field.type:
        case FieldType.TEXT:
            return "Text" if field.format is None else FORMAT_SENTENCES[field.format].capitalize()
        case FieldType.INTEGER:
            return "A whole number"
        case FieldType.NUMBER:
            return "A number"
        case FieldType.BOOLEAN:
            return "y or n"
        case FieldType.CHOICE:
            return "The number of one option"
        case FieldType.CHOICES:
            return "The numbers of options, separated by commas"
        case unreachable:
            assert_never(unreachable)


def _default(field: Field, default: Value | tuple[Value, ...]) -> str:
    values = default if isinstance(default, tuple) else (default,)
    return ", ".join(_titled(field.choices, value) for value in values)


def _titled(choices: Iterable[Choice], value: Value) -> str:
    for choice in choices:
        if choice.value == value and isinstance(choice.value, bool) == isinstance(value, bool):
            return choice.title
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


# --- Replies and sentences


def reply(text: str, thread: str = "") -> RenderableType:
    """What the agent says: its Markdown, styled where it is plain to see, behind a bar that no
    card has. `thread` is named when it is not the one that is shown."""
    named = [Text(f"in thread {safe(thread)}", style="bright_black")] if thread else []
    return _Behind("▌ ", Group(*named, *_markdown(text)))


def sentence(text: str) -> RenderableType:
    """Something of ours for the person, indented; it may quote what others wrote."""
    return _Behind("  ", Group(*_markdown(text)))


_FENCE: Final = re.compile(r"\s*(```|~~~)")
_HEADING: Final = re.compile(r"#{1,6} +(?=\S)")
_SPAN: Final = re.compile(r"(`[^`\n]+`)|(?<![\w*])\*\*(?=\S)([^*\n]+)(?<=\S)\*\*(?![\w*])")


def _markdown(text: str) -> Iterator[Text]:
    """Line by line. Only `**` around words and the `#` of a heading go; the rest stays as it was
    written, so that nothing the agent said can get lost in a parser."""
    fenced = False
    for line in safe(text.strip("\n"), lines=True).split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
            yield Text(line, style="bright_black")
        elif fenced:
            yield Text(line, style="cyan", overflow="fold")
        elif heading := _HEADING.match(line):
            yield Text(line[heading.end() :], style="bold underline")
        else:
            yield _spans(line)


def _spans(line: str) -> Text:
    drawn = Text()
    at = 0
    for found in _SPAN.finditer(line):
        drawn.append(line[at : found.start()])
        code, bold = found.groups()
        drawn.append(code or bold, style="cyan" if code else "bold")
        at = found.end()
    return drawn.append(line[at:])


class _Behind:
    """Puts a mark before every line."""

    def __init__(self, mark: str, body: RenderableType) -> None:
        self.mark = mark
        self.body = body

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrower = options.update(width=max(2, options.max_width - len(self.mark)))
        for line in console.render_lines(self.body, narrower, pad=False):
            yield Segment(self.mark, Style(color="blue"))
            yield from line
            yield Segment.line()


def _beside(mark: Text, body: RenderableType) -> RenderableType:
    """A mark, and what belongs to it beside it, its further lines indented as far."""
    grid = Table.grid()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(mark, body)
    return grid


def _spaced(parts: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """The parts with an empty line between them."""
    for position, part in enumerate(parts):
        if position:
            yield Text()
        yield part
