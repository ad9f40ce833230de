"""What the product did, judged by agentack, a program that we did not write: whatever ran was
approved, as it was shown, once, in time, and around no no (rows B71 and B72).

Every story is run on the product and exported from its rows (tests/agentack.py); the judge is a
process of its own. It is judged itself too: of each trace that it must refuse there is one that a
product with that very fault would have left.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.approvers import Policy
from bot.chat import Chat
from bot.question import NotAllowed, Verb
from bot.remember import THREAD, Remember
from bot.rules import Comparison, Condition
from bot.scripted import Step
from bot.surface import Command, Decision
from bot.timers import Expired
from storage import chats
from storage.database import Database
from storage.rules import Scope
from tests import agentack
from tests.agentack import Event, Witness
from tests.fakes.model import call
from tests.integration.test_mcp_judges import from_pypi
from tests.world import ANA, BEN, BEN_APPROVES, CYN, World, only_question, until, world

RULES = [f"ACK00{number}" for number in range(1, 10)]
TOOLS = ("refund", "wire", "shell")
POLICY = """\
version = 1
[approval]
max_age_seconds = 86400
single_use = true
exact_action_binding = true
stop_is_terminal = true
require_for = ["*:run"]
"""  # every tool of these stories asks; "propose" is what was refused before it could run


CHECK = """\
import sys
from agentack.cli import main
for n in range(int(sys.argv[1])):
    code = main(["check", f"{n}.jsonl", "--policy", "policy.toml", "--json", f"{n}.json"])
    assert code in (0, 1, 3)
"""  # its command, once for each trace


@pytest.fixture(scope="module")
def judge() -> Path:
    """The Python that has it."""
    return from_pypi("agentack==0.6.3") / "python"


def judged(judge: Path, tmp_path: Path, *traces: Sequence[Event]) -> list[tuple[str, set[str]]]:
    """Of each: PASS, FAIL or INCOMPLETE, and the rules that are broken."""
    (tmp_path / "policy.toml").write_text(POLICY)
    for number, events in enumerate(traces):
        agentack.write(tmp_path / f"{number}.jsonl", events)
    command = [str(judge), "-I", "-c", CHECK, str(len(traces))]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    reports = [json.loads((tmp_path / f"{n}.json").read_text()) for n in range(len(traces))]
    return [(one["result"]["status"], set(one["result"]["rule_counts"])) for one in reports]


@dataclass
class Story:
    """A world with a chat in it, and what its tools tell of themselves."""

    world: World
    chat: Chat
    witness: Witness

    async def trace(self) -> list[Event]:
        return await agentack.trace(self.chat, self.witness)

    @property
    def runs(self) -> list[str]:
        return [args["order"] for runs in self.witness.runs.values() for args in runs]

    async def question(self) -> Any:
        return await only_question(self.chat)


async def begin(db: Database, *steps: Step, policies: Sequence[Policy] | None = None) -> Story:
    witness = Witness()
    tools = [witness.tool(name) for name in TOOLS]
    w = world(db, *steps, "Done.", tools=tools, policies=policies)
    chat = await w.chat()
    await w.settle()
    return Story(w, chat, witness)


TWO = Policy(name="two", approvers=frozenset({BEN.key, CYN.key}), quorum=2)
LARGE = Policy(
    name="large",
    when=(Condition("amount", Comparison.RANGE, [100, None]),),
    approvers=frozenset({CYN.key}),
)


async def approved(db: Database) -> Story:
    story = await begin(db, call("refund", order="A1"))
    story.world.clock.advance(30)
    await (await story.question()).approve(by=BEN)
    story.world.clock.advance(30)
    await story.world.settle()
    assert story.runs == ["A1"]
    return story


async def declined_and_tried_again(db: Database) -> Story:
    story = await begin(db, call("refund", order="A1"), call("refund", order="A1"))
    await (await story.question()).decline(by=BEN)
    await story.world.settle()
    assert story.runs == []
    return story


async def declined_and_wrapped(db: Database) -> Story:
    """The model tries the same by another tool, which asks anew, and another person says yes."""
    wrapped = call("shell", order="refund A1")
    story = await begin(db, call("refund", order="A1"), call("wire", order="A1"), wrapped)
    await (await story.question()).decline(by=BEN)
    await story.world.settle()
    await (await story.question()).decline(by=BEN)
    await story.world.settle()
    await (await story.question()).approve(by=BEN)
    await story.world.settle()
    assert story.runs == ["refund A1"]
    return story


async def stopped(db: Database) -> Story:
    story = await begin(db, [call("refund", order="A1"), call("wire", order="A2")])
    async with db.read() as tx:
        row = await chats.get(tx, story.chat.id)
    assert row is not None
    await story.world.service.command(Command(name="stop", actor=ANA, place=row.place))
    await story.world.settle()
    assert story.runs == []
    return story


async def of_two_people(db: Database) -> Story:
    story = await begin(db, call("refund", order="A1"), policies=[TWO])
    question = await story.question()
    await question.approve(by=BEN)
    await story.world.settle()
    assert story.runs == []
    await question.approve(by=CYN)
    await story.world.settle()
    assert story.runs == ["A1"]
    return story


async def remembered(db: Database) -> Story:
    story = await begin(db, *(call("refund", order=order) for order in ("A1", "A2", "A3")))
    await (await story.question()).approve(by=BEN, remember=THREAD)
    await story.world.settle()
    assert story.runs == ["A1", "A2", "A3"]
    return story


async def edited(db: Database) -> Story:
    story = await begin(db, call("refund", order="A1", amount=50), policies=[LARGE, BEN_APPROVES])
    question = await story.question()
    with pytest.raises(NotAllowed):
        await question.approve(by=BEN, arguments={"order": "A1", "amount": 500})
    await question.approve(by=BEN, arguments={"order": "A9", "amount": 60})
    await story.world.settle()
    assert story.runs == ["A9"]
    return story


async def judged_by_another_policy(db: Database) -> Story:
    """What was approved became another approver's matter before it ran."""
    story = await begin(db, call("refund", order="A1", amount=150))
    await (await story.question()).approve(by=BEN)
    w = await story.world.restart(policies=[LARGE, BEN_APPROVES])
    await w.settle()
    assert story.runs == []
    story = replace(story, world=w, chat=w.here(story.chat))
    await (await story.question()).approve(by=CYN)
    await w.settle()
    assert story.runs == ["A1"]
    return story


