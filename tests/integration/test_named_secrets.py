"""A password is hidden wherever its call is told of, not only on its card (row B59)."""

from __future__ import annotations

from typing import Any

import pytest

from bot.approvers import Policy
from bot.difference import difference, listed
from bot.listing import rule_line
from bot.remember import sentence
from bot.rules import Comparison, Condition, masked, told
from bot.surface import Command, Decision, Place, Verb
from bot.tool import tool
from storage import audit, scope
from storage.database import Database
from storage.scope import EVERYTHING
from tests.fakes.model import call
from tests.world import ANA, BEN, world

SECRET = "hunter2hunter2"
MAKES = Policy(name="ops", approvers=frozenset({BEN.key}), rule_makers=frozenset({BEN.key}))

pytestmark = pytest.mark.row("B59")


@tool(approval="always")
async def sign_in(user: str, password: str) -> str:
    """Signs in."""
    return "done"


async def test_a_password_that_is_remembered_or_asked_for_is_told_nowhere(
    sqlite_db: Database,
) -> None:
    asked = call("sign_in", user="ana", password=SECRET)
    w = world(sqlite_db, asked, tools=[sign_in], policies=[MAKES])
    chat = await w.chat()
    await w.settle()
    (question,) = await chat.pending_questions()
    choice: dict[str, Any] = {"what": "fields", "fields": ["password"]}
    choice |= {"where": "chat", "until": "1 day"}
    wanted = Decision(nonce=question.nonce, verb=Verb.APPROVE, actor=BEN, via="test", rule=choice)

    form = await w.service.remembering(question.nonce, BEN)
    shown = [repr([one.choices for one in form.fields]), (await w.service.preview(wanted)).sentence]
    shown.append((await w.service.decide(wanted)).sentence)
    await w.settle()
    async with w.db.read() as tx:
        ((rule, _),) = await scope.rules_in_force(tx, EVERYTHING, w.core.now())
        shown.append(repr(await audit.of_chat(tx, chat.id)))
    shown += [sentence(rule), rule_line(w.core, rule), repr(masked(rule.conditions))]
    place = Place("slack", "T1", "C1", "")
    command = Command(name="task", actor=ANA, place=place, argument=question.id)
    shown.append(await w.service.command(command))
    for one in shown:
        assert SECRET not in one
        assert "password hidden: 14 characters" in one
    assert rule.conditions[0]["value"] == SECRET  # what is compared is whole


@pytest.mark.parametrize(
    "condition",
    [
        Condition("password", Comparison.ONE_OF, [SECRET]),
        Condition("user.password", Comparison.EQUAL, SECRET),
        Condition("user", Comparison.EQUAL, {"password": [SECRET]}),
        Condition("password", Comparison.UNDER, SECRET),
    ],
)
def test_a_condition_says_and_logs_no_secret(condition: Condition) -> None:
    assert SECRET not in told([condition])
    assert SECRET not in repr(masked([condition.to_json()]))
    assert SECRET in repr(condition.to_json())


def test_a_changed_password_is_told_as_changed_alone() -> None:
    old, new = {"in": {"password": SECRET}}, {"in": {"password": "another-password"}}
    shown = listed(difference(old, new))
    assert SECRET not in shown
    assert "another-password" not in shown
    assert shown.count("password hidden") == 2
