"""A long text of the model in parts that each fit one message and are Markdown by themselves.

It is cut between its blocks where that is possible; else a list between its items, a table between
its rows (each part has the header), a fence into fences, a paragraph after a line or a word."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from markdown_it.token import Token

_MARK: Final = re.compile(r" *(?:[-+*]|[0-9]{1,9}[.)])(?: {1,4}|\t|(?=\n))")
_QUOTE: Final = re.compile(r" {0,3}> ?")


@dataclass(frozen=True, slots=True)
class Splitter:
    """What a surface knows of its messages: how it reads Markdown (`parse`; None where it is shown
    as it is), what a text comes to when it is drawn (`size`), and the `most` a message takes."""

    parse: Callable[[str], list[Token] | None]
    size: Callable[[str], int]
    most: int

    def split(self, markdown: str) -> list[str]:
        """Nothing is left out, and without lists, tables, fences or quotes to be cut the parts
        joined are the text."""
        source = re.sub("\r\n?", "\n", markdown)
        if self._fits(source):
            return [markdown]
        groups: list[list[str]] = []
        room = 0
        for chunk in self._chunks(source):
            needed = self.size(chunk)
            if groups and needed <= room:
                groups[-1].append(chunk)
            else:
                groups.append([chunk])
                room = self.most
            room -= needed
        fitting = [part for group in groups for part in self._packed(group)]
        return [_with_addresses(part, source) for part in fitting] or [markdown]

    def _packed(self, group: list[str]) -> list[str]:
        """The chunks as one part; as two where they are drawn as more together than each alone."""
        whole = "".join(group)
        if len(group) < 2 or self._fits(whole):
            return [whole]
        return [*self._packed(group[: len(group) // 2]), *self._packed(group[len(group) // 2 :])]

    def _fits(self, markdown: str) -> bool:
        """Whether it fits one message. What is long already is not drawn to find out (slow)."""
        return len(markdown) <= self.most and self.size(markdown) <= self.most

    def _chunks(self, source: str) -> Iterator[str]:
        """The source in order, in pieces that fit and may stand alone or one after another."""
        tokens = None if self._fits(source) else self.parse(source)
        if tokens is None:
            yield from self._halves(source)
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
            if index < 0 or self._fits(chunk):
                yield from self._halves(chunk)
            else:
                yield from self._cut(tokens[index:], lines[start:end], start)

    def _cut(self, tokens: Sequence[Token], lines: list[str], start: int) -> Iterator[str]:
        """The lines from line `start` on, of which the first block of the tokens is too long."""
        block = tokens[0]
        first, after = block.map or (start, start + len(lines))
        if first > start:
            yield "".join(lines[: first - start])
        lines, start, end = lines[first - start :], first, after - first
        match block.type:
            case "fence":
                yield from self._fences(block)
            case "table_open":
                yield from self._tables(lines[:2], lines[2:end])
            case "bullet_list_open" | "ordered_list_open":
                inside = tokens[: next(i for i, one in enumerate(tokens) if i and one.level == 0)]
                for item in inside:
                    if item.type == "list_item_open" and item.level == 1 and item.map:
                        yield from self._item(
                            "".join(lines[item.map[0] - start : item.map[1] - start])
                        )
            case "blockquote_open":
                for piece in self._chunks(
                    "".join(_QUOTE.sub("", line, count=1) for line in lines[:end])
                ):
                    yield re.sub("(?m)^", "> ", piece.rstrip("\n")) + "\n\n"
            case _:
                end = len(lines)
                yield from self._halves("".join(lines))
        if rest := "".join(lines[end:]).strip("\n"):  # link definitions, which are drawn nowhere
            yield f"{rest}\n\n"

    def _fences(self, fence: Token) -> Iterator[str]:
        def fenced(code: str) -> str:
            return f"{fence.markup}{fence.info}\n{code.rstrip(chr(10))}\n{fence.markup}\n\n"

        for piece in self._halves(fence.content, lambda code: self._fits(fenced(code))):
            yield fenced(piece)

    def _tables(self, head: list[str], rows: list[str]) -> Iterator[str]:
        """The table as tables of fewer rows; a row that is too long by itself as its source."""
        table = "".join([*head, *rows])
        if self._fits(table):
            yield f"{table.rstrip(chr(10))}\n\n"
        elif len(rows) < 2:
            yield from self._halves("".join(rows or head))
            yield "\n\n"
        else:
            middle = len(rows) // 2
            yield from self._tables(head, rows[:middle])
            yield from self._tables(head, rows[middle:])

    def _item(self, item: str) -> Iterator[str]:
        """An item of a list; of one that does not fit, only the first piece keeps its mark."""
        mark = _MARK.match(item)
        if mark is None or self._fits(item):
            yield from self._halves(item)
            return
        width = len(mark[0])
        inner = re.sub(f"(?m)^ {{1,{width}}}", "", " " * width + item[width:])
        for number, piece in enumerate(self._chunks(inner)):
            text = piece.rstrip("\n")
            if number == 0:
                text = mark[0] + re.sub(r"\n(?=[^\n])", "\n" + " " * width, text)
            yield f"{text}\n\n"

    def _halves(self, text: str, fits: Callable[[str], bool] | None = None) -> list[str]:
        """The text cut in two until every piece fits; joined they are the text again."""
        fits = fits or self._fits
        if len(text) < 2 or fits(text):
            return [text]
        middle = len(text) // 2
        cut = text.rfind("\n", 0, middle) + 1 or text.rfind(" ", middle // 2, middle) + 1 or middle
        return [*self._halves(text[:cut], fits), *self._halves(text[cut:], fits)]


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
