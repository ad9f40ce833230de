"""The line of the matrix (`authority.TABLE`) that is about the console."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from bot.approvers import Policies
from bot.surface import Actor
from storage import schema
from storage.database import Database
from tests.fakes.model import call
from tests.scenario import authority, authority_ways
from tests.scenario.authority import COUNTS, KINDS, NOBODY, SENTENCES
from tests.scenario.test_console import Terminal

CODES = {kind: code for kind, code in authority.read()["console approve"].items() if code != NOBODY}


def at_a_console(given: Policies) -> Policies:
    """The same people, who sit at a console."""

    def moved(key: str) -> str:
        return key.replace("slack:T1/U_", "console:local/")

    return Policies(
        [replace(one, approvers=frozenset(map(moved, one.approvers))) for one in given.policies],
        people={moved(key): name for key, name in given.people.items()},
    )


@pytest.mark.row("B2")
@pytest.mark.row("B6")
@pytest.mark.parametrize("kind", CODES)
async def test_who_may_approve_at_a_console(kind: str, sqlite_db: Database) -> None:
    effects: list[str] = []
    who = Actor("console", "local", KINDS[kind].user.removeprefix("U_"))
    asking = call("refund", who=KINDS[kind].policy, order="A1")
    terminal = Terminal(sqlite_db, asking, "Done.", tools=authority_ways.tools(effects)[0])
    terminal.world.core.policies = at_a_console(authority.policies())
    await terminal.types("please", who=replace(who, user="ANA"))
    terminal.world.core.policies = at_a_console(authority.policies(removed=True))

    told = await terminal.types("/approve 1", who=who)

    async with sqlite_db.read() as tx:
        (question,) = await tx.run(sa.select(schema.questions))
        refused = schema.audit.c.event == "refused"
        on_record = [row.actor for row in await tx.run(sa.select(schema.audit).where(refused))]
    if CODES[kind] == COUNTS:
        assert f"Approved by {who.user}" in told
        assert (question.settled_by, effects, on_record) == (who.key, ["A1"], [])
    else:
        assert SENTENCES[CODES[kind]] in told
        assert (question.state, effects, on_record) == ("open", [], [who.key])
