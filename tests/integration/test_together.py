"""Many approvals of one response: asked on shared cards, decided selected, all or none, each by
itself and once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from bot.approvers import Policy
from bot.card import CardState
from bot.surface import (
    GroupDecision,
    Place,
    Response,
    Verb,
)
from bot.together import SETTLED
from storage.database import Database, DatabaseUnavailable
from tests.fakes.model import call
from tests.group_world import (
    asks,
    decide,
    decisions,
    group_world,
    states,
)
from tests.world import ANA, BEN, BEN_APPROVES, CYN, audited, effect, returned


class Killed(BaseException):
    """The process dies."""


# Asking


@pytest.mark.row("B25")
async def test_up_to_four_calls_have_a_card_each(db: Database) -> None:
    w = group_world(db, asks(4), [effect([])])
    chat = await w.chat()

    await w.settle()

    assert len(w.surface.cards()) == 4
    assert w.surface.groups() == []
    assert len(await chat.pending_questions()) == 4


@pytest.mark.row("B25")
@pytest.mark.row("B23")
async def test_more_calls_share_a_card_and_each_has_its_own_id(db: Database) -> None:
    w = group_world(db, [call("refund", order="A1")] * 7, [effect([])])
    chat = await w.chat()

    await w.settle()

    (group,) = w.surface.groups()
    assert w.surface.cards() == []
    assert group.title == "agent wants to run 7 calls"
    assert [card.arguments[0].value for card in group.cards] == ["A1"] * 7
    assert group.deciders == tuple(sorted([BEN.key, CYN.key]))
    ids = [one.id for one in await chat.pending_questions()]
    assert sorted(ids) == sorted(row.id for row in await chat.calls())
    assert len({card.nonce for card in group.cards}) == 7


async def test_very_many_calls_fill_several_cards_evenly_in_their_order(db: Database) -> None:
    w = group_world(db, asks(50), [effect([])])
    await w.chat()

    await w.settle()

    groups = w.surface.groups()
    assert [len(group.cards) for group in groups] == [13, 13, 13, 11]
    shown = [card.arguments[0].value for group in groups for card in group.cards]
    assert shown == [f"A{number}" for number in range(50)]


async def test_only_the_calls_that_need_an_approval_are_counted(db: Database) -> None:
    effects: list[str] = []
    look = effect(effects, "look", approval="never")
    w = group_world(db, asks(4) + asks(3, name="look"), [effect(effects), look])
    await w.chat()

    await w.settle()

    assert len(w.surface.cards()) == 4
    assert sorted(effects) == ["look A0", "look A1", "look A2"]


async def test_a_surface_that_shows_them_apart_is_given_no_shared_card(sqlite_db: Database) -> None:
    w = group_world(sqlite_db, asks(9), [effect([])])
    w.surface.together = None
    await w.chat()

    await w.settle()

    assert len(w.surface.cards()) == 9


# Deciding


@pytest.mark.row("B27")
async def test_all_at_once_run_once_each_with_their_own_arguments(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(7), [effect(effects)])
    chat = await w.chat()
    await w.settle()

    response = await decide(w, w.surface.groups()[0])
    assert effects == []
    await w.settle()

    assert response == Response(done=True)
    assert sorted(effects) == [f"refund A{number}" for number in range(7)]
    assert await returned(chat) == [f"refund A{number} done" for number in range(7)]
    (group,) = w.surface.groups()
    assert states(group) == [CardState.DONE] * 7
    assert all(card.outcome.startswith("Approved by ben") for card in group.cards)
    assert await chat.last_reply() == "Done."


@pytest.mark.row("B26")
async def test_selected_ones_are_decided_and_the_others_stay_as_they_are(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(7), [effect(effects)])
    chat = await w.chat()
    await w.settle()

    assert (await decide(w, w.surface.groups()[0], only=[0, 2, 4])).done
    await w.settle()
    assert sorted(effects) == ["refund A0", "refund A2", "refund A4"]

    assert (await decide(w, w.surface.groups()[0], Verb.DECLINE, only=[1, 3])).done
    await w.settle()
    assert sorted(effects) == ["refund A0", "refund A2", "refund A4"]
    assert len(await chat.pending_questions()) == 2
    done, refused, waiting = CardState.DONE, CardState.REFUSED, CardState.OPEN
    (group,) = w.surface.groups()
    assert states(group) == [done, refused, done, refused, done, waiting, waiting]

    assert (await decide(w, group)).done
    await w.settle()
    assert sorted(effects) == [f"refund A{number}" for number in (0, 2, 4, 5, 6)]
    assert not w.surface.groups()[0].open
    assert w.surface.posts == 2  # the card and the answer
    assert (await returned(chat))[1] == "The user denied the call to refund."


@pytest.mark.row("B35")
async def test_a_hundred_pending_calls_take_one_transaction_each(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(100), [effect(effects)], limit=100)
    await w.chat()
    await w.settle()
    written: Counter[str] = Counter()
    db.points = lambda point: written.update([point])

    for group in w.surface.groups():
        assert (await decide(w, group)).done

    assert written == {"before decide": 100, "after decide": 100}
    db.points = lambda point: None
    await w.settle()
    assert sorted(effects) == sorted(f"refund A{number}" for number in range(100))


async def test_one_button_of_a_shared_card_decides_one_call(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(5), [effect(effects)])
    chat = await w.chat()
    await w.settle()

    (second,) = [one for one in await chat.pending_questions() if one.arguments["order"] == "A1"]
    await second.approve(by=BEN)
    await w.settle()

    assert effects == ["refund A1"]
    (group,) = w.surface.groups()
    assert [card.open for card in group.cards] == [True, False, True, True, True]


async def test_whoever_asked_is_refused_and_nothing_is_decided(db: Database) -> None:
    effects: list[str] = []
    own = Policy(name="ops", approvers=frozenset({ANA.key, BEN.key}))
    w = group_world(db, asks(7), [effect(effects)], policies=[own])
    chat = await w.chat()
    await w.settle()

    for verb in (Verb.APPROVE, Verb.DECLINE):
        response = await decide(w, w.surface.groups()[0], verb, by=ANA)
        assert not response.done
        assert response.sentence == (
            "You asked the agent for this, so another approver has to decide."
        )
    await w.settle()

    assert effects == []
    assert len(await chat.pending_questions()) == 7
    assert len(await audited(chat, "refused")) == 14


async def test_each_call_is_authorised_by_its_own_policy(db: Database) -> None:
    effects: list[str] = []
    policies = [
        Policy(name="pay", tools=("pay",), approvers=frozenset({CYN.key})),
        BEN_APPROVES,
    ]
    tools = [effect(effects), effect(effects, "pay")]
    w = group_world(db, asks(3) + asks(3, name="pay"), tools, policies=policies)
    await w.chat()
    await w.settle()
    assert w.surface.groups()[0].deciders == tuple(sorted([BEN.key, CYN.key]))

    response = await decide(w, w.surface.groups()[0])
    await w.settle()

    assert not response.done
    assert response.sentence == (
        "3 of 6 were approved; 3 were refused: You are not among the approvers of pay "
        "(policy pay); nothing was decided."
    )
    assert sorted(effects) == ["refund A0", "refund A1", "refund A2"]
    assert len(w.surface.groups()[0].waiting) == 3


async def test_two_people_at_the_same_time_decide_each_call_once(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(7), [effect(effects)])
    chat = await w.chat()
    await w.settle()
    (group,) = w.surface.groups()

    yes, no = await asyncio.gather(
        decide(w, group), decide(w, group, Verb.DECLINE, by=CYN), return_exceptions=False
    )
    await w.settle()

    (group,) = w.surface.groups()
    made = await decisions(chat)
    assert Counter(Counter(one.question_id for one in made).values()) == {1: 7}
    approved = {one.question_id for one in made if one.verb == "approve"}
    assert len(effects) == len(approved) == states(group).count(CardState.DONE)
    assert states(group).count(CardState.REFUSED) == 7 - len(approved)
    written = await audited(chat, "decided")
    assert {row.question_id: row.actor for row in written} == {
        one.question_id: one.actor for one in made
    }
    for response, lost in ((yes, 7 - len(approved)), (no, len(approved))):
        assert response.done == (lost == 0)
        assert ("settled before" in response.sentence) == (lost > 0)


async def test_who_comes_second_is_told_how_many_were_settled_before(db: Database) -> None:
    w = group_world(db, asks(7), [effect([])])
    await w.chat()
    await w.settle()
    (group,) = w.surface.groups()
    await decide(w, group, only=[0, 1])

    late = await decide(w, group, Verb.DECLINE, by=CYN)
    nothing = await decide(w, group, by=CYN, only=[0, 1])
    again = await decide(w, group, Verb.DECLINE, by=CYN)

    assert late.sentence == "5 of 7 were declined; 2 were settled before."
    assert nothing.sentence == SETTLED
    assert again.sentence == SETTLED


async def test_whoever_decides_the_rest_is_not_told_of_their_own_decisions(db: Database) -> None:
    w = group_world(db, asks(5), [effect([])])
    await w.chat()
    await w.settle()
    (group,) = w.surface.groups()
    await decide(w, group, only=[0])

    assert await decide(w, group, Verb.DECLINE) == Response(done=True)
    assert (await decide(w, group)).sentence == SETTLED


async def test_what_cannot_be_shown_whole_is_refused_and_the_rest_is_approved(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.card.FILE_LIMIT", 1_000_000)
    effects: list[str] = []
    long = call("refund", order="x" * 1_000_001)
    w = group_world(db, [*asks(4), long], [effect(effects)])
    await w.chat()
    await w.settle()

    response = await decide(w, w.surface.groups()[0])
    await w.settle()

    assert response.sentence == (
        "4 of 5 were approved; 1 was refused: The arguments of refund are larger than 1 MB, too "
        "long to be shown here in full, so it cannot be approved here; decline it."
    )
    assert len(effects) == 4
    assert (await decide(w, w.surface.groups()[0], Verb.DECLINE)).done


async def test_nothing_selected_decides_nothing_and_says_so(db: Database) -> None:
    w = group_world(db, asks(5), [effect([])])
    chat = await w.chat()
    await w.settle()

    response = await decide(w, w.surface.groups()[0], only=[])

    assert response.sentence == "Select the calls first, then press the button again."
    assert len(await chat.pending_questions()) == 5


@pytest.mark.parametrize("forged", ["a call of another card", "another thread", "no such card"])
async def test_what_the_card_does_not_ask_for_is_not_decided(forged: str, db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(20), [effect(effects)])
    chat = await w.chat()
    await w.settle()
    first, second = w.surface.groups()
    event = GroupDecision(nonce=first.nonce, verb=Verb.APPROVE, actor=BEN, via="button")
    match forged:
        case "a call of another card":
            nonces = (second.nonce, "nonsense")
            event = GroupDecision(
                nonce=first.nonce, verb=Verb.APPROVE, actor=BEN, via="button", only=nonces
            )
        case "another thread":
            there = Place("slack", "T1", "C1", "elsewhere")
            event = GroupDecision(
                nonce=first.nonce, verb=Verb.APPROVE, actor=BEN, via="button", place=there
            )
        case _:
            event = GroupDecision(nonce="nonsense", verb=Verb.APPROVE, actor=BEN, via="button")

    response = await w.service.decide_together(event)
    await w.settle()

    assert response.sentence == ("There is no such question here; it may belong to another thread.")
    assert effects == []
    assert len(await chat.pending_questions()) == 20


# Crashes and a database that is away


async def test_killed_between_two_decisions_the_rest_is_decided_afterwards(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(7), [effect(effects)])
    chat = await w.chat()
    await w.settle()
    left = iter(range(3))

    def die(point: str) -> None:
        if point == "before decide" and next(left, None) is None:
            raise Killed

    db.points = die
    with pytest.raises(Killed):
        await decide(w, w.surface.groups()[0])
    db.points = lambda point: None
    w = await w.restart()
    await w.settle()

    assert sorted(effects) == ["refund A0", "refund A1", "refund A2"]
    (group,) = w.surface.groups()
    assert len(group.waiting) == 4
    assert (await decide(w, group)).done
    await w.settle()
    assert sorted(effects) == [f"refund A{number}" for number in range(7)]
    assert await w.here(chat).last_reply() == "Done."


async def test_a_card_posted_by_a_dead_process_decides_in_the_next(db: Database) -> None:
    effects: list[str] = []
    w = group_world(db, asks(6), [effect(effects)])
    await w.chat()
    await w.settle()
    w = await w.restart()

    assert (await decide(w, w.surface.groups()[0])).done
    await w.settle()

    assert sorted(effects) == [f"refund A{number}" for number in range(6)]
    assert w.surface.posts == 2


async def test_a_database_that_goes_away_in_between_is_told(sqlite_db: Database) -> None:
    effects: list[str] = []
    w = group_world(sqlite_db, asks(5), [effect(effects)])
    await w.chat()
    await w.settle()
    left = iter(range(2))

    def away(point: str) -> None:
        if point == "before decide" and next(left, None) is None:
            raise DatabaseUnavailable

    sqlite_db.points = away
    response = await decide(w, w.surface.groups()[0])
    sqlite_db.points = lambda point: None
    await w.settle()

    assert not response.done
    assert response.sentence == (
        "2 of 5 were approved; 3 were refused: The database is not answering; please try again "
        "in a minute. The card shows what was decided."
    )
    assert sorted(effects) == ["refund A0", "refund A1"]
