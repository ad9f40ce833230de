"""A request that is edited or deleted (row B91): unread it changes, read it marks the cards."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from bot.changed import DELETED, EDITED
from bot.chat import Chat
from bot.field import Field
from bot.surface import Changed, FileRef, Message, Place
from bot.tool import Call, Tool, tool
from storage import chats
from storage.database import Database, DatabaseUnavailable
from tests.fakes.model import call
from tests.world import ANA, BEN, World, audited, effect, only_question, said, world

HERE = Place("slack", "T1", "C1", "1.0")


def message(text: str, source: str = "1.0", **given: Any) -> Message:
    base: dict[str, Any] = {"keys": (f"m{source}",), "place": HERE, "actor": ANA, "starts": True}
    return Message(**(base | {"text": text, "source": source} | given))


def change(text: str | None, source: str = "1.0", key: str = "c1", place: Place = HERE) -> Changed:
    return Changed(keys=(key,), place=place, source=source, text=text)


async def the_chat(w: World) -> Chat:
    async with w.db.read() as tx:
        row = await chats.at_place(tx, HERE)
    assert row is not None
    return Chat(row.id, w.core)


async def waiting(db: Database, effects: list[str], *tools: Tool, **options: Any) -> World:
    """A card waits for the request "restart staging"."""
    w = world(db, call("refund"), "Done.", "More.", tools=[effect(effects), *tools], **options)
    await w.service.message(message("restart staging"))
    await w.settle()
    return w


@pytest.mark.row("B91")
@pytest.mark.parametrize(("text", "notice"), [("restart prod", EDITED), (None, DELETED)])
async def test_the_card_of_a_call_says_that_its_request_was_changed(
    db: Database, text: str | None, notice: str
) -> None:
    effects: list[str] = []
    w = await waiting(db, effects)
    (before,) = w.surface.cards()

    assert await w.service.changed(change(text))
    await w.settle()

    (card,) = w.surface.cards()
    assert before.notices == ()
    assert card.notices == (notice,)
    assert card.open
    assert card.version == before.version + 1
    assert len(w.model.requests) == 1  # nothing is run again
    (row,) = await audited(await the_chat(w), "request_edited" if text else "request_deleted")
    assert row.detail["source"] == "1.0"
    assert row.actor == (ANA.key if text else None)

    await (await only_question(await the_chat(w))).approve(by=BEN)
    await w.settle()
    assert effects == ["refund A1"]
    assert "restart staging" in (await said(await the_chat(w)))[0]


async def test_a_change_is_taken_in_once(db: Database) -> None:
    w = await waiting(db, [])

    assert await w.service.changed(change("restart prod"))
    assert not await w.service.changed(change("restart prod"))
    await w.settle()

    assert len(await audited(await the_chat(w), "request_edited")) == 1
    assert [one.edits for one in w.surface.shown.values()] == [1]


async def test_what_is_edited_twice_has_one_notice_and_a_deletion_takes_its_place(
    db: Database,
) -> None:
    w = await waiting(db, [])
    for number, (text, notice) in enumerate([("a", EDITED), ("b", EDITED), (None, DELETED)]):
        assert await w.service.changed(change(text, key=f"c{number}"))
        await w.settle()
        (card,) = w.surface.cards()
        assert card.notices == (notice,)
    assert [one.edits for one in w.surface.shown.values()] == [2]


async def test_a_form_is_marked_beside_its_own_notice_and_still_answered(db: Database) -> None:
    @tool(approval="never")
    async def seat(c: Call) -> str:
        return f"got {await c.ask('Where?', Field('seat'))}"

    w = world(db, call("seat"), "Done.", tools=[seat])
    await w.service.message(message("book"))
    await w.settle()

    await w.service.changed(change("book two"))
    await w.settle()

    (card,) = w.surface.cards()
    assert card.notices == (EDITED,)
    assert [field.name for field in card.fields] == ["seat"]
    await (await only_question(await the_chat(w))).answer("window", by=ANA)
    await w.settle()
    assert w.surface.replies() == ["Done."]


async def test_a_card_that_was_decided_is_not_marked(db: Database) -> None:
    w = await waiting(db, [])
    await (await only_question(await the_chat(w))).decline(by=BEN)
    await w.settle()
    version = w.surface.cards()[0].version

    assert await w.service.changed(change("restart prod"))
    await w.settle()

    (card,) = w.surface.cards()
    assert (card.notices, card.version) == ((), version)


async def test_what_was_said_after_the_call_marks_nothing(db: Database) -> None:
    """It waits for the round to end: its new words are what the agent reads."""
    w = await waiting(db, [])
    await w.service.message(message("hurry", "1.5"))

    assert await w.service.changed(change("no hurry", "1.5"))
    await w.settle()

    assert w.surface.cards()[0].notices == ()
    await (await only_question(await the_chat(w))).approve(by=BEN)
    await w.settle()
    assert (await said(await the_chat(w)))[-1] == '{"from": "ana", "text": "no hurry"}'
    assert await audited(await the_chat(w), "message_edited")


async def test_an_edit_while_the_model_thinks_marks_the_card_that_comes_of_it(
    db: Database,
) -> None:
    done: list[bool] = []
    there: list[World] = []

    @tool(approval="never")
    async def look() -> str:
        """Looks; meanwhile the request is edited."""
        done.append(await there[0].service.changed(change("restart prod")))
        return "seen"

    w = world(db, call("look"), call("refund"), "Done.", tools=[look, effect([])])
    there.append(w)
    await w.service.message(message("restart staging"))
    await w.settle()

    assert done == [True]
    (card,) = w.surface.cards()
    assert card.notices == (EDITED,)


async def test_the_cards_of_a_later_request_are_not_marked(db: Database) -> None:
    w = world(db, "Hello.", call("refund"), "Done.", tools=[effect([])])
    await w.service.message(message("hello"))
    await w.settle()
    w.clock.advance(10)
    assert await w.service.changed(change("hello there"))
    w.clock.advance(10)

    await w.service.message(message("refund A1", "1.5"))
    await w.settle()

    assert w.surface.cards()[0].notices == ()


async def test_a_message_the_agent_has_not_read_is_read_as_edited(db: Database) -> None:
    w = world(db, "Hello.")
    await w.service.message(message("restart staging"))

    assert await w.service.changed(change("restart prod"))
    await w.settle()

    assert await said(await the_chat(w)) == ['{"from": "ana", "text": "restart prod"}']


async def test_a_message_the_agent_has_not_read_is_taken_back_with_its_files(
    db: Database,
) -> None:
    w = world(db, "Hello.")
    file = FileRef("log.txt", "text/plain", 5, {"id": "F1"})
    await w.service.message(message("restart staging", files=(file,)))

    assert await w.service.changed(change(None))
    await w.settle()

    assert await said(await the_chat(w)) == []
    assert w.model.requests == []
    assert w.surface.looked_up == []
    assert await audited(await the_chat(w), "message_withdrawn")


async def test_a_chat_whose_first_message_was_taken_back_goes_on_with_the_next(
    db: Database,
) -> None:
    w = world(db, "Hello.")
    await w.service.message(message("restart staging"))
    await w.service.changed(change(None))
    await w.settle()

    await w.service.message(message("hello", "1.5", starts=False))
    await w.settle()

    assert w.surface.looked_up == ["before 1.5"]
    assert w.surface.replies() == ["Hello."]


@pytest.mark.parametrize(
    "event",
    [
        change("x", source="9.9"),
        change("x", place=Place("slack", "T1", "C1", "2.0")),
        change("x", place=Place("slack", "T2", "C1", "1.0")),
    ],
)
async def test_what_no_chat_was_told_changes_nothing(db: Database, event: Changed) -> None:
    w = await waiting(db, [])

    assert not await w.service.changed(event)
    await w.settle()

    assert w.surface.cards()[0].notices == ()
    assert await w.service.changed(change("restart prod"))  # its key was not spent


async def test_a_change_the_database_does_not_take_is_raised_and_can_be_delivered_again(
    db: Database,
) -> None:
    w = await waiting(db, [])

    def gone(name: str) -> None:
        if name == "before take_change":
            raise sa.exc.OperationalError("", {}, Exception("server closed the connection"))

    db.points = gone
    with pytest.raises(DatabaseUnavailable):
        await w.service.changed(change("restart prod"))
    db.points = lambda name: None

    assert await w.service.changed(change("restart prod"))