async def lost(db: Database, answer: str) -> Story:
    witness = Witness(stays=1)
    w = world(db, call("refund", order="A1"), "Done.", tools=[witness.tool()])
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).approve(by=BEN)
    dying = asyncio.create_task(w.settle())
    await until(lambda: bool(witness.runs))
    w = await w.restart()
    await w.settle()
    story = Story(w, w.here(chat), witness)
    assert story.runs == ["A1"]
    await (await story.question()).answer(outcome=answer, by=BEN)
    await w.settle()
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    return story


async def run_again(db: Database) -> Story:
    story = await lost(db, "again")
    assert story.runs == ["A1", "A1"]
    return story


async def given_up(db: Database) -> Story:
    return await lost(db, "give_up")


SOON = replace(BEN_APPROVES, expires_after=3_600.0)
MAKER = replace(BEN_APPROVES, rule_makers=frozenset({BEN.key}))


async def approved_in_time(db: Database) -> Story:
    story = await begin(db, call("refund", order="A1"), policies=[SOON])
    story.world.clock.advance(3_599)
    await (await story.question()).approve(by=BEN)
    await story.world.settle()
    assert story.runs == ["A1"]
    return story


async def expired(db: Database) -> Story:
    story = await begin(db, call("refund", order="A1"), policies=[SOON])
    question = await story.question()
    story.world.clock.advance(3_600)
    with pytest.raises(Expired):
        await question.approve(by=BEN)
    await story.world.settle()
    assert story.runs == []
    return story


async def asked_again(db: Database) -> Story:
    steps = call("refund", order="A1"), "Nobody decided.", call("refund", order="A1")
    story = await begin(db, *steps, policies=[SOON])
    old = await story.question()
    story.world.clock.advance(3_600)
    await story.world.settle()
    told = await story.world.service.ask_again(old.nonce, BEN, via="button")
    assert told.done
    await story.world.settle()
    await (await story.question()).approve(by=BEN)
    await story.world.settle()
    assert story.runs == ["A1"]
    return story


async def remembered_widely(db: Database) -> Story:
    """The chat is another one of the channel, which nobody is asked in."""
    steps = call("refund", order="A1"), "Done.", call("refund", order="A2")
    story = await begin(db, *steps, policies=[MAKER])
    await (await story.question()).approve(by=BEN, remember=Remember(scope=Scope.CHANNEL))
    await story.world.settle()
    assert story.runs == ["A1"]
    story.witness.runs.clear()
    other = await story.world.chat()
    await story.world.settle()
    assert story.runs == ["A1"]
    return replace(story, chat=other)


