"""Text for Teams: made inert, and the model's Markdown drawn as the HTML that Teams shows.

Messages go out as `textFormat: xml`: everything of the text is escaped, and the only tags are those
that are written here. What the clients make of Markdown differs among them and is not described."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from adapters.teams import limits
from bot.parts import Splitter
from bot.text import visible

_NESTING: Final = 40
_APART: Final = "\u200b"  # keeps a text from becoming a mention of a card
_MENTION: Final = re.compile(r"<(?=/?at\b)", re.IGNORECASE)
_MARKED: Final = re.compile(r"([\\`*_{}\[\]()#+!|~<>-])")


class _Renderer(RendererHTML):
    """Headings as bold lines, images and odd links as text. Of the attributes only an address is
    the text's own; the number that a list begins with and the side of a column are the parser's."""

    def heading_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return "<p><strong>"

    def heading_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return "</strong></p>\n"

    def link_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        address = str(tokens[idx].attrGet("href") or "")
        tokens[_end(tokens, idx)].meta = {"after": _shown_beside(address, _label(tokens, idx))}
        return f'<a href="{html.escape(address)}">' if _opens(address) else ""

    def link_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        begin = next(one for one in reversed(tokens[:idx]) if one.type == "link_open")
        close = "</a>" if _opens(str(begin.attrGet("href") or "")) else ""
        return close + str(tokens[idx].meta.get("after", ""))

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        source = str(tokens[idx].attrGet("src") or "")
        return html.escape(f"{tokens[idx].content or 'image'} ({source})")

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<pre>{html.escape(tokens[idx].content.rstrip())}</pre>\n"

    def code_block(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return self.fence(tokens, idx, options, env)

    def softbreak(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return "<br>"

    def hardbreak(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return "<br>"


_MARKDOWN: Final = MarkdownIt(
    "commonmark", {"html": False, "maxNesting": _NESTING}, renderer_cls=_Renderer
).enable(["table", "strikethrough"])
_MARKDOWN.validateLink = lambda url: True  # type: ignore[method-assign]  # `_opens` judges them


def drawn(markdown: str) -> str:
    """Markdown as Teams' HTML: nothing in it mentions, hides, loads or leads astray."""
    shown = visible(markdown)
    tokens = parse(shown)
    if tokens is None:  # nested so deep that the parser would leave text out
        return html.escape(shown).replace("\n", "<br>")
    rendered: str = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return rendered.strip()


def parse(markdown: str) -> list[Token] | None:
    """The tokens; None when the nesting is so deep that the parser would leave text out."""
    tokens = _MARKDOWN.parse(markdown)
    deepest = max((token.level for token in tokens), default=0)
    inner = max((one.level for token in tokens for one in token.children or ()), default=0)
    return None if max(deepest, inner) >= _NESTING - 1 else tokens


def _size(markdown: str) -> int:
    return utf16(drawn(markdown))


split = Splitter(parse, _size, limits.TEXT_BYTES).split


def utf16(text: str) -> int:
    """The bytes of a text as Teams counts them."""
    return len(text.encode("utf-16-le", "replace"))


def plain(text: str, size: int | None = None) -> str:
    """A text that was made visible, or a piece of one, for a place of a card where no markup is
    read; cut visibly at `size`."""
    shown = _MENTION.sub(f"<{_APART}", visible(text, part=True))
    return shown if size is None else shorten(shown, size)


def whole(text: str, size: int | None = None) -> str:
    """The same of a whole text that nobody has made visible yet."""
    return plain(visible(text), size)


def escaped(text: str, size: int) -> str:
    """The same for a place where some clients read Markdown: the title of a choice."""
    return _MARKED.sub(r"\\\1", plain(" ".join(text.split()), size))


def shorten(text: str, size: int) -> str:
    """The text, or its beginning with a mark that it was cut."""
    if len(text) <= size:
        return text
    mark = "… (cut)" if size > 30 else "…"
    return text[: size - len(mark)] + mark


def _opens(address: str) -> bool:
    """Whether a link may lead there."""
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host) and '"' not in address


def _shown_beside(address: str, label: str) -> str:
    """The host of a link whose label is something else, so that none hides where it leads; the
    whole address of what is no link."""
    if not _opens(address):
        return "" if address == label else html.escape(f" ({address})")
    parts = urlsplit(address)
    host = parts.hostname or ""
    honest = label in (address, host, f"{parts.scheme}://{host}") and "@" not in parts.netloc
    return "" if honest else html.escape(f" ({host})")


def _label(tokens: Sequence[Token], begin: int) -> str:
    return "".join(one.content for one in tokens[begin + 1 : _end(tokens, begin)]).strip()


def _end(tokens: Sequence[Token], begin: int) -> int:
    return next(i for i in range(begin, len(tokens)) if tokens[i].type == "link_close")


def message(markdown: str) -> dict[str, Any]:
    """A text message."""
    return {"type": "message", "textFormat": "xml", "text": drawn(markdown) or "(empty)"}
