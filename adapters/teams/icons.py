"""The icons of the app in Teams, drawn here: two rings that hold each other."""

from __future__ import annotations

import struct
import zlib
from math import hypot
from typing import Final

ACCENT: Final = "#3B3F9E"
COLOR_SIZE: Final = 192
OUTLINE_SIZE: Final = 32

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_RGBA: Final = 6
_WHITE: Final = (255, 255, 255)

# Of a ring, by its radius: half the distance of the two, half its stroke, and what is left free
# around the one that passes over the other.
_APART, _STROKE, _GAP = 0.6, 0.17, 0.16


def color() -> bytes:
    """The icon in colour, a PNG: white rings within the middle half, as Teams cuts corners off."""
    ground = tuple(bytes.fromhex(ACCENT.removeprefix("#")))
    rows = []
    for row in _drawn(COLOR_SIZE, COLOR_SIZE / 4):
        rows.append([(*_mixed(ground, cover), 255) for cover in row])
    return _png(rows)


def outline() -> bytes:
    """The icon in white alone on nothing, a PNG."""
    drawn = _drawn(OUTLINE_SIZE, OUTLINE_SIZE / 2 - 1)
    return _png([[(*_WHITE, round(255 * cover)) for cover in row] for row in drawn])


def _mixed(ground: tuple[int, ...], cover: float) -> tuple[int, ...]:
    return tuple(
        round(under + (over - under) * cover) for under, over in zip(ground, _WHITE, strict=True)
    )


def _drawn(size: int, half_width: float) -> list[list[float]]:
    """How far each pixel is covered, 0 to 1, row by row."""
    radius = half_width / (1 + _APART + _STROKE)
    middle = (size - 1) / 2
    return [
        [_cover((x - middle) / radius, (y - middle) / radius, radius) for x in range(size)]
        for y in range(size)
    ]


def _cover(x: float, y: float, pixel: float) -> float:
    """`x` and `y` by the radius of a ring, of which a pixel is one `pixel`th."""
    left = abs(hypot(x + _APART, y) - 1) - _STROKE
    right = abs(hypot(x - _APART, y) - 1) - _STROKE
    above, below = (left, right) if y < 0 else (right, left)  # each passes over the other once
    shown = min(above, max(below, _GAP - above))
    return min(1.0, max(0.0, 0.5 - shown * pixel))


def _png(rows: list[list[tuple[int, ...]]]) -> bytes:
    height, width = len(rows), len(rows[0])
    header = struct.pack(">IIBBBBB", width, height, 8, _RGBA, 0, 0, 0)
    lines = b"".join(b"\0" + bytes(part for pixel in row for part in pixel) for row in rows)
    return b"".join(
        (
            _SIGNATURE,
            _chunk(b"IHDR", header),
            _chunk(b"IDAT", zlib.compress(lines, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)