async def edited_in_the_form(db: Database) -> Story:
    story = await begin(db, call("refund", order="A1", amount=50))
    question = await story.question()
    sent = Decision(
        nonce=question.nonce,
        verb=Verb.APPROVE,
        actor=BEN,
        via="slack modal",
        edited={"order": "A9", "amount": "60"},
    )
    assert (await story.world.service.decide(sent)).done
    assert not (await story.world.service.decide(replace(sent, edited={"order": "A8"}))).done
    await story.world.settle()
    assert story.runs == ["A9"]
    return story


async def repeated(db: Database) -> Story:
    """Its process was lost in a run that does no harm when it is done twice."""
    witness = Witness(stays=1, idempotent=True)
    w = world(db, call("refund", order="A1"), "Done.", tools=[witness.tool()])
    chat = await w.chat()
    await w.settle()
    await (await only_question(chat)).approve(by=BEN)
    dying = asyncio.create_task(w.settle())
    await until(lambda: bool(witness.runs))
    w = await w.restart()
    await w.settle()
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    return Story(w, w.here(chat), witness)


async def two_of_one_response(db: Database) -> Story:
    story = await begin(db, [call("refund", order="A1"), call("wire", order="A2")])
    by_tool = {one.tool: one for one in await story.chat.pending_questions()}
    await by_tool["refund"].decline(by=BEN)
    await by_tool["wire"].approve(by=BEN)
    await story.world.settle()
    assert story.runs == ["A2"]
    return story


async def prose_between(db: Database) -> Story:
    story = await begin(db, call("refund", order="A1"), "I see.")
    question = await story.question()
    for text in ("approve", "yes, do it", question.nonce, "lgtm"):
        await story.chat.queue(text, by=BEN)
        await story.world.settle()
    assert story.runs == []
    await question.decline(by=BEN)
    await story.world.settle()
    assert story.runs == []
    return story


Telling = Callable[[Database], Awaitable[Story]]

STORIES: list[Telling] = [
    approved,
    declined_and_tried_again,
    declined_and_wrapped,
    stopped,
    of_two_people,
    remembered,
    edited,
    judged_by_another_policy,
    run_again,
    given_up,
    two_of_one_response,
    prose_between,
    approved_in_time,
    expired,
    asked_again,
    remembered_widely,
    edited_in_the_form,
]


@pytest.mark.row("B71")
@pytest.mark.row("B72")
@pytest.mark.parametrize("tell", STORIES, ids=lambda one: one.__name__)
async def test_what_the_product_did_passes_the_judge(
    tell: Telling, sqlite_db: Database, judge: Path, tmp_path: Path
) -> None:
    story = await tell(sqlite_db)

    events = await story.trace()

    runs = [one for one in events if one["type"] == "action_executed"]
    assert len(runs) == len(story.runs)
    assert judged(judge, tmp_path, events) == [("PASS", set())]


# The judge is judged: what a product with a fault would have left


def one_of(events: Sequence[Event], kind: str) -> Event:
    return next(one for one in events if one["type"] == kind)


def not_asked(events: list[Event]) -> None:
    del one_of(events, "action_executed")["approval_id"]


def ran_after_a_no(events: list[Event]) -> None:
    one_of(events, "approval_decision")["decision"] = "deny"


def ran_with_other_arguments(events: list[Event]) -> None:
    one_of(events, "action_executed")["action"]["parameters"] = {"digest": "other"}


def ran_twice(events: list[Event]) -> None:
    run = one_of(events, "action_executed")
    events.insert(events.index(run), dict(run))


def ran_too_late(events: list[Event]) -> None:
    decision = one_of(events, "approval_decision")
    decision["expires_at"] = decision["timestamp"]


def ran_before_the_decision(events: list[Event]) -> None:
    run = one_of(events, "action_executed")
    events.remove(run)
    events.insert(events.index(one_of(events, "approval_decision")), run)


def ran_around_the_no(events: list[Event]) -> None:
    """The other tool did what was declined, with no question of its own."""
    run = one_of(events, "action_executed")
    approval = run.pop("approval_id")
    for one in [one for one in events if one.get("approval_id") == approval]:
        events.remove(one)


def ran_after_the_stop(events: list[Event]) -> None:
    stop = dict(one_of(events, "session_end"), type="interrupt")
    events.insert(events.index(one_of(events, "action_executed")), stop)


def ran_after_the_deadline(events: list[Event]) -> None:
    """Although the approval itself came in time."""
    until = one_of(events, "approval_decision")["expires_at"]
    late = datetime.fromisoformat(until) + timedelta(seconds=1)
    for kind in ("action_executed", "session_end"):
        one_of(events, kind)["timestamp"] = late.isoformat()


def silence_approved(events: list[Event]) -> None:
    """What nobody decided ran all the same."""
    no = one_of(events, "approval_decision")
    proposed = one_of(events, "action_proposed")
    run = dict(proposed, type="action_executed", timestamp=no["timestamp"])
    events.insert(events.index(no) + 1, {**run, "approval_id": no["approval_id"]})


