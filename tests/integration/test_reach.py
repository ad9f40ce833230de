"""Nothing is decided blind: where a card cannot hold all of a call, all of it can be reached from
it, or it is not approved; and a long answer is whole in a file."""

from __future__ import annotations

import json

import pytest

from bot import card as cards
from bot.approvers import Policy
from bot.card import PAGES_BUDGET, Card, Kind
from bot.chat import Chat
from bot.reply import MESSAGES_LIMIT, parts_of, say
from bot.surface import (
    Actor,
    Content,
    Decision,
    DeliveryError,
    File,
    Place,
    Posted,
    Response,
    Verb,
)
from storage import chats
from storage.database import Database
from tests.fakes.model import call
from tests.fakes.surface import MemorySurface
from tests.lost_run import chat_row, lost_run
from tests.world import ANA, BEN, CYN, World, audited, effect, only_question, returned, world

LONG = "x" * PAGES_BUDGET + " rm -rf /"


def files(w: World) -> list[File]:
    return [one.content for one in w.surface.shown.values() if isinstance(one.content, File)]


async def asked(
    db: Database, effects: list[str], *failures: DeliveryError, order: str = LONG
) -> tuple[World, Chat]:
    """A call of refund whose approval was asked for; the first deliveries fail so."""
    w = world(db, call("refund", order=order), "Done.", tools=[effect(effects)])
    w.surface.failures += failures
    chat = await w.chat()
    await w.settle()
    return w, chat


async def pressed(
    w: World, chat: Chat, verb: Verb, by: Actor = BEN, *, place: Place | None = None
) -> Response:
    question = await only_question(chat)
    async with w.core.db.read() as tx:
        row = await chats.get(tx, chat.id)
    assert row is not None
    place = place or row.place
    return await w.service.decide(
        Decision(nonce=question.nonce, verb=verb, actor=by, via="button", place=place)
    )


def only_card(w: World) -> Card:
    (card,) = w.surface.cards()
    return card


@pytest.mark.row("B46")
async def test_arguments_beyond_the_pages_are_attached_before_their_card(db: Database) -> None:
    effects: list[str] = []
    w, chat = await asked(db, effects)

    file, card = [one.content for one in w.surface.shown.values()]
    assert isinstance(file, File)
    assert isinstance(card, Card)
    assert (file.name, file.mime_type) == ("refund-arguments.json", "application/json")
    assert json.loads(file.data) == {"order": LONG}
    assert card.complete
    assert card.file == file.name
    assert (await pressed(w, chat, Verb.APPROVE)).done
    await w.settle()
    assert effects == [f"refund {LONG}"]
    assert w.surface.posts == 3  # the file, the card, the answer


async def test_arguments_that_fit_the_pages_need_no_file(db: Database) -> None:
    w, chat = await asked(db, [], order="x" * 40_000)

    assert files(w) == []
    assert only_card(w).complete
    assert (await pressed(w, chat, Verb.APPROVE)).done


@pytest.mark.row("B46")
async def test_approve_appears_once_the_file_is_there(db: Database) -> None:
    effects: list[str] = []
    w, chat = await asked(db, effects, DeliveryError("busy"))
    assert not only_card(w).complete
    assert files(w) == []
    refused = await pressed(w, chat, Verb.APPROVE)
    assert not refused.done
    assert "can be approved once the file is there" in refused.sentence
    version = only_card(w).version

    w.clock.advance(1.0)
    await w.settle()

    assert len(files(w)) == 1
    assert only_card(w).complete
    assert only_card(w).version > version
    assert (await pressed(w, chat, Verb.APPROVE)).done
    await w.settle()
    assert effects == [f"refund {LONG}"]


@pytest.mark.row("B46")
async def test_a_file_that_is_refused_leaves_a_card_that_can_only_be_declined(
    db: Database,
) -> None:
    effects: list[str] = []
    w, chat = await asked(db, effects, DeliveryError("missing_scope", permanent=True))

    card = only_card(w)
    assert not card.complete
    assert any("could not be attached" in notice for notice in card.notices)
    refused = await pressed(w, chat, Verb.APPROVE)
    assert not refused.done
    assert "decline it" in refused.sentence
    assert (await pressed(w, chat, Verb.DECLINE)).done
    await w.settle()
    assert effects == []
    assert await returned(chat) == ["The user denied the call to refund."]


