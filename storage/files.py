"""Files that calls produced, kept to be posted and to be shown to the model."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import sqlalchemy as sa

from storage.database import Tx
from storage.schema import files


@dataclass(frozen=True, slots=True)
class FileRow:
    id: str
    call_id: str
    name: str
    mime_type: str
    data: bytes
    created_at: float


async def add(tx: Tx, row: FileRow) -> None:
    await tx.run(sa.insert(files).values(**asdict(row)))


async def get(tx: Tx, file_id: str) -> FileRow | None:
    return await tx.first(sa.select(files).where(files.c.id == file_id), FileRow)


async def of_call(tx: Tx, call_id: str) -> list[FileRow]:
    return await tx.rows(
        sa.select(files).where(files.c.call_id == call_id).order_by(files.c.name), FileRow
    )
