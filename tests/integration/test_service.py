"""The entry for what people do: taken in once, durable when it returns, honest when it fails."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from bot.card import Card
from bot.chat import Chat
from bot.field import Field
from bot.question import Verb
from bot.surface import Actor, Decision, Message, Place, Response
from bot.tool import Call, Tool, tool
from storage import chats, seen
from storage.database import Database, DatabaseUnavailable
from storage.questions import QuestionState
from tests.fakes.model import call
from tests.world import ANA, BEN, CYN, World, effect, only_question, said, world

HERE = Place("slack", "T1", "C1", "1.0")
HELLO = Message(keys=("e1",), place=HERE, actor=ANA, text="hello", starts=True)


async def chat_here(w: World, place: Place = HERE) -> Chat | None:
    async with w.db.read() as tx:
        row = await chats.at_place(tx, place)
    return None if row is None else Chat(row.id, w.core)


async def the_chat(w: World) -> Chat:
    chat = await chat_here(w)
    assert chat is not None
    return chat


def gone(db: Database, point: str) -> None:
    """The database is lost at this point of the next transaction of that name."""

    def fail(name: str) -> None:
        if name == point:
            raise sa.exc.OperationalError("", {}, Exception("server closed the connection"))

    db.points = fail


def back(db: Database) -> None:
    db.points = lambda name: None


async def test_a_mention_begins_a_chat_for_the_one_who_spoke(db: Database) -> None:
    w = world(db, "Hello.")

    assert await w.service.message(HELLO)
    await w.settle()

    async with db.read() as tx:
        row = await chats.at_place(tx, HERE)
    assert row is not None
    assert (row.agent, row.requester) == ("agent", ANA.key)
    assert w.surface.replies() == ["Hello."]
    (shown,) = w.surface.shown.values()
    assert shown.place == HERE


async def test_what_does_not_begin_a_chat_goes_on_with_the_one_that_lives_there(
    db: Database,
) -> None:
    w = world(db, "Hello.", "Yes?")
    more = Message(keys=("e2",), place=HERE, actor=CYN, text="you there?", starts=False)

    assert not await w.service.message(more)
    assert await chat_here(w) is None

    assert await w.service.message(HELLO)
    await w.settle()
    assert await w.service.message(replace(more, keys=("e3",)))
    await w.settle()

    assert w.surface.replies() == ["Hello.", "Yes?"]


async def test_a_thread_that_was_not_ours_keeps_no_keys(db: Database) -> None:
    """The mention that begins a chat may carry a key of the message nobody heard."""
    w = world(db, "Hello.")

    assert not await w.service.message(replace(HELLO, starts=False))

    assert await w.service.message(HELLO)


@pytest.mark.row("B19")
@pytest.mark.row("B21")
@pytest.mark.parametrize("keys", [("e1",), ("e9", "e1"), ("e1", "e9")])
async def test_an_event_that_shares_any_key_is_the_same_event(
    db: Database, keys: tuple[str, ...]
) -> None:
    w = world(db, "Hello.")
    assert await w.service.message(HELLO)

    assert not await w.service.message(replace(HELLO, keys=keys))
    await w.settle()

    assert len(await said(await the_chat(w))) == 1
    assert w.surface.replies() == ["Hello."]


async def test_keys_are_forgotten_after_a_week(db: Database) -> None:
    w = world(db, "Hello.")
    await w.service.message(HELLO)

    for days, kept in ((6, True), (8, False)):
        async with db.transaction("forget") as tx:
            await seen.forget(tx, w.clock.now() + days * 24 * 3600)
        assert await w.service.message(HELLO) is not kept


@pytest.mark.row("B88")
@pytest.mark.row("B89")
@pytest.mark.parametrize("flag", ["is_bot", "is_external"])
async def test_bots_and_other_organisations_are_not_heard(db: Database, flag: str) -> None:
    w = world(db, "Hello.")
    stranger = replace(ANA, **{flag: True})  # type: ignore[arg-type]

    assert not await w.service.message(replace(HELLO, actor=stranger))
    assert await chat_here(w) is None
    assert await w.service.message(HELLO)
    await w.settle()
    assert not await w.service.message(replace(HELLO, keys=("e2",), actor=stranger, starts=False))
    await w.settle()

    assert len(w.model.requests) == 1


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
async def test_a_blank_message_begins_nothing(sqlite_db: Database, text: str) -> None:
    w = world(sqlite_db, "Hello.")

    assert not await w.service.message(replace(HELLO, text=text))

    assert await chat_here(w) is None


@pytest.mark.row("Q27")
async def test_what_is_said_while_the_chat_waits_is_queued_and_its_author_is_told(
    db: Database,
) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    await w.service.message(HELLO)
    await w.settle()

    assert await w.service.message(replace(HELLO, keys=("e2",), actor=BEN, text="yes"))
    await w.settle()

    assert effects == []
    ((who, told),) = w.surface.whispers
    assert who == BEN.user
    assert "refund" in told
    assert len(await said(await the_chat(w))) == 1


async def test_a_message_the_database_does_not_take_is_raised_and_can_be_delivered_again(
    db: Database,
) -> None:
    w = world(db, "Hello.")
    gone(db, "before take_message")

    with pytest.raises(DatabaseUnavailable):
        await w.service.message(HELLO)

    back(db)
    assert await chat_here(w) is None
    assert await w.service.message(HELLO)


async def test_a_message_whose_commit_was_not_heard_of_is_taken_in_once(db: Database) -> None:
    w = world(db, "Hello.")
    gone(db, "after take_message")
    with pytest.raises(DatabaseUnavailable):
        await w.service.message(HELLO)

    back(db)
    assert not await w.service.message(HELLO)
    w = await w.restart()
    await w.settle()

    assert w.surface.replies() == ["Hello."]


# Decisions


def seat() -> Tool:
    @tool(approval="never")
    async def seat(c: Call) -> str:
        fields = (Field("seat", title="Seat", choices=["window", "aisle"]), Field("meal"))
        return f"got {await c.ask('Where?', *fields)}"

    return seat


async def click(
    w: World, verb: Verb, response: object = None, *, nonce: str | None = None
) -> Response:
    nonce = nonce or (await only_question(await the_chat(w))).nonce
    return await w.service.decide(
        Decision(nonce=nonce, verb=verb, actor=BEN, via="button", place=HERE, response=response)
    )


async def test_who_decides_is_told_that_it_counts_and_gets_the_settled_card(
    db: Database,
) -> None:
    w = world(db, call("refund"), "Done.", tools=[effect([])])
    await w.service.message(HELLO)
    await w.settle()

    response = await click(w, Verb.APPROVE)

    assert response.done
    assert response.sentence.startswith("Approved by ben on ")
    assert isinstance(response.card, Card)
    assert not response.card.open


async def test_a_form_that_does_not_fit_is_answered_with_a_sentence_for_each_field(
    db: Database,
) -> None:
    w = world(db, call("seat"), tools=[seat()])
    await w.service.message(HELLO)
    await w.settle()

    response = await click(w, Verb.ANSWER, {"seat": "roof", "unknown": "left aside"})

    assert not response.done
    assert set(response.errors) == {"seat", "meal"}
    assert "Seat" in response.errors["seat"]
    assert (await only_question(await the_chat(w))).state is QuestionState.OPEN


@pytest.mark.parametrize(
    ("verb", "value", "words"),
    [
        (Verb.ANSWER, "yes", "approve or decline"),
        (Verb.ANSWER, {"approve": True}, "approve or decline"),
        (Verb.DECLINE, ["no"], "A note is a text"),
    ],
)
async def test_what_does_not_fit_the_question_is_told_in_a_sentence(
    sqlite_db: Database, verb: Verb, value: object, words: str
) -> None:
    w = world(sqlite_db, call("refund"), tools=[effect([])])
    await w.service.message(HELLO)
    await w.settle()

    response = await click(w, verb, value)

    assert not response.done
    assert words in response.sentence
    assert (await only_question(await the_chat(w))).state is QuestionState.OPEN


async def test_a_nonce_of_nobody_is_no_question(db: Database) -> None:
    w = world(db, call("refund"), tools=[effect([])])
    await w.service.message(HELLO)
    await w.settle()

    response = await click(w, Verb.APPROVE, nonce="made-up")
    looked = await w.service.look("made-up", Verb.APPROVE, BEN, place=HERE)

    assert not response.done
    assert response.sentence == looked.refusal
    assert "no such question" in looked.refusal


async def test_a_decision_the_database_does_not_take_is_said_to_be_none(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    await w.service.message(HELLO)
    await w.settle()
    gone(db, "before decide")

    response = await click(w, Verb.APPROVE)

    back(db)
    await w.settle()
    assert not response.done
    assert "try again in a minute. Nothing was decided, unless the card says so" in (
        response.sentence
    )
    assert effects == []
    assert (await click(w, Verb.APPROVE)).done


async def test_what_stands_in_a_place_is_shown_there_and_nowhere_else(sqlite_db: Database) -> None:
    w = world(sqlite_db, call("refund"), "Done.", tools=[effect([])])
    await w.service.message(HELLO)
    await w.settle()
    question = await only_question(await the_chat(w))

    shown = await w.service.shown(question.nonce, place=HERE)

    assert isinstance(shown, Card)
    assert shown.nonce == question.nonce
    for elsewhere in (replace(HERE, root="elsewhere"), replace(HERE, channel="", root="")):
        assert await w.service.shown(question.nonce, place=elsewhere) is None
    assert await w.service.shown("made-up", place=HERE) is None


async def test_a_look_shows_the_card_to_who_may_decide_it_and_changes_nothing(
    db: Database,
) -> None:
    w = world(db, call("refund"), "Done.", tools=[effect([])])
    await w.service.message(HELLO)
    await w.settle()
    question = await only_question(await the_chat(w))

    looked = await w.service.look(question.nonce, Verb.APPROVE, BEN, place=HERE)

    assert looked.refusal == ""
    assert looked.card is not None
    assert looked.card.nonce == question.nonce
    assert looked.card.open
    assert await only_question(await the_chat(w)) == question


async def test_a_look_at_a_settled_question_says_how_it_was_settled(db: Database) -> None:
    w = world(db, call("refund"), "Done.", tools=[effect([])])
    await w.service.message(HELLO)
    await w.settle()
    question = await only_question(await the_chat(w))
    await question.decline("no", by=BEN)

    looked = await w.service.look(question.nonce, Verb.APPROVE, BEN, place=HERE)

    assert looked.card is None
    assert looked.refusal.startswith("This was settled before: Declined by ben")


async def test_somebody_of_another_organisation_is_told_once_that_the_agent_is_not_for_them(
    sqlite_db: Database,
) -> None:
    w = world(sqlite_db, "Hello.")
    guest = Actor("slack", "T2", "EVE", "eve", is_external=True)
    place = Place("slack", "T1", "C1", "77.0")
    event = Message(keys=("e1",), place=place, actor=guest, text="hi", starts=True)
    assert not await w.service.message(event)
    assert not await w.service.message(event)
    await w.settle()
    assert [user for user, _ in w.surface.whispers] == ["EVE"]
    assert not w.model.requests
