"""The audit log as a file that an auditor can carry away, and its check without the program's data.

One JSON object a line, in the order of the chain. A check needs nothing but the file; what was cut
off at its end shows against the hash that the export printed, or in the next file."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from storage import audit
from storage.audit import AuditRow
from storage.database import Database

_FIELDS = frozenset(AuditRow.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found: how many rows are good, the hash of the last, and the first fault."""

    rows: int
    head: str
    fault: str | None


def line_of(row: AuditRow) -> str:
    """A row as a line of the file, without its line break: ASCII, so that nothing in it acts or
    hides where it is read."""
    return json.dumps(asdict(row), sort_keys=True, separators=(",", ":"), allow_nan=False)


def verify(lines: Iterable[str], *, after: str | None = None) -> Report:
    """Checks a file. `after`: the hash that its first row must follow; None: whatever it says."""
    rows, head, number = 0, after, 0
    for text in lines:
        number += 1
        if not text.strip():
            continue
        row = _read(text)
        if row is None:
            return Report(rows, head or "", f"Line {number} is no row of an audit log.")
        if head is not None and row["previous"] != head:
            why = f"Line {number} does not follow the one before it: a row was removed, added or "
            return Report(rows, head, f"{why}moved.")
        if row["hash"] != audit.chained(row["previous"], row):
            return Report(rows, head or "", f"Line {number} was changed.")
        rows, head = rows + 1, row["hash"]
    return Report(rows, head or audit.GENESIS, None)


def _read(text: str) -> dict[str, Any] | None:
    try:
        row = json.loads(text)
    except ValueError:
        return None
    if not isinstance(row, dict) or row.keys() != _FIELDS:
        return None
    return row if isinstance(row["previous"], str) and isinstance(row["hash"], str) else None


async def export(db: Database, *, before: float | None = None) -> AsyncIterator[str]:
    """The lines of the log as it stands, or of what is older than a time (unix seconds)."""
    async with db.read() as tx:
        async for row in audit.since(tx, before=before):
            yield line_of(row)


async def seal(db: Database, file: Path, *, before: float, now: float) -> Report:
    """Moves what is older than `before` into a file, a segment that is checked before anything is
    removed; the log says where it went and goes on from its last hash.

    Raises FileExistsError, and ValueError with the fault when the log is broken."""
    last = 0
    with file.open("x") as segment:
        async with db.read() as tx:
            async for row in audit.since(tx, before=before):
                segment.write(f"{line_of(row)}\n")
                last = row.id
        segment.flush()
        os.fsync(segment.fileno())
    with file.open() as lines:
        report = verify(lines)
    if report.fault is not None:
        raise ValueError(report.fault)
    async with db.transaction("seal_audit") as tx:
        await audit.record(
            tx, "sealed", now=now, rows=report.rows, head=report.head, file=file.name
        )

        async def drop() -> None:  # once the log goes on: it must never be without a last row
            if await audit.drop_through(tx, last) != report.rows:
                raise ValueError("The log changed while it was sealed.")

        tx.before_commit(drop, late=True)
    return report