async def test_a_card_that_waits_for_its_file_says_so_when_it_is_given_up(db: Database) -> None:
    w, chat = await asked(db, [], DeliveryError("busy"), order=LONG)
    assert any("being attached" in notice for notice in only_card(w).notices)
    w.surface.failures.append(DeliveryError("missing_scope", permanent=True))

    w.clock.advance(1.0)
    await w.settle()

    assert any("could not be attached" in notice for notice in only_card(w).notices)
    assert len(await audited(chat, "not_delivered")) == 1


async def test_a_program_has_the_arguments_whole(db: Database) -> None:
    effects: list[str] = []
    w, chat = await asked(db, effects, DeliveryError("missing_scope", permanent=True))

    await (await only_question(chat)).approve(by=BEN)
    await w.settle()

    assert effects == [f"refund {LONG}"]


async def test_arguments_that_nobody_can_read_are_not_attached_and_never_approved(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "FILE_LIMIT", 1_000)
    w, chat = await asked(db, [])

    assert files(w) == []
    assert not only_card(w).complete
    assert "too long to be shown here in full" in (await pressed(w, chat, Verb.APPROVE)).sentence
    assert (await pressed(w, chat, Verb.DECLINE)).done


async def test_a_file_that_got_through_unnoticed_is_not_attached_twice(db: Database) -> None:
    w, _ = await asked(db, [], DeliveryError("connection reset", maybe_sent=True))
    assert not only_card(w).complete

    w.clock.advance(1.0)
    await w.settle()

    assert len(files(w)) == 1
    assert only_card(w).complete
    assert [one.edits for one in w.surface.shown.values()] == [0, 1]


async def test_changed_arguments_that_are_asked_about_again_have_a_file_of_their_own(
    db: Database,
) -> None:
    w, chat = await asked(db, [])
    other = LONG.replace("x", "y")
    await (await only_question(chat)).approve(by=BEN, arguments={"order": other})
    strict = Policy(name="strict", approvers=frozenset({CYN.key}))
    w = await w.restart(policies=[strict])
    await w.settle()

    assert [json.loads(file.data)["order"][0] for file in files(w)] == ["x", "y"]
    assert (await pressed(w, w.here(chat), Verb.APPROVE, by=CYN)).done


async def test_who_says_what_came_of_a_lost_call_can_read_all_of_it(sqlite_db: Database) -> None:
    lost = await lost_run(sqlite_db, order=LONG)

    (file,) = files(lost.world)
    assert json.loads(file.data) == {"order": LONG}
    (card,) = lost.world.surface.cards()
    assert card.kind is Kind.FORM
    assert card.file == file.name


# Who may read


async def test_who_asked_and_the_approvers_may_read_and_nobody_else(db: Database) -> None:
    w, chat = await asked(db, [], order="x" * 20_000)
    question = await only_question(chat)
    outside = Actor("slack", "T2", "EVE", "eve", is_external=True)

    for actor, may in [(ANA, True), (BEN, True), (CYN, False), (outside, False)]:
        look = await w.service.read(question.nonce, actor)
        assert (look.card is not None) is may
        assert bool(look.refusal) is not may


async def test_a_settled_question_can_still_be_read(db: Database) -> None:
    w, chat = await asked(db, [], order="x" * 20_000)
    question = await only_question(chat)
    await question.decline(by=BEN)

    card = (await w.service.read(question.nonce, ANA)).card
    assert card is not None
    assert card.outcome.startswith("Declined by ben")


async def test_a_question_is_not_read_from_another_thread_or_by_a_nonce_of_none(
    db: Database,
) -> None:
    w, chat = await asked(db, [])
    elsewhere = await w.chat(None)
    question = await only_question(chat)

    for nonce, place in [(question.nonce, (await chat_row(elsewhere)).place), ("no-such", None)]:
        look = await w.service.read(nonce, BEN, place=place)
        assert look.card is None
        assert "no such question here" in look.refusal


