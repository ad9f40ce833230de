"""Text for Slack: made inert, drawn from Markdown, and cut where nothing breaks.

Slack reads `<...>` tokens in mrkdwn once; with `&`, `<` and `>` escaped there are none but the
links written here. Every mrkdwn object is `verbatim`, so that Slack adds no links of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from adapters.slack import limits
from bot.address import oddity
from bot.text import visible

_FENCE: Final = "```"
_APART: Final = "\u200b"  # keeps backticks of a text from becoming a fence
_NESTING: Final = 40
_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING}).enable(
    ["table", "strikethrough"]
)
_TABLE_WIDTH: Final = 100  # characters that a window shows side by side
_PIPE: Final = re.compile(r"(?<!\\)\|")
_BEFORE_CELLS: Final = re.compile(r"^[ \t>]*\|?")
_BARE: Final = re.compile(r"https?://[^\s<>\"'`|\\]+")
_UNSAFE_IN_LINK: Final = re.compile(r"[\x00-\x20\x7f|<>\"`\\]")
_LINKING: Final = re.compile(r"\](?=[(\[:])|:(?=/)")  # a label before its target; an address
_ATOM: Final = re.compile(r"<[^<>\n]*>|&(?:amp|lt|gt);|.", re.DOTALL)


def escape(text: str) -> str:
    """The text, or a piece of one, as mrkdwn shows it literally: no mention, no link, no broadcast,
    nothing hidden."""
    return visible(text, part=True).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plain(text: str, size: int = limits.SECTION) -> dict[str, Any]:
    """A plain_text object of a text or a piece of one: Slack parses nothing in it. Cut visibly at
    `size`."""
    shown = shorten(visible(text, part=True), size)
    return {"type": "plain_text", "text": shown if shown.strip() else "—", "emoji": False}


def mrkdwn(text: str) -> dict[str, Any]:
    """A mrkdwn object of text that is escaped already."""
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def shorten(text: str, size: int) -> str:
    """The text, or its beginning with a mark that it was cut."""
    if len(text) <= size:
        return text
    mark = "… (cut)" if size > 30 else "…"
    return text[: size - len(mark)] + mark


def inert_markdown(text: str) -> str:
    """The text as Slack's own Markdown shows it without a mention, a broadcast, a link or an image
    (it reads `<...>` tokens there too, platforms/slack.md 2.4). What a longer text becomes begins
    with what its beginning became, if that was settled and no later word is its alphabet's first
    (bot.confusable); who appends looks."""
    split = _LINKING.sub(lambda found: found.group() + _APART, visible(text))
    return split.replace("<", "&lt;").replace(">", "&gt;")


# --- Markdown to mrkdwn


def sections(markdown: str) -> list[str]:
    """Markdown as mrkdwn, in parts that each fit one section; a fence cut in two is closed and
    opened again. HTML is text, an image is a link, a table is aligned preformatted text."""
    packed: list[str] = []
    for block in _blocks(markdown):
        for piece in _fitting(block, limits.SECTION):
            if packed and len(packed[-1]) + 2 + len(piece) <= limits.SECTION:
                packed[-1] += "\n\n" + piece
            else:
                packed.append(piece)
    return packed


def parse(markdown: str) -> list[Token] | None:
    """The tokens; None when the nesting is so deep that the parser would leave text out. A row of
    a table knows its line, since the parser leaves out cells that have no header."""
    tokens = _MARKDOWN.parse(markdown)
    deepest = max((token.level for token in _all(tokens)), default=0)
    lines = re.sub("\r\n?", "\n", markdown).split("\n")
    for token in tokens:
        if token.type == "tr_open" and token.map:
            token.meta["line"] = lines[token.map[0]]
    return None if deepest >= _NESTING - 1 else tokens


def _all(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or ())


def _blocks(markdown: str) -> list[str]:
    tokens = parse(visible(markdown))
    if tokens is None:
        return [_unfenced(escape(visible(markdown)))]
    drawn = (_block(node) for node in SyntaxTreeNode(tokens).children)
    return [block for block in drawn if block.strip()]


def _block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "paragraph":
            return _unfenced(_inline(node.children, frozenset()))
        case "heading":
            return _styled("*", _unfenced(_inline(node.children, frozenset("*"))))
        case "fence" | "code_block":
            return _preformatted(node.content)
        case "blockquote":
            return _prefixed("> ", "> ", "\n".join(_block(child) for child in node.children))
        case "bullet_list":
            return "\n".join(_item("• ", child) for child in node.children)
        case "ordered_list":
            first = int(node.attrs.get("start", 1))
            return "\n".join(
                _item(f"{number}. ", child) for number, child in enumerate(node.children, first)
            )
        case "table":
            return _preformatted(_table(node))
        case "hr":
            return "─" * 20
        case _:
            return _unfenced(_literal(node.content))


def _item(mark: str, node: SyntaxTreeNode) -> str:
    return _prefixed(mark, "    ", "\n".join(_block(child) for child in node.children))


def _prefixed(first: str, rest: str, text: str) -> str:
    """The lines with a prefix each, but for fences: those stay whole at the margin."""
    lines, fenced, prefix = [], False, first
    for line in text.split("\n"):
        fence = line == _FENCE
        if fence and prefix == first and not fenced:
            lines.append(first.rstrip())
        lines.append(line if fence or fenced else prefix + line)
        fenced ^= fence
        prefix = rest
    return "\n".join(lines)


def _preformatted(code: str) -> str:
    return f"{_FENCE}\n{_unfenced(escape(code.rstrip()))}\n{_FENCE}"


def _unfenced(text: str) -> str:
    return re.sub("`{3,}", lambda run: _APART.join(run.group()), text)


def _table(node: SyntaxTreeNode) -> str:
    """Columns under each other, or, where they would be too wide to read, the cells of each row
    below each other under the names of their columns."""
    rows = [_cells(row) for part in node.children for row in part.children]
    columns = max(map(len, rows))
    rows = [[*row, *[""] * (columns - len(row))] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    head, *body = rows
    if sum(widths) + 3 * (columns - 1) > _TABLE_WIDTH:
        named = [zip(head, row, strict=True) for row in body or [[""] * columns]]
        return "\n\n".join(
            "\n".join(": ".join(filter(None, pair)) for pair in row if any(pair)) for row in named
        )
    lines = [" | ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(lines)


def _cells(row: SyntaxTreeNode) -> list[str]:
    """What is read in the cells of a row, those without a header too."""
    cells = [_flat(cell) for cell in row.children]
    written = _PIPE.split(_BEFORE_CELLS.sub("", row.meta.get("line", "")).rstrip())
    written = written[:-1] if len(written) > 1 and not written[-1].strip() else written
    return cells + [
        _flat(SyntaxTreeNode(_MARKDOWN.parseInline(cell.strip().replace("\\|", "|"))))
        for cell in written[len(cells) :]
    ]


def _flat(node: SyntaxTreeNode) -> str:
    """What is read of inline nodes, without any markup; links keep their address."""
    match node.type:
        case "softbreak" | "hardbreak":
            return " "
        case "image":
            return f"{node.content} ({node.attrs.get('src', '')})"
        case _:
            pass
    words = "".join(map(_flat, node.children)) if node.children else node.content
    href = str(node.attrs.get("href", "")) if node.type == "link" else ""
    return f"{words} ({href})" if href and href != words else words


def _inline(nodes: Iterable[SyntaxTreeNode], styles: frozenset[str]) -> str:
    return "".join(_drawn(node, styles) for node in nodes)


def _drawn(node: SyntaxTreeNode, styles: frozenset[str]) -> str:
    match node.type:
        case "inline":
            return _inline(node.children, styles)
        case "softbreak" | "hardbreak":
            return "\n"
        case "code_inline":
            code = escape(node.content)
            return code if "`" in code or not code.strip() else f"`{code}`"
        case "strong" | "em" | "s":
            mark = {"strong": "*", "em": "_", "s": "~"}[node.type]
            inner = _inline(node.children, styles | {mark})
            return inner if mark in styles else _styled(mark, inner)
        case "link":
            label = "".join(map(_flat, node.children))
            return link(str(node.attrs.get("href", "")), label)
        case "image":
            return link(str(node.attrs.get("src", "")), node.content or "image")
        case _:
            return _literal(node.content)


def _styled(mark: str, text: str) -> str:
    return "\n".join(f"{mark}{line}{mark}" if line.strip() else line for line in text.split("\n"))


def _literal(text: str) -> str:
    """Literal text in which a bare http or https address is a link that shows itself."""
    drawn, end = "", 0
    for found in _BARE.finditer(text):
        address = found.group().rstrip(".,;:!?*_~]}")
        if "(" not in address:
            address = address.rstrip(").,;:!?")
        drawn += escape(text[end : found.start()]) + link(address, address)
        end = found.start() + len(address)
    return drawn + escape(text[end:])


def link(address: str, label: str) -> str:
    """A link to an http or https address whose label cannot hide the host it leads to; for every
    other address, literal text."""
    label = " ".join(label.split())
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    target = _UNSAFE_IN_LINK.sub(lambda found: f"%{ord(found.group()):02X}", address)
    words = escape(label)
    token = f"<{escape(target)}|{words}>" if label else f"<{escape(target)}>"
    # No host has a +, but the escape of a letter that imitates another has: no link leads there.
    openable = host and "+" not in host and parts.scheme in ("http", "https")
    if not openable or len(token) > limits.LINK:
        return escape(address) if label in ("", address) else f"{words} ({escape(address)})"
    if (odd := oddity(host)) is not None:
        return f"{token} (⚠️ {escape(host)}: {escape(odd)})"
    honest = label in ("", address, host, f"{parts.scheme}://{host}") and "@" not in parts.netloc
    return token if honest else f"{token} ({escape(host)})"


# --- Cutting


def _fitting(text: str, size: int) -> list[str]:
    """mrkdwn in parts of at most `size`, never cut inside an entity, a link or a fence."""
    if len(text) <= size:
        return [text]
    closing = len(_FENCE) + 1
    parts: list[str] = []
    lines: list[str] = []
    used, fenced = 0, False
    for line in text.split("\n"):
        for piece in _line_pieces(line, size - 2 * closing):
            if lines and used + len(piece) + 1 + closing > size:
                parts.append("\n".join([*lines, _FENCE] if fenced else lines))
                lines = [_FENCE] if fenced else []
                used = closing if fenced else 0
            lines.append(piece)
            used += len(piece) + 1
        fenced ^= line == _FENCE
    return [part for part in [*parts, "\n".join(lines)] if part.strip()]


def _line_pieces(line: str, size: int) -> list[str]:
    if len(line) <= size:
        return [line]
    pieces = [""]
    for atom in _ATOM.findall(line):
        if len(pieces[-1]) + len(atom) > size:
            pieces.append("")
        pieces[-1] += atom
    return pieces
