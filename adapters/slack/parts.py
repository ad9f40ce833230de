"""A long text of the model in parts that each fit one message and are Markdown by themselves.

It is cut between its blocks where that is possible; else a list between its items, a table between
its rows (each part has the header), a fence into fences, a paragraph after a line or a word."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from markdown_it.token import Token

from adapters.slack import limits
from adapters.slack.text import parse, sections

_MARK: Final = re.compile(r" *(?:[-+*]|[0-9]{1,9}[.)])(?: {1,4}|\t|(?=\n))")
_QUOTE: Final = re.compile(r" {0,3}> ?")


def split(markdown: str) -> list[str]:
    """Nothing is left out, and without lists, tables, fences or quotes to be cut the parts joined
    are the text."""
    source = re.sub("\r\n?", "\n", markdown)
    if _fits(source):
        return [markdown]
    groups: list[list[str]] = []
    room = 0
    for chunk in _chunks(source):
        needed = _drawn_size(chunk)
        if groups and needed <= room:
            groups[-1].append(chunk)
        else:
            groups.append([chunk])
            room = limits.MESSAGE_TEXT
        room -= needed
    fitting = [part for group in groups for part in _packed(group)]
    return [_with_addresses(part, source) for part in fitting] or [markdown]


def _packed(group: list[str]) -> list[str]:
    """The chunks as one part; as two where they are drawn as more together than each by itself."""
    whole = "".join(group)
    if len(group) < 2 or _fits(whole):
        return [whole]
    return [*_packed(group[: len(group) // 2]), *_packed(group[len(group) // 2 :])]


def _fits(markdown: str) -> bool:
    """Whether it fits one message. What is long already is not drawn to find out: that is slow."""
    return len(markdown) <= limits.MESSAGE_TEXT and _drawn_size(markdown) <= limits.MESSAGE_TEXT


def _drawn_size(markdown: str) -> int:
    return sum(len(section) + 2 for section in sections(markdown))


def _chunks(source: str) -> Iterator[str]:
    """The source in order, in pieces that fit and may stand alone or one after another."""
    tokens = None if _fits(source) else parse(source)
    if tokens is None:
        yield from _halves(source)
        return
    lines = re.findall(r"[^\n]*\n|[^\n]+", source)
    tops = [
        index
        for index, token in enumerate(tokens)
        if token.level == 0 and token.map and token.nesting >= 0
    ]
    starts = [0, *((tokens[index].map or [0])[0] for index in tops[1:]), len(lines)]
    for index, (start, end) in zip(tops or [-1], pairwise(starts), strict=True):
        chunk = "".join(lines[start:end])
        if index < 0 or _fits(chunk):
            yield from _halves(chunk)
        else:
            yield from _cut(tokens[index:], lines[start:end], start)


def _cut(tokens: Sequence[Token], lines: list[str], start: int) -> Iterator[str]:
    """The lines from line `start` on, of which one block, the first of the tokens, is too long."""
    block = tokens[0]
    first, after = block.map or (start, start + len(lines))
    if first > start:
        yield "".join(lines[: first - start])
    lines, start, end = lines[first - start :], first, after - first
    match block.type:
        case "fence":
            yield from _fences(block)
        case "table_open":
            yield from _tables(lines[:2], lines[2:end])
        case "bullet_list_open" | "ordered_list_open":
            inside = tokens[: next(i for i, one in enumerate(tokens) if i and one.level == 0)]
            for item in inside:
                if item.type == "list_item_open" and item.level == 1 and item.map:
                    yield from _item("".join(lines[item.map[0] - start : item.map[1] - start]))
        case "blockquote_open":
            for piece in _chunks("".join(_QUOTE.sub("", line, count=1) for line in lines[:end])):
                yield re.sub("(?m)^", "> ", piece.rstrip("\n")) + "\n\n"
        case _:
            end = len(lines)
            yield from _halves("".join(lines))
    if rest := "".join(lines[end:]).strip("\n"):  # link definitions, which are drawn nowhere
        yield f"{rest}\n\n"


def _fences(fence: Token) -> Iterator[str]:
    def fenced(code: str) -> str:
        return f"{fence.markup}{fence.info}\n{code.rstrip(chr(10))}\n{fence.markup}\n\n"

    for piece in _halves(fence.content, lambda code: _fits(fenced(code))):
        yield fenced(piece)


def _tables(head: list[str], rows: list[str]) -> Iterator[str]:
    """The table as tables of fewer rows; a row that is too long by itself as its source."""
    table = "".join([*head, *rows])
    if _fits(table):
        yield f"{table.rstrip(chr(10))}\n\n"
    elif len(rows) < 2:
        yield from _halves("".join(rows or head))
        yield "\n\n"
    else:
        middle = len(rows) // 2
        yield from _tables(head, rows[:middle])
        yield from _tables(head, rows[middle:])


def _item(item: str) -> Iterator[str]:
    """An item of a list; of one that does not fit, only the first piece keeps its mark."""
    mark = _MARK.match(item)
    if mark is None or _fits(item):
        yield from _halves(item)
        return
    width = len(mark[0])
    inner = re.sub(f"(?m)^ {{1,{width}}}", "", " " * width + item[width:])
    for number, piece in enumerate(_chunks(inner)):
        text = piece.rstrip("\n")
        if number == 0:
            text = mark[0] + re.sub(r"\n(?=[^\n])", "\n" + " " * width, text)
        yield f"{text}\n\n"


def _halves(text: str, fits: Callable[[str], bool] = _fits) -> list[str]:
    """The text cut in two until every piece fits; joined they are the text again."""
    if len(text) < 2 or fits(text):
        return [text]
    middle = len(text) // 2
    cut = text.rfind("\n", 0, middle) + 1 or text.rfind(" ", middle // 2, middle) + 1 or middle
    return [*_halves(text[:cut], fits), *_halves(text[cut:], fits)]


_DEFINITION: Final = re.compile(r"(?m)^ {0,3}\[([^\[\]\n]{1,200})\]: +\S.*$")


def _with_addresses(part: str, source: str) -> str:
    """The part with the definitions of the links that it names and that stand in another."""
    defined = {found[1].casefold(): found[0].strip() for found in _DEFINITION.finditer(source)}
    lower = part.casefold()
    needed = [
        line
        for label, line in defined.items()
        if f"[{label}]" in lower and line.casefold() not in lower
    ]
    return "\n\n".join([part, *needed]) if needed else part