# Long answers


class Narrow(MemorySurface):
    """A message holds one paragraph."""

    def split(self, text: str) -> list[str]:
        return text.split("\n\n")


def narrow(db: Database, *answers: str) -> World:
    w = world(db, *answers)
    w.core.surfaces["slack"] = w.surface = Narrow()
    return w


def paragraphs(count: int) -> str:
    return "\n\n".join(f"Paragraph {number}." for number in range(count))


async def test_an_answer_of_a_few_messages_is_posted_in_messages(db: Database) -> None:
    w = narrow(db, paragraphs(MESSAGES_LIMIT))
    await w.chat()

    await w.settle()

    assert "\n\n".join(w.surface.replies()) == paragraphs(MESSAGES_LIMIT)
    assert files(w) == []


async def test_a_longer_answer_begins_in_the_thread_and_is_whole_in_a_file(db: Database) -> None:
    whole = paragraphs(MESSAGES_LIMIT + 1) + " <é>"
    w = narrow(db, whole)
    chat = await w.chat()

    await w.settle()

    *replies, file = [one.content for one in w.surface.shown.values()]
    assert file == File("answer.md", "text/markdown", whole.encode())
    assert w.surface.replies()[0] == "Paragraph 0."
    assert "The whole answer is in the file answer.md below." in w.surface.replies()[-1]
    assert len(replies) == 2
    assert await chat.last_reply() == whole


async def test_an_answer_that_cannot_be_attached_does_not_say_that_it_is(db: Database) -> None:
    w = narrow(db, paragraphs(20))

    class Refusing(Narrow):
        async def post(self, place: Place, content: Content, nonce: str) -> Posted:
            if isinstance(content, File):
                raise DeliveryError("missing_scope", permanent=True)
            return await super().post(place, content, nonce)

    w.core.surfaces["slack"] = w.surface = Refusing()
    chat = await w.chat()
    await w.settle()

    assert w.surface.replies()[0] == "Paragraph 0."
    assert "could not be attached" in w.surface.replies()[-1]
    assert len(await audited(chat, "not_delivered")) == 1


async def test_an_answer_that_is_said_again_is_attached_once_and_its_rest_is_withdrawn(
    db: Database,
) -> None:
    w = narrow(db)
    chat = await w.chat(None)
    row = await chat_row(chat)
    for text in (paragraphs(4), paragraphs(9), paragraphs(9)):
        parts = await parts_of(w.core, row, text)
        async with db.transaction("test_say") as tx:
            await say(w.core, tx, row, "reply:again", parts)
        await w.settle()

    told = w.surface.replies()
    assert told[0] == "Paragraph 0."
    assert "in the file answer.md" in told[1]
    assert told[2:] == ["(withdrawn)", "(withdrawn)"]
    (file,) = files(w)
    assert file.data.decode() == paragraphs(9)


async def test_a_file_in_the_thread_is_not_approved_from_elsewhere(db: Database) -> None:
    effects: list[str] = []
    w, chat = await asked(db, effects)
    refused = await pressed(w, chat, Verb.APPROVE, place=Place("slack", "T1", "", ""))
    assert not refused.done
    assert refused.sentence == (
        "Its arguments are in a file in its thread: approve it from the card there, or decline it."
    )
    await w.settle()
    assert effects == []
    assert (await pressed(w, chat, Verb.DECLINE, place=Place("slack", "T1", "", ""))).done


async def test_a_copy_elsewhere_of_what_is_in_a_file_offers_no_approve(db: Database) -> None:
    w = world(db, call("refund", order=LONG), tools=[effect([])])
    w.surface.directs = True
    await w.chat()
    await w.settle()
    complete = {
        one.place.channel: one.content.complete
        for one in w.surface.shown.values()
        if isinstance(one.content, Card)
    }
    assert complete.pop("C1") is True
    assert set(complete.values()) == {False}
