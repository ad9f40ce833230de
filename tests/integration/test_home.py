"""Home pages: whose they are, what stands on them, and when they are drawn anew."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
import sqlalchemy as sa

from bot.approvers import Policy
from bot.card import Card, TaskCard
from bot.closing import redraw, supersede
from bot.home import DECIDED, OUTSIDER, PAGE
from bot.open_homes import OPEN_SECONDS
from bot.surface import Actor, DeliveryError, Home, Item
from storage.database import Database, DatabaseUnavailable
from storage.outbox import OutboxRow
from storage.outbox import home as ask_for_home
from storage.place import Place
from storage.questions import open_in_chat
from storage.schema import homes, outbox, postings, questions
from tests.fakes.background import background
from tests.fakes.model import call
from tests.fakes.surface import MemorySurface
from tests.world import ANA, BEN, CYN, World, effect, only_question, until, world

DAN = Actor("slack", "T1", "DAN", "dan")


async def look(w: World, who: Actor, page: int | None = 1) -> Home:
    return await w.service.home(who, "T1", page)


def titles(items: Sequence[Item]) -> list[str]:
    return [one.card.title for one in items]


def orders(items: Sequence[Item]) -> list[str]:
    return [one.card.arguments[0].value for one in items if isinstance(one.card, Card)]


async def rows(db: Database) -> list[OutboxRow]:
    """The asks for home pages."""
    async with db.read() as tx:
        asked = sa.select(outbox).where(outbox.c.action == "home").order_by(outbox.c.id)
        return await tx.rows(asked, OutboxRow)


# What stands there


async def test_a_question_stands_on_the_home_of_those_alone_who_may_decide_it(db: Database) -> None:
    w = world(db, call("refund", order="A1"), tools=[effect([])])
    await w.chat()
    await w.settle()

    home = await look(w, BEN)

    assert titles(home.waiting) == ["agent wants to run refund"]
    assert orders(home.waiting) == ["A1"]
    assert home.waiting[0].may
    for other in (ANA, CYN, replace(CYN, is_guest=True)):
        assert (await look(w, other)).waiting == ()


@pytest.mark.parametrize(
    "who",
    [
        replace(BEN, is_bot=True),
        replace(BEN, is_external=True),
        replace(BEN, organisation="T2"),
    ],
)
async def test_bots_and_people_of_other_organisations_get_a_sentence_and_nothing_else(
    who: Actor, db: Database
) -> None:
    approvers = Policy(name="ops", approvers=frozenset({BEN.key, who.key}))
    w = world(db, call("refund"), tools=[effect([])], policies=[approvers])
    await w.chat()
    await w.settle()

    assert await look(w, who) == Home(refusal=OUTSIDER)
    async with db.read() as tx:
        assert not (await tx.run(sa.select(homes))).all()


async def test_nothing_of_another_organisation_stands_there(db: Database) -> None:
    w = world(db, call("refund"), tools=[effect([])])
    await w.chat()
    await w.settle()
    same_id = replace(BEN, organisation="T2")
    w.core.policies = replace(
        w.core.policies, policies=[Policy(name="all", approvers=frozenset({BEN.key, same_id.key}))]
    )

    assert (await w.service.home(same_id, "T2", 1)).waiting == ()


async def test_a_page_holds_ten_and_every_question_is_on_one(db: Database) -> None:
    asks = [call("refund", order=f"{n:02}") for n in range(30)]
    w = world(db, asks, tools=[effect([])])
    for _ in range(2):
        await w.chat()
        await w.settle()
        w.clock.advance(60)

    pages = [await look(w, BEN, number) for number in range(1, 7)]

    assert [(one.page, one.pages) for one in pages] == [(n, 6) for n in range(1, 7)]
    assert all(len(one.waiting) == PAGE for one in pages)
    shown = [item.card.nonce for one in pages for item in one.waiting]
    assert len(set(shown)) == 60
    in_order = [order for one in pages for order in orders(one.waiting)]
    assert in_order == [f"{n:02}" for n in range(30)] * 2  # the oldest first
    beyond = await look(w, BEN, 99)
    assert (beyond.page, orders(beyond.waiting)) == (6, orders(pages[5].waiting))


async def test_what_runs_follows_what_waits_over_the_pages(db: Database) -> None:
    tool = background()
    asks = [call("refund", order=str(n)) for n in range(PAGE - 1)]
    runs = [call("rollout", what=str(n)) for n in range(3)]
    w = world(db, [*asks, *runs], tools=[effect([]), tool])
    await w.chat()
    await w.settle()

    first, second = await look(w, BEN, 1), await look(w, BEN, 2)

    assert (len(first.waiting), len(first.running)) == (PAGE - 1, 1)
    assert (len(second.waiting), len(second.running)) == (0, 2)
    assert first.pages == second.pages == 2


async def test_a_task_stands_on_the_home_of_askers_and_approvers(db: Database) -> None:
    w = world(db, call("rollout"), tools=[background()])
    chat = await w.chat(None, by=ANA)
    await chat.say("please", by=DAN)  # in ana's thread
    await w.settle()

    for who, may in ((ANA, None), (BEN, True), (DAN, False), (CYN, None)):
        running = (await look(w, who)).running
        if who is ANA:  # who began the chat may stop it
            assert [one.may for one in running] == [True]
        elif may is None:
            assert running == ()
        else:
            assert titles(running) == ["rollout is running"]
            assert [one.may for one in running] == [may]
    task = (await look(w, BEN)).running[0].card
    assert isinstance(task, TaskCard)
    assert (task.message, task.status) == ("half way", "working")


async def test_what_one_decided_and_what_came_of_what_one_asked_stands_there(db: Database) -> None:
    w = world(db, call("refund"), "No.", tools=[effect([])])
    nonces = []
    for by in (ANA, DAN):
        chat = await w.chat(by=by)
        await w.settle()
        question = await only_question(chat)
        await question.decline(by=BEN)
        nonces.append(question.nonce)
        w.clock.advance(60)

    for who, theirs in ((BEN, nonces[::-1]), (ANA, nonces[:1]), (DAN, nonces[1:]), (CYN, [])):
        assert [one.card.nonce for one in (await look(w, who)).decided] == theirs
    (settled,) = (await look(w, ANA)).decided
    assert isinstance(settled.card, Card)
    assert settled.card.outcome.startswith("Declined by ben")
    assert not settled.may


async def test_who_asks_in_the_thread_of_another_reads_what_came_of_it(db: Database) -> None:
    w = world(db, call("refund"), "No.", tools=[effect([])])
    chat = await w.chat(None, by=ANA)
    await chat.say("please", by=DAN)
    await w.settle()
    await (await only_question(chat)).decline(by=BEN)

    assert len((await look(w, DAN)).decided) == 1
    assert (await look(w, ANA)).decided == ()
    prefix = replace(DAN, user="DA_")  # a wildcard of LIKE
    assert (await look(w, prefix)).decided == ()


async def test_what_is_asked_no_more_was_not_decided(db: Database) -> None:
    w = world(db, call("refund"), tools=[effect([])])
    chat = await w.chat()
    await w.settle()
    async with db.transaction("test_supersede") as tx:
        await supersede(w.core, tx, await open_in_chat(tx, chat.id))

    home = await look(w, ANA)
    assert (home.waiting, home.decided) == ((), ())


async def test_only_the_latest_decisions_of_a_week_stand_there(db: Database) -> None:
    count = DECIDED + 2
    w = world(db, [call("refund", order=f"{n:02}") for n in range(count)], tools=[effect([])])
    chat = await w.chat()
    await w.settle()
    for question in sorted(await chat.pending_questions(), key=lambda one: one.arguments["order"]):
        w.clock.advance(1)
        await question.decline(by=BEN)

    decided = (await look(w, BEN)).decided
    assert orders(decided) == [f"{n:02}" for n in reversed(range(2, count))]
    w.clock.advance(8 * 86_400)
    assert (await look(w, BEN)).decided == ()


async def test_a_database_that_is_away_is_said_to_who_opens_and_raised_to_who_redraws(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world(sqlite_db)

    def away(*_: object) -> None:
        raise DatabaseUnavailable

    monkeypatch.setattr("storage.scope.open_questions", away)
    assert (await look(w, BEN)).refusal == str(DatabaseUnavailable())
    with pytest.raises(DatabaseUnavailable):
        await look(w, BEN, None)


# When it is drawn anew


async def test_a_home_is_drawn_anew_when_something_opens_and_settles(db: Database) -> None:
    w = world(db, call("refund"), "Done.", tools=[effect([])])
    for who in (ANA, BEN, CYN):
        await look(w, who)
    chat = await w.chat()
    await w.settle()

    assert sorted(w.surface.homes) == ["ANA", "BEN"]
    w.surface.homes.clear()
    await (await only_question(chat)).approve(by=BEN)
    await w.settle()
    assert sorted(w.surface.homes) == ["ANA", "BEN"]
    async with db.read() as tx:
        shown = (await tx.run(sa.select(postings.c.subject))).scalars().all()
    assert not [one for one in shown if one.startswith("home:")]
    assert await rows(db) == []  # nothing remains to be known of them


async def test_a_home_that_nobody_opened_within_a_day_is_left_alone(db: Database) -> None:
    w = world(db, call("refund"), tools=[effect([])])
    await look(w, BEN)
    w.clock.advance(OPEN_SECONDS + 1)
    await look(w, ANA)
    await w.chat()
    await w.settle()

    assert w.surface.homes == ["ANA"]


async def test_the_home_of_another_organisation_is_left_alone(db: Database) -> None:
    w = world(db, call("refund"), tools=[effect([])])
    await w.service.home(replace(BEN, organisation="T2"), "T2", 1)
    await w.chat()
    await w.settle()

    assert w.surface.homes == []


async def test_who_asks_in_the_thread_of_another_has_it_drawn_anew_too(db: Database) -> None:
    w = world(db, call("refund"), tools=[effect([])])
    for who in (ANA, DAN):
        await look(w, who)
    chat = await w.chat(None, by=ANA)
    await chat.say("please", by=DAN)
    await w.settle()

    assert sorted(w.surface.homes) == ["ANA", "DAN"]


async def test_changes_that_come_together_draw_a_home_once(db: Database) -> None:
    w = world(db, [call("refund", order=str(n)) for n in range(5)], tools=[effect([])])
    await look(w, BEN)
    chat = await w.chat()
    await w.settle()
    assert w.surface.homes == ["BEN"]

    for question in await chat.pending_questions():
        await question.decline(by=BEN)
    assert [row.state for row in await rows(db)] == ["waiting"]
    await w.settle()
    assert w.surface.homes == ["BEN", "BEN"]


@dataclass
class SlowSurface(MemorySurface):
    """A home page stays on its way until it is let go."""

    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def show_home(self, organisation: str, user: str) -> None:
        await super().show_home(organisation, user)
        self.arrived.set()
        await self.go.wait()


async def test_what_changes_while_a_home_is_on_its_way_is_drawn_after_it(db: Database) -> None:
    w = world(db, call("refund"), "Done.", tools=[effect([])], surface=SlowSurface())
    assert isinstance(w.surface, SlowSurface)
    await look(w, BEN)
    chat = await w.chat()
    async with w.serving():
        await asyncio.wait_for(w.surface.arrived.wait(), 5)
        await (await only_question(chat)).decline(by=BEN)
        w.surface.go.set()
        await until(lambda: w.surface.homes == ["BEN", "BEN"])


async def test_asking_for_a_home_waits_for_no_other_transaction(db: Database) -> None:
    if db.sqlite:
        pytest.skip("SQLite has one writer")
    place = Place("slack", "T1", "BEN", "")

    async def ask(nonce: str) -> bool:
        async with db.transaction("test_home") as tx:
            return await ask_for_home(tx, place, nonce=nonce, now=0.0)

    assert await ask("first")
    async with db.transaction("test_decide") as tx:
        assert not await ask_for_home(tx, place, nonce="merged", now=0.0)
        assert await asyncio.wait_for(ask("another"), 5)


async def test_a_home_is_drawn_anew_by_a_new_process_at_the_page_that_was_open(
    db: Database,
) -> None:
    w = world(db, [call("refund", order=str(n)) for n in range(15)], tools=[effect([])])
    chat = await w.chat()
    await w.settle()
    await look(w, BEN, 2)
    await (await chat.pending_questions())[0].decline(by=BEN)

    again = await w.restart()
    await again.settle()

    assert w.surface.homes == ["BEN"]
    assert (await look(again, BEN, None)).page == 2


async def test_a_task_draws_homes_anew_when_it_starts_changes_and_ends(db: Database) -> None:
    tool = background()
    w = world(db, call("rollout"), "Stopped.", tools=[tool])
    for who in (ANA, BEN, CYN):
        await look(w, who)
    chat = await w.chat()
    await w.settle()
    assert sorted(w.surface.homes) == ["ANA", "BEN"]

    (running,) = (await look(w, BEN)).running
    assert isinstance(running.card, TaskCard)
    await w.service.cancel_task(running.card.nonce, BEN, via="test")
    await w.settle()
    assert sorted(w.surface.homes) == ["ANA", "ANA", "BEN", "BEN"]
    await chat.cancel(by=ANA)
    await w.settle()
    assert sorted(w.surface.homes) == ["ANA"] * 3 + ["BEN"] * 3
    assert (await look(w, BEN)).running == ()


async def test_questions_that_share_a_card_draw_homes_anew_with_it(db: Database) -> None:
    w = world(db, call("refund"), tools=[effect([])])
    chat = await w.chat()
    await w.settle()
    await look(w, BEN)
    async with db.transaction("test_share") as tx:
        await tx.change(sa.update(questions).values(card="round:7"))
        await redraw(w.core, tx, "round:7")
    await w.settle()
    assert w.surface.homes == ["BEN"]
    assert len(await chat.pending_questions()) == 1


@pytest.mark.parametrize("permanent", [True, False])
async def test_a_home_that_cannot_be_shown_holds_up_nothing_and_is_given_up(
    permanent: bool, db: Database
) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)], surface=BrokenHomes(permanent))
    assert isinstance(w.surface, BrokenHomes)
    await look(w, BEN)
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).approve(by=BEN)
    await w.settle()

    assert effects == ["refund A1"]
    assert w.surface.replies() == ["Done."]
    for _ in range(12):
        w.clock.advance(300)
        await w.settle()
    assert await rows(db) == []
    assert w.surface.tried <= 16


@dataclass
class BrokenHomes(MemorySurface):
    permanent: bool = False
    tried: int = 0

    def __init__(self, permanent: bool) -> None:
        super().__init__()
        self.permanent = permanent

    async def show_home(self, organisation: str, user: str) -> None:
        self.tried += 1
        raise DeliveryError("no home", permanent=self.permanent)
