"""What a server's tool gave back, as the model reads it and as files for the thread. Pure."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

import mcp.types as t

from bot.mcp.elicitation import url_error, why_not_open
from bot.tool import RESULT_LIMIT
from bot.tool import Produced as File
from storage.database import canonical

FILE_LIMIT: Final = 10_000_000  # bytes of one file
FILES_LIMIT: Final = 20  # files of one result: each is posted to the thread

NO_CONTENT: Final = "(no content)"


@dataclass(frozen=True, slots=True)
class Produced:
    """What came of a call: `result` is text or a JSON value for the model; `failed` says that it
    tells what went wrong. The name of a file is ours; its type is the server's word, except that
    what it calls an image which models read does begin like one."""

    result: Any
    failed: bool = False
    files: tuple[File, ...] = ()


def done(result: t.CallToolResult) -> Produced:
    """A result for the model and for people. Never raises for what a server sends.

    Structured content goes before the text that only repeats it. Files are named in the text;
    links are text and nothing is fetched. What is left out or cut is said."""
    files = _Files()
    lines = [_line(block, files) for block in result.content]
    if result.structured_content is not None:
        spelled = _spelled(result.structured_content)
        if spelled is not None:
            texts = {
                index: block.text
                for index, block in enumerate(result.content)
                if isinstance(block, t.TextContent)
            }
            value, repeats = _unwrapped(json.loads(spelled), texts)
            more = _joined([line for index, line in enumerate(lines) if index not in repeats])
            return Produced(_structured(value, more), result.is_error, tuple(files.kept))
        lines.append("[The structured content is not plain JSON, so it is left out.]")
    text = _joined(lines)
    if not text.strip():
        text = "The call failed; the server did not say why." if result.is_error else NO_CONTENT
    return Produced(_cut(text), result.is_error, tuple(files.kept))


def ran_but(reason: str) -> Produced:
    """The failed result of a call whose tool ran, but whose output cannot be used: it breaks its
    own schema, cannot be read, or is too long. `reason` is a sentence."""
    return Produced(
        _cut(
            "The tool DID run, but what it returned cannot be used, so its result is lost: "
            f"{_joined([reason.strip()])}"
        ),
        failed=True,
    )


def rejected(code: int, message: str, *, server: str, data: object = None) -> Produced:
    """The failed result of a call that the server answered with an error.

    With the `data` of error -32042 it ends with the message and the address of each page that
    may be visited (row M18); leave the data away where pages are not accepted."""
    pages = url_error(data) if code == t.URL_ELICITATION_REQUIRED else []
    shown = [f"{page.message} {page.url}" for page in pages if not why_not_open(page.url)]
    if shown:
        what = "a page" if len(shown) == 1 else f"{len(shown)} pages"
        text = f"The server {server} wants a person to visit {what} first: {'; '.join(shown)}"
    elif message.strip():
        text = f"The server {server} refused the call: {message.strip()} (error {code})"
    else:
        text = f"The server {server} refused the call and did not say why (error {code})."
    return Produced(_cut(_joined([text])), failed=True)


# --- Text and structured content


def _line(block: t.ContentBlock, files: _Files) -> str:
    """What the text says of one block; its file, if it is one, goes to `files`."""
    match block:
        case t.TextContent():
            return block.text
        case t.ImageContent():
            return files.add("image", block.data, block.mime_type)
        case t.AudioContent():
            return files.add("audio", block.data, block.mime_type)
        case t.ResourceLink():
            return f"{block.name} <{block.uri}>"
        case t.EmbeddedResource():
            inside = block.resource
            if isinstance(inside, t.TextResourceContents):
                return f"<{inside.uri}>\n{inside.text}"
            return files.add("file", inside.blob, inside.mime_type or "", f" <{inside.uri}>")
        case _:
            assert_never(block)


def _spelled(value: Any) -> str | None:
    """The value as JSON that can be kept; None when there is none: nan, too deep, half of a
    surrogate pair."""
    try:
        spelled = canonical(value)
        spelled.encode()
    except (ValueError, TypeError, RecursionError):
        return None
    return spelled


def _unwrapped(value: Any, texts: Mapping[int, str]) -> tuple[Any, Set[int]]:
    """The value, and which of the texts only repeat it. Servers wrap what is no object as
    {"result": ...} and say in a text what is in it: then the wrapping is taken off."""
    values = [value]
    if isinstance(value, Mapping) and value.keys() == {"result"}:
        values.append(value["result"])
    for one in values:
        spelled = canonical(one)
        repeats = {index for index, text in texts.items() if _says(text, one, spelled)}
        if repeats:
            return one, repeats
        # A list may have a text for each of its items.
        if isinstance(one, list) and len(one) == len(texts):
            pairs = zip(texts.values(), one, strict=True)
            if all(_says(text, item, canonical(item)) for text, item in pairs):
                return one, texts.keys()
    return value, set()


def _says(text: str, value: Any, spelled: str) -> bool:
    if isinstance(value, str) and text == value:
        return True
    try:
        return canonical(json.loads(text)) == spelled
    except (ValueError, RecursionError):
        return False


def _structured(value: Any, more: str) -> Any:
    """The value by itself, or with what the text says beside it; as cut text when it is long."""
    whole = {"structured": value, "text": more} if more.strip() else value
    if len(canonical(whole)) <= RESULT_LIMIT:
        return whole
    spelled = value if isinstance(value, str) else canonical(value)
    return _cut(f"{more}\n{spelled}" if more.strip() else spelled)


def _joined(lines: Sequence[str]) -> str:
    """The lines as text that can be kept: no NUL, no half of a surrogate pair."""
    text = "\n".join(lines).replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _cut(text: str) -> str:
    if len(text) <= RESULT_LIMIT:
        return text
    return (
        f"{text[:RESULT_LIMIT]}\n[The server returned {len(text)} characters; "
        f"only the first {RESULT_LIMIT} are here.]"
    )


# --- Files


_MIME: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_UNKNOWN: Final = "application/octet-stream"
_IMAGES: Final = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}
_ENDINGS: Final = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/wav": ".wav",
    "audio/x-wav": ".wav",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/zip": ".zip",
    "application/gzip": ".gz",
    "text/csv": ".csv",
    "text/plain": ".txt",
}


@dataclass(slots=True)
class _Files:
    """The files of one result, numbered as they come, those left out too."""

    kept: list[File] = field(default_factory=list)
    seen: int = 0

    def add(self, kind: str, encoded: str, mime_type: str, origin: str = "") -> str:
        """Keeps a base64 file where it can be; gives its line in the text."""
        self.seen += 1
        label = f"{kind} {self.seen}"
        if len(self.kept) == FILES_LIMIT:
            return f"[{label} is left out: a result may have {FILES_LIMIT} files{origin}]"
        if len(encoded) // 4 * 3 - 2 > FILE_LIMIT:
            return f"[{label} is left out: it is over {_size(FILE_LIMIT)}{origin}]"
        try:
            data = base64.b64decode("".join(encoded.split()), validate=True)
        except (binascii.Error, ValueError):
            return f"[{label} is left out: its data cannot be read{origin}]"
        if len(data) > FILE_LIMIT:
            return f"[{label} is left out: it is over {_size(FILE_LIMIT)}{origin}]"
        found = _mime(mime_type, data)
        name = f"{kind}-{self.seen}{_ENDINGS.get(found, '.bin')}"
        self.kept.append(File(name, found, data))
        return f"[{label}: {found}, {_size(len(data))}{origin}]"


def _mime(told: str, data: bytes) -> str:
    """The kind of a file, in a form that is safe anywhere. Providers refuse a whole chat for one
    picture that is not what it is said to be, so pictures are known by how they begin."""
    for image, beginning in _IMAGES.items():
        if beginning.match(data):
            return image
    plain = told.partition(";")[0].strip().lower()
    return plain if _MIME.fullmatch(plain) and plain not in _IMAGES else _UNKNOWN


def _size(count: int) -> str:
    if count < 1_000:
        return "1 byte" if count == 1 else f"{count} bytes"
    if count < 1_000_000:
        return f"{round(count / 1_000)} kB"
    return f"{count / 1_000_000:.3g} MB"
