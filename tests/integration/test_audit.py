"""The audit log is one chain: what was changed, removed, added or moved in it shows."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bot import audit
from bot.cli import cli
from storage import audit as rows
from storage.database import Database, canonical
from storage.schema import audit as table
from tests.fakes.model import call
from tests.world import BEN, effect, only_question, world

NOW = 1_000_000.0


def chain(*events: str) -> list[str]:
    lines, previous = [], rows.GENESIS
    for number, event in enumerate(events, 1):
        entry = {
            "event": event,
            "chat_id": None,
            "call_id": None,
            "question_id": None,
            "actor": "slack:T1/U_BEN",
            "via": "slack button",
            "detail": {"n": number},
            "created_at": NOW + number,
        }
        mark = rows.chained(previous, entry)
        lines.append(canonical(entry | {"id": number, "previous": previous, "hash": mark}))
        previous = mark
    return lines


GOOD = chain("asked", "decided", "run", "done", "asked", "refused")
NUMBERS = st.integers(0, len(GOOD) - 1)


def test_a_log_as_it_was_written_is_good() -> None:
    report = audit.verify(GOOD)
    assert (report.rows, report.fault) == (6, None)
    assert report.head == json.loads(GOOD[-1])["hash"]


@given(NUMBERS, st.sampled_from(sorted(set(json.loads(GOOD[0])) - {"id"})))
def test_a_changed_field_of_any_row_is_found(number: int, field: str) -> None:
    row = json.loads(GOOD[number])
    row[field] = {"n": "other"} if field == "detail" else f"{row[field]}x"
    assert audit.verify([*GOOD[:number], json.dumps(row), *GOOD[number + 1 :]]).fault


@given(st.integers(1, len(GOOD) - 2))
def test_a_removed_row_is_found(number: int) -> None:
    fault = audit.verify([*GOOD[:number], *GOOD[number + 1 :]]).fault
    assert fault == (
        f"Line {number + 1} does not follow the one before it: a row was removed, added or moved."
    )


@given(NUMBERS, NUMBERS)
def test_an_added_row_is_found(number: int, copied: int) -> None:
    assert audit.verify([*GOOD[: number + 1], GOOD[copied], *GOOD[number + 1 :]]).fault


@given(st.permutations(GOOD).filter(lambda order: order != GOOD))
def test_rows_in_another_order_are_found(order: list[str]) -> None:
    assert audit.verify(order).fault


def test_a_row_forged_with_a_hash_of_its_own_breaks_what_follows() -> None:
    forged = chain("asked", "decided by nobody")[1]
    assert audit.verify([GOOD[0], forged, *GOOD[2:]]).fault


@pytest.mark.parametrize("line", ["{}", "[]", "nonsense", '{"hash":null}', "null", '"x"'])
def test_what_is_no_row_is_found(line: str) -> None:
    assert audit.verify([*GOOD, line]).fault == "Line 7 is no row of an audit log."


def test_an_end_that_was_cut_off_shows_against_the_last_hash(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("\n".join(GOOD[:-1]))
    head = audit.verify(GOOD).head
    told = CliRunner().invoke(cli, ["audit", "verify", str(file), "--head", head])
    assert told.exit_code == 1
    assert "cut off" in told.output
    assert CliRunner().invoke(cli, ["audit", "verify", str(file)]).exit_code == 0


async def test_everything_that_happens_to_a_call_is_one_good_chain(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund", order="4711"), "done", tools=[effect(effects)])
    chat = await w.chat()
    await chat.complete()
    await (await only_question(chat)).approve(by=BEN)
    await chat.complete()
    lines = [line async for line in audit.export(db)]
    events = [json.loads(line)["event"] for line in lines]
    assert audit.verify(lines, after=rows.GENESIS).fault is None
    assert events[:3] == ["asked", "decided", "run"]


async def test_transactions_at_the_same_time_make_one_chain(db: Database) -> None:
    async def one(number: int) -> None:
        async with db.transaction("test") as tx:
            await rows.record(tx, "asked", now=NOW, number=number)
            await asyncio.sleep(0)
            await rows.record(tx, "decided", now=NOW, number=number)

    await asyncio.gather(*map(one, range(30)))
    lines = [line async for line in audit.export(db)]
    report = audit.verify(lines, after=rows.GENESIS)
    assert (report.rows, report.fault) == (60, None)


async def test_a_transaction_that_fails_leaves_no_row(db: Database) -> None:
    async def fails() -> None:
        async with db.transaction("test") as tx:
            await rows.record(tx, "asked", now=NOW)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fails()
    assert [line async for line in audit.export(db)] == []


async def test_the_database_takes_no_second_row_after_the_same_one(db: Database) -> None:
    async with db.transaction("test") as tx:
        await rows.record(tx, "asked", now=NOW)

    async def fork() -> None:
        second = {"event": "x", "detail": {}, "created_at": NOW, "previous": rows.GENESIS}
        async with db.transaction("test") as tx:
            await tx.run(sa.insert(table).values(second | {"hash": "0"}))

    with pytest.raises(sa.exc.IntegrityError):
        await fork()


async def test_a_sealed_segment_and_what_follows_are_one_chain(
    db: Database, tmp_path: Path
) -> None:
    for number in range(10):
        async with db.transaction("test") as tx:
            await rows.record(tx, "asked", now=NOW + number, number=number)
    sealed = await audit.seal(db, tmp_path / "1", before=NOW + 6, now=NOW + 20)
    rest = [line async for line in audit.export(db)]
    assert sealed.rows == 6
    assert json.loads(rest[-1])["event"] == "sealed"
    assert audit.verify((tmp_path / "1").read_text().splitlines(), after=rows.GENESIS) == sealed
    assert audit.verify(rest, after=sealed.head).fault is None
    assert len(rest) == 5


async def test_a_broken_log_is_not_sealed(db: Database, tmp_path: Path) -> None:
    for number in range(3):
        async with db.transaction("test") as tx:
            await rows.record(tx, "asked", now=NOW + number)
    async with db.transaction("tamper") as tx:
        await tx.change(sa.update(table).where(table.c.created_at == NOW).values(event="x"))
    with pytest.raises(ValueError, match="Line 1 was changed"):
        await audit.seal(db, tmp_path / "1", before=NOW + 5, now=NOW)
    assert len([line async for line in audit.export(db)]) == 3


async def test_sealing_all_there_is_leaves_a_chain_that_goes_on(
    db: Database, tmp_path: Path
) -> None:
    async with db.transaction("test") as tx:
        await rows.record(tx, "asked", now=NOW)
    sealed = await audit.seal(db, tmp_path / "1", before=NOW + 5, now=NOW + 20)
    async with db.transaction("test") as tx:
        await rows.record(tx, "asked", now=NOW + 30)
    rest = [line async for line in audit.export(db)]
    assert audit.verify(rest, after=sealed.head).fault is None
    assert [json.loads(line)["event"] for line in rest] == ["sealed", "asked"]
