"""What Slack would turn into a ping or a link in the text of a message.

Slack reads `<...>` tokens in the top-level text, in mrkdwn objects, in attachments and in markdown
blocks; once. Escaped text (`&lt;!here&gt;`) is not read again, and plain_text objects and the text
elements of rich_text are never read. That is what a test of hostile text has to look at.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(r"<([@#!][^<>]+|[A-Za-z][A-Za-z0-9+.-]*:[^<>]+)>")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_MARKDOWN_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?[A-Za-z][A-Za-z0-9+.-]*:[^)]*\)")
_NAMES = re.compile(r"(?<![\w<!@])@(channel|here|everyone)\b")


@dataclass(frozen=True)
class Ping:
    """One token of a posted message that Slack acts on."""

    kind: str
    """broadcast, user, usergroup, channel, link, or special (dates and the like)."""
    token: str
    channel: str
    ts: str
    pointer: str
    """Where it stands in the message, as a JSON pointer."""


def _kind(token: str) -> str:
    inner = token[1:]
    if inner.startswith("@"):
        return "user"
    if inner.startswith("#"):
        return "channel"
    if inner.startswith("!subteam^"):
        return "usergroup"
    if re.match(r"!(channel|here|everyone)\b", inner):
        return "broadcast"
    return "special" if inner.startswith("!") else "link"


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(text):
        yield _kind(match.group(0)), match.group(0)


def _markdown_tokens(text: str) -> Iterator[tuple[str, str]]:
    yield from _tokens(text)  # code does not protect against these: measured for `<!here>`
    for match in _MARKDOWN_LINK.finditer(_CODE.sub(" ", text)):
        yield "link", match.group(0)


def _in_rich_text(element: dict[str, Any]) -> tuple[str, str] | None:
    match element.get("type"):
        case "user":
            return "user", f"<@{element.get('user_id')}>"
        case "channel":
            return "channel", f"<#{element.get('channel_id')}>"
        case "usergroup":
            return "usergroup", f"<!subteam^{element.get('usergroup_id')}>"
        case "broadcast":
            return "broadcast", f"<!{element.get('range')}>"
        case "date" if "url" in element:
            return "link", f"<{element['url']}|{element.get('fallback', '')}>"
        case "link":
            return "link", f"<{element.get('url')}|{element.get('text', '')}>"
        case _:
            return None


def _in_value(value: Any, at: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _in_value(inner, f"{at}/{index}")
    if not isinstance(value, dict):
        return
    kind, text = value.get("type"), value.get("text")
    if isinstance(text, str) and kind == "mrkdwn":
        yield from ((k, token, f"{at}/text") for k, token in _tokens(text))
    elif isinstance(text, str) and kind == "markdown":
        yield from ((k, token, f"{at}/text") for k, token in _markdown_tokens(text))
    elif found := _in_rich_text(value):
        yield (*found, at)
    for key, inner in value.items():
        yield from _in_value(inner, f"{at}/{key}")


def _in_attachment(attachment: dict[str, Any], at: str) -> Iterator[tuple[str, str, str]]:
    for key in ("text", "pretext", "title", "fallback", "footer", "author_name"):
        text = attachment.get(key)
        if isinstance(text, str):
            yield from ((k, token, f"{at}/{key}") for k, token in _tokens(text))
    for index, field in enumerate(attachment.get("fields") or []):
        for key in ("title", "value"):
            text = str(field.get(key, ""))
            yield from ((k, token, f"{at}/fields/{index}/{key}") for k, token in _tokens(text))
    yield from _in_value(attachment.get("blocks"), f"{at}/blocks")


def pings_in(message: dict[str, Any], channel: str, names_linked: bool = False) -> list[Ping]:
    """Every ping and link of a message; `names_linked` says that bare @here counts as well."""
    text = str(message.get("text") or "")
    found = [(kind, token, "/text") for kind, token in _tokens(text)]
    if names_linked:
        found += [("broadcast", match.group(0), "/text") for match in _NAMES.finditer(text)]
    markdown = str(message.get("markdown_text") or "")
    found += [(kind, token, "/markdown_text") for kind, token in _markdown_tokens(markdown)]
    found += _in_value(message.get("blocks"), "/blocks")
    for index, attachment in enumerate(message.get("attachments") or []):
        found += _in_attachment(attachment, f"/attachments/{index}")
    return [Ping(kind, token, channel, str(message.get("ts", "")), at) for kind, token, at in found]
