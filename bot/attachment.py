"""Files that people attach: what is taken, what one is by its content, and what the model reads.

A name and a type are claims of the sender; only the content says what a file is (row B86)."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from typing import Final

from bot.results import IMAGE_TYPES, IMAGES_LIMIT
from bot.surface import FileRef
from bot.transcript import Image, Piece, quote, shown_name
from storage.attachments import AttachmentRow, AttachmentState

FILES: Final = 10  # of one message
BYTES: Final = 20_000_000  # of one file
TEXT: Final = 50_000  # characters of all text files of one message that the model reads

PDF: Final = "application/pdf"
HTML: Final = "text/html"
TEXT_TYPE: Final = "text/plain"
UNKNOWN: Final = "application/octet-stream"

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
)
_CALLED: Final = {  # by content: as people call it
    "image/png": "a PNG image",
    "image/jpeg": "a JPEG image",
    "image/gif": "a GIF image",
    "image/webp": "a WebP image",
    PDF: "a PDF",
    HTML: "a web page",
    TEXT_TYPE: "text",
    UNKNOWN: "something else",
}


def mime_of(data: bytes) -> str:
    """What a file is: an image that models see, a PDF, a web page, UTF-8 text, or UNKNOWN."""
    for signature, mime_type in _SIGNATURES:
        if data.startswith(signature):
            return mime_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if b"\x00" in data:
        return UNKNOWN
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return UNKNOWN
    start = text[:1_000].lstrip().lower()
    return HTML if start.startswith(("<!doctype html", "<html")) else TEXT_TYPE


def text_of(data: bytes) -> str:
    """The text of a file that `mime_of` says is text."""
    return data.decode("utf-8-sig")


def unlike(name: str, claimed: str, mime_type: str) -> str | None:
    """Why a file is not what its sender says, as a sentence; None: nothing speaks against it.

    Of a claim only images and PDFs are checked: what is not one of these is shown as the text
    that it is, or not at all."""
    guessed = mimetypes.guess_type(name)[0] or claimed
    for claim in (claimed, guessed):
        family = _family(claim)
        if family and family != _family(mime_type):
            return (
                f"{name} was not read: it is said to be {_CALLED.get(claim, 'an image')}, "
                f"but what is in it is {_CALLED[mime_type]}."
            )
    return None


def _family(mime_type: str) -> str:
    if mime_type in IMAGE_TYPES:
        return "image"
    return mime_type if mime_type == PDF else ""


def sorted_out(
    files: Sequence[FileRef], *, chat_id: str, message_id: int, key: str, now: float
) -> list[AttachmentRow]:
    """The rows of a message's files, those refused at sight among them."""
    rows = [
        _row(file, chat_id, message_id, f"{key}.{number:02}", now)
        for number, file in enumerate(files[:FILES])
    ]
    more = len(files) - FILES
    if more > 0:
        name = "1 more file" if more == 1 else f"{more} more files"
        note = f"Of one message only {FILES} files are read, so that {name} were left out."
        rest = FileRef(name, UNKNOWN, 0, {})
        rows.append(_row(rest, chat_id, message_id, f"{key}.{FILES:02}", now, note))
    return rows


def _row(
    file: FileRef, chat_id: str, message_id: int, row_id: str, now: float, note: str | None = None
) -> AttachmentRow:
    name = shown_name(file.name) or "a file without a name"
    if file.size > BYTES:
        note = f"{name} was not read: it is larger than {BYTES // 1_000_000} MB."
    return AttachmentRow(
        id=row_id,
        chat_id=chat_id,
        message_id=message_id,
        reference=dict(file.reference),
        name=name,
        mime_type=shown_name(file.mime_type),
        size=max(0, file.size),
        state=AttachmentState.WAITING if note is None else AttachmentState.REFUSED,
        note=note,
        created_at=now,
    )


def kept(mime_type: str, data: bytes) -> bytes | None:
    """What of a file is kept until the model reads it: nothing of what it is not shown."""
    if mime_type in IMAGE_TYPES:
        return data if len(data) <= IMAGES_LIMIT else None
    if mime_type not in (TEXT_TYPE, HTML):
        return None
    return data if len(data) <= 4 * TEXT else data[: 4 * TEXT].decode("utf-8", "ignore").encode()


def pieces(rows: Sequence[AttachmentRow], *, sees_images: bool, room: int = TEXT) -> list[Piece]:
    """What the model reads of the settled files of one message. `room`: characters of text."""
    found, image_room = [], IMAGES_LIMIT
    for row in rows:
        told = {"attached file": row.name, "type": row.mime_type, "bytes": str(row.size)}
        image: Image | None = None
        if row.note is not None:
            told["note"] = row.note
        elif row.mime_type in IMAGE_TYPES and not sees_images:
            told["note"] = "You cannot see images: say so if it matters."
        elif row.mime_type in IMAGE_TYPES and row.data is not None and row.size <= image_room:
            image_room -= row.size
            told["note"] = "The image follows."
            image = Image(row.name, row.mime_type, row.data)
        elif row.mime_type in IMAGE_TYPES:
            told["note"] = "The image is too large to be shown to you."
        elif row.data is not None:
            text = text_of(row.data)
            told["content"] = text[:room]
            if len(text) > room:
                told["note"] = (
                    f"Cut: these are the first {room} of {len(text)} characters; the rest is not "
                    "shown to you."
                )
            room = max(0, room - len(text))
        else:
            told["note"] = "What is in it is not shown to you: only text and images are."
        found.append(Piece(quote(told), image))
    return found
