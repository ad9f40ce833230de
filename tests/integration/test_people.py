"""One person under several keys, by an address that the surfaces verified: refused as one, and
never allowed anything by it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from bot.approvers import ANYONE, REQUESTER, Policies, Policy
from bot.chat import Chat
from bot.identity import same_people
from bot.question import Question, Verb
from bot.remember import THREAD
from bot.scripted import Step
from bot.surface import Actor, Command, Decision, Message, Place, Response
from storage import people
from storage.database import Database
from storage.schema import metadata
from storage.schema import people as people_table
from tests.fakes.model import call
from tests.integration.test_races import place_of
from tests.world import ANA, BEN, CYN, World, audited, effect, only_question, world

ADDRESS = "ana@acme.test"
ANA_HERE = replace(ANA, email=ADDRESS)
ANA_THERE = Actor("slack", "T2", "U2", "ana too", is_external=True)  # as T1 sees them
BEN_HERE = replace(BEN, email="ben@acme.test")
BEN_THERE = Actor("slack", "T2", "U3", "ben too", is_external=True)
OPS = Policy(name="ops", approvers=frozenset({ANA_THERE.key, BEN.key}))
TWO = Policy(
    name="two", approvers=frozenset({BEN.key, BEN_THERE.key, ANA_THERE.key, CYN.key}), quorum=2
)


async def pending(
    db: Database, effects: list[str], policy: Policy = OPS, *, by: Actor = ANA_HERE
) -> tuple[World, Chat, Question]:
    w = world(db, call("refund"), "Done.", tools=[effect(effects)], policies=[policy])
    chat = await w.chat(by=by)
    await w.settle()
    return w, chat, await only_question(chat)


async def at_home(w: World, actor: Actor, address: str | None) -> None:
    """The person types a command in their own workspace, which has verified this address."""
    own = replace(actor, is_external=False, email=address)
    place = Place("slack", own.organisation, f"D-{own.user}", "")
    event = Command(name="help", actor=own, place=place, keys=(f"help {own.key}",))
    await w.service.command(event)


async def press(w: World, question: Question, by: Actor, verb: Verb = Verb.APPROVE) -> Response:
    event = Decision(nonce=question.nonce, verb=verb, actor=by, via="button")
    answer = await w.service.decide(event)
    await w.settle()
    return answer


async def linked_world(
    db: Database, effects: list[str], policy: Policy = OPS
) -> tuple[World, Question]:
    """Ana asks, and has a second account in another workspace; so has Ben."""
    w, _, question = await pending(db, effects, policy)
    await at_home(w, ANA_THERE, " Ana@ACME.test ")
    await at_home(w, BEN_THERE, "ben@acme.test")
    return w, question


@pytest.mark.row("B6")
async def test_who_asked_does_not_approve_from_another_workspace_with_the_same_address(
    db: Database,
) -> None:
    effects: list[str] = []
    w, question = await linked_world(db, effects)

    refused = await press(w, question, ANA_THERE)

    assert refused.sentence == "You asked the agent for this, so another approver has to decide."
    assert effects == []
    assert (await press(w, question, BEN)).done
    assert effects == ["refund A1"]


async def test_without_an_address_two_accounts_are_two_people(sqlite_db: Database) -> None:
    effects: list[str] = []
    w, _, question = await pending(sqlite_db, effects, by=ANA)
    await at_home(w, ANA_THERE, ADDRESS)

    assert (await press(w, question, ANA_THERE)).done
    assert effects == ["refund A1"]


@pytest.mark.parametrize("actor", [CYN, replace(CYN, email="ben@acme.test")])
async def test_an_approvers_address_makes_nobody_an_approver(
    sqlite_db: Database, actor: Actor
) -> None:
    ben = Policy(name="ben", approvers=frozenset({BEN.key}))
    w, question = await linked_world(sqlite_db, [], ben)
    await at_home(w, BEN, "ben@acme.test")

    for by in (actor, BEN_THERE):
        assert not (await press(w, question, by)).done


async def test_the_requesters_address_makes_nobody_the_requester(sqlite_db: Database) -> None:
    effects: list[str] = []
    own = Policy(name="own", approvers=frozenset({REQUESTER}))
    w, question = await linked_world(sqlite_db, effects, own)

    assert not (await press(w, question, replace(CYN, email=ADDRESS))).done
    assert effects == []


async def test_an_approver_who_may_be_the_requester_approves_where_that_is_allowed(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    trusting = replace(OPS, self_approval=True)
    w, question = await linked_world(sqlite_db, effects, trusting)

    assert (await press(w, question, ANA_THERE)).done
    assert effects == ["refund A1"]


async def test_anyone_but_the_requester_is_nobody_with_their_address(
    sqlite_db: Database,
) -> None:
    w, _, question = await pending(sqlite_db, [], Policy(name="p", approvers=frozenset({ANYONE})))

    assert not (await press(w, question, replace(CYN, email=ADDRESS))).done
    assert not (await press(w, question, CYN)).done  # it is remembered
    assert (await press(w, question, BEN)).done


@pytest.mark.row("B10")
async def test_two_accounts_with_one_address_are_one_voice_of_a_quorum(db: Database) -> None:
    effects: list[str] = []
    w, question = await linked_world(db, effects, TWO)

    first = await press(w, question, BEN_HERE)
    again = await press(w, question, BEN_THERE)

    assert first.sentence == "Recorded: 1 of 2."
    assert again.sentence.startswith("You approved this before, and somebody else has to")
    assert effects == []
    assert (await press(w, question, CYN)).done
    assert effects == ["refund A1"]


async def test_the_order_in_which_two_accounts_approve_does_not_matter(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    w, question = await linked_world(sqlite_db, effects, TWO)

    await press(w, question, BEN_THERE)  # ben was not heard of with an address yet

    assert not (await press(w, question, BEN_HERE)).done
    assert effects == []


async def test_what_turns_out_to_be_one_person_before_it_runs_is_asked_about_again(
    db: Database,
) -> None:
    effects: list[str] = []
    w, chat, question = await pending(db, effects, TWO)
    await at_home(w, BEN_THERE, "ben@acme.test")
    await press(w, question, BEN)
    event = Decision(nonce=question.nonce, verb=Verb.APPROVE, actor=BEN_THERE, via="button")
    assert (await w.service.decide(event)).done

    async with w.db.transaction("test_learn") as tx:
        (row,) = await digests(w, BEN_THERE)
        await people.learn(tx, BEN.key, row, w.clock.now())
    await w.settle()

    assert effects == []
    again = await only_question(chat)
    await press(w, again, BEN)
    assert not (await press(w, again, BEN_THERE)).done
    await press(w, again, CYN)
    assert effects == ["refund A1"]


async def test_a_person_is_one_over_several_links_of_both_kinds(sqlite_db: Database) -> None:
    w, question = await linked_world(sqlite_db, [])
    elsewhere = Actor("console", "local", "ana")
    policy = Policy(name="c", approvers=frozenset({elsewhere.key, BEN.key}))
    w.core.policies = Policies([policy], people={ANA_THERE.key: "ana", elsewhere.key: "ana"})

    refused = await press(w, question, elsewhere)

    assert refused.sentence.startswith("You asked the agent for this")


async def test_links_are_followed_as_far_as_they_go(sqlite_db: Database) -> None:
    policies = Policies(people={"slack:T2/B": "b", "slack:T3/C": "b"})
    async with sqlite_db.transaction("test") as tx:
        for key, digest in (("T1/A", "1"), ("T2/B", "1"), ("T3/C", "2"), ("T4/D", "2")):
            await people.learn(tx, f"slack:{key}", digest * 64, 1.0)
        await people.learn(tx, "slack:T5/E", "3" * 64, 1.0)
        found = await same_people(tx, policies, ["slack:T1/A"])
    assert found == {"slack:T1/A", "slack:T2/B", "slack:T3/C", "slack:T4/D"}


async def test_an_approval_that_is_remembered_is_no_approval_of_what_its_giver_asks_for(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    first, second, third = (call("refund", order=f"A{number}") for number in (1, 2, 3))
    steps: list[Step] = [first, "Done.", second, "Done.", third]
    policy = Policy(name="ops", approvers=frozenset({BEN.key, CYN.key}))
    w = world(sqlite_db, *steps, tools=[effect(effects)], policies=[policy])
    chat = await w.chat(by=ANA_HERE)
    await w.settle()
    await (await only_question(chat)).approve(by=BEN_HERE, remember=THREAD)
    await w.settle()

    twin = replace(BEN_THERE, is_external=False, email="ben@acme.test")
    await chat.say("again", by=twin)
    await w.settle()
    assert effects == ["refund A1"]
    question = await only_question(chat)
    assert question.arguments == {"order": "A2"}
    assert await audited(chat, "rule_used") == []
    await question.approve(by=CYN)
    await w.settle()
    await chat.say("again", by=ANA_HERE)
    await w.settle()

    assert effects == ["refund A1", "refund A2", "refund A3"]


async def test_a_rule_whose_giver_turns_out_to_have_asked_before_it_runs_does_not_count(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    policy = Policy(name="ops", approvers=frozenset({BEN.key}))
    steps: list[Step] = [call("refund"), "Done.", call("refund", order="A2"), "Done."]
    w = world(sqlite_db, *steps, tools=[effect(effects)], policies=[policy])
    chat = await w.chat(by=ANA_HERE)
    await w.settle()
    await (await only_question(chat)).approve(by=BEN_HERE, remember=THREAD)
    await w.settle()

    await chat.say("again", by=ANA_HERE)
    while not await audited(chat, "rule_used"):
        await chat.step()
    async with w.db.transaction("test_learn") as tx:
        (digest,) = await digests(w, BEN)
        await people.learn(tx, ANA.key, digest, w.clock.now())
    await w.settle()

    assert effects == ["refund A1"]


async def test_a_rule_that_lets_a_call_run_ends_when_its_giver_is_who_asked(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    policy = Policy(name="ops", approvers=frozenset({BEN.key, CYN.key}))
    steps: list[Step] = [call("refund"), "Done.", call("refund", order="A2")]
    w = world(sqlite_db, *steps, tools=[effect(effects)], policies=[policy])
    chat = await w.chat(by=ANA)
    await w.settle()
    await (await only_question(chat)).approve(by=BEN, remember=THREAD)
    await w.settle()

    await chat.say("again", by=BEN)
    await w.settle()

    assert effects == ["refund A1"]
    assert (await only_question(chat)).arguments == {"order": "A2"}


async def test_who_may_be_the_requester_is_not_offered_what_they_cannot_decide(
    sqlite_db: Database,
) -> None:
    policy = Policy(name="p", approvers=frozenset({ANYONE}))
    w, _, question = await pending(sqlite_db, [], policy)
    await press(w, question, replace(CYN, email=ADDRESS))

    assert (await w.service.inbox(CYN, "T1", 1)).text == "Nothing waits for you."
    assert (await w.service.home(CYN, "T1", 1)).waiting == ()
    assert len((await w.service.home(BEN, "T1", 1)).waiting) == 1
    look = await w.service.look(question.nonce, Verb.APPROVE, CYN)
    assert look.card is None


async def digests(w: World, actor: Actor) -> list[str]:
    async with w.db.read() as tx:
        mine = people_table.c.key == actor.key
        found = await tx.run(sa.select(people_table.c.email_digest).where(mine))
        return [str(one) for one in found.scalars()]


async def test_an_address_is_followed_as_it_changes_and_goes(db: Database) -> None:
    w, _, question = await pending(db, [])
    (before,) = await digests(w, ANA)

    for email in ("new@acme.test", None):
        await press(w, question, replace(ANA, email=email))
        (after,) = await digests(w, ANA)
        assert after != before
    await press(w, question, replace(ANA, email=""))

    assert await digests(w, ANA) == []


async def test_what_is_known_is_not_written_again(db: Database) -> None:
    async with db.transaction("test") as tx:
        await people.learn(tx, "slack:T1/A", "a" * 64, 1.0)
        await people.learn(tx, "slack:T2/A", "a" * 64, 1.0)
        await people.learn(tx, "slack:T2/B", "b" * 64, 1.0)
    async with db.read() as tx:  # which could not write
        await people.learn(tx, "slack:T1/A", "a" * 64, 2.0)
        await people.learn(tx, "slack:T1/Z", "", 2.0)
        assert await people.same(tx, ["slack:T1/A"]) == {"slack:T1/A", "slack:T2/A"}
        assert await people.same(tx, ["slack:T1/Z"]) == {"slack:T1/Z"}
        seen = await tx.value(sa.select(people_table.c.seen_at).limit(1))
    assert seen == 1.0


async def test_a_message_makes_its_writer_known(sqlite_db: Database) -> None:
    w, chat, _ = await pending(sqlite_db, [], by=ANA)
    assert await digests(w, ANA) == []

    event = Message(
        keys=("k",), place=await place_of(chat), actor=ANA_HERE, text="and now?", starts=False
    )
    await w.service.message(event)

    assert len(await digests(w, ANA)) == 1


async def test_addresses_are_kept_nowhere_in_clear(sqlite_db: Database) -> None:
    w, question = await linked_world(sqlite_db, [])
    await press(w, question, ANA_THERE)
    await press(w, question, BEN_HERE)

    async with w.db.read() as tx:
        rows = [str((await tx.run(sa.select(one))).all()) for one in metadata.sorted_tables]
    assert "acme.test" not in "".join(rows).casefold()