def ran_by_the_old_approval(events: list[Event]) -> None:
    """What was asked again ran by the question that had expired."""
    old = one_of(events, "approval_requested")["approval_id"]
    one_of(events, "action_executed")["approval_id"] = old


def ran_as_it_was(events: list[Event]) -> None:
    """It was approved with other arguments, and ran with those of the model."""
    asked = one_of(events, "action_proposed")["action"]
    one_of(events, "action_executed")["action"] = asked


def left_no_decision(events: list[Event]) -> None:
    events.remove(one_of(events, "approval_decision"))


FAULTS: list[tuple[Telling, Callable[[list[Event]], None], str]] = [
    (approved, not_asked, "ACK001"),
    (approved, ran_after_a_no, "ACK002"),
    (approved, ran_with_other_arguments, "ACK003"),
    (edited, ran_with_other_arguments, "ACK003"),
    (approved, ran_twice, "ACK004"),
    (remembered, ran_twice, "ACK004"),
    (approved, ran_too_late, "ACK005"),
    (approved, ran_before_the_decision, "ACK006"),
    (of_two_people, ran_before_the_decision, "ACK006"),
    (declined_and_wrapped, ran_around_the_no, "ACK007"),
    (approved, ran_after_the_stop, "ACK008"),
    (approved, left_no_decision, "ACK009"),
    (approved_in_time, ran_after_the_deadline, "ACK005"),
    (expired, silence_approved, "ACK002"),
    (asked_again, ran_by_the_old_approval, "ACK003"),
    (remembered_widely, not_asked, "ACK001"),
    (remembered_widely, ran_twice, "ACK004"),
    (edited_in_the_form, ran_as_it_was, "ACK003"),
]


async def test_the_judge_refuses_the_trace_of_a_product_with_a_fault(
    sqlite_db: Database, judge: Path, tmp_path: Path
) -> None:
    assert {rule for *_, rule in FAULTS} == set(RULES)
    tellings = dict.fromkeys(tell for tell, *_ in FAULTS)
    told = {tell: await (await tell(sqlite_db)).trace() for tell in tellings}
    traces = []
    for tell, fault, _ in FAULTS:
        traces.append(deepcopy(told[tell]))
        fault(traces[-1])

    found = judged(judge, tmp_path, *traces)

    for (tell, fault, broken), (status, rules) in zip(FAULTS, found, strict=True):
        about = (tell.__name__, fault.__name__)
        assert broken in rules, about
        assert status == ("INCOMPLETE" if rules == {"ACK009"} else "FAIL"), about


async def test_a_product_that_ran_something_else_than_it_recorded_is_found_out(
    sqlite_db: Database, judge: Path, tmp_path: Path
) -> None:
    story = await approved(sqlite_db)
    (runs,) = story.witness.runs.values()
    runs[0] = {**runs[0], "amount": 1_000}
    assert judged(judge, tmp_path, await story.trace()) == [("FAIL", {"ACK003"})]


async def test_only_what_is_declared_harmless_may_run_twice_by_one_approval(
    sqlite_db: Database, judge: Path, tmp_path: Path
) -> None:
    story = await repeated(sqlite_db)
    assert story.runs == ["A1", "A1"]
    harmless = await story.trace()
    assert sum(one["type"] == "action_executed" for one in harmless) == 1
    story.witness.idempotent = False  # as if a product had repeated any other call like that

    found = judged(judge, tmp_path, harmless, await story.trace())

    assert found == [("PASS", set()), ("FAIL", {"ACK004"})]


async def test_a_run_that_no_row_tells_of_is_found_out(
    sqlite_db: Database, judge: Path, tmp_path: Path
) -> None:
    story = await declined_and_tried_again(sqlite_db)
    [declined, _] = await story.chat.calls()
    story.witness.runs[declined.id].append({"order": "A1", "amount": 1})
    [(status, rules)] = judged(judge, tmp_path, await story.trace())
    assert (status, "ACK001" in rules) == ("FAIL", True)


async def test_what_still_waits_is_no_whole_trace(
    sqlite_db: Database, judge: Path, tmp_path: Path
) -> None:
    story = await begin(sqlite_db, call("refund", order="A1"))
    assert judged(judge, tmp_path, await story.trace()) == [("INCOMPLETE", {"ACK009"})]


def test_every_rule_of_the_judge_is_known_here(judge: Path) -> None:
    said = subprocess.run(
        [judge, "-m", "agentack", "rules"], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[0] for line in said.splitlines()] == RULES
