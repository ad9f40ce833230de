"""The lines of the matrix (`authority.TABLE`) that are about the console."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
import sqlalchemy as sa

from bot import rulebook
from bot.approvers import Policies
from bot.surface import Actor
from storage import schema
from storage.database import Database
from tests.fakes.model import call
from tests.scenario import authority, authority_ways
from tests.scenario.authority import COUNTS, KINDS, SENTENCES, rule_of
from tests.scenario.test_console import Terminal


@dataclass(frozen=True)
class Typed:
    """What is typed, and what follows where it counts; what the question then is. `asks`: what
    waits; `policy` of it, where it is nothing to who may."""

    line: str
    then: tuple[str, ...] = ()
    becomes: str = "approved"
    asks: str = "refund"
    policy: str = ""
    recorded: bool = True


CONSOLE: Final = {
    "console approve": Typed("/approve 1"),
    "console decline": Typed("/decline 1 no", becomes="declined"),
    "console edit": Typed("/edit 1", ("A2", "", ""), recorded=False),
    "console remember": Typed("/remember 1"),
    "console answer": Typed(
        "/answer 1", ("because",), becomes="answered", asks="fill", recorded=False
    ),
    "console again": Typed("/again 1", becomes="expired", policy="brief"),
    "console rule": Typed(f"/{authority_ways.RULE}", becomes="open", policy="named"),
    "console revoke": Typed("/rules revoke {rule}", becomes="open", policy="named"),
}
CELLS: Final = [
    (name, kind, code)
    for name, codes in authority.read().items()
    if name in CONSOLE
    for kind, code in codes.items()
]


def at_a_console(given: Policies) -> Policies:
    """The same people, who sit at a console."""

    def moved(key: str) -> str:
        return key.replace("slack:T1/U_", "console:local/")

    def all_of(some: frozenset[str]) -> frozenset[str]:
        return frozenset(map(moved, some))

    return Policies(
        [
            replace(
                one,
                approvers=all_of(one.approvers),
                escalate_to=all_of(one.escalate_to),
                rule_makers=all_of(one.rule_makers),
            )
            for one in given.policies
        ],
        people={moved(key): name for key, name in given.people.items()},
    )


def person(kind: str) -> Actor:
    return Actor("console", "local", KINDS[kind].user.removeprefix("U_"))


@pytest.mark.row("B2")
@pytest.mark.row("B6")
@pytest.mark.row("B70")
@pytest.mark.parametrize(("name", "kind", "code"), CELLS, ids=[" ".join(one) for one in CELLS])
async def test_who_may_do_what_at_a_console(
    name: str, kind: str, code: str, sqlite_db: Database
) -> None:
    effects: list[str] = []
    way, who = CONSOLE[name], person(kind)
    asking = call(way.asks, who=way.policy or KINDS[kind].policy, order="A1")
    terminal = Terminal(
        sqlite_db, asking, "Done.", "So be it.", tools=authority_ways.tools(effects)[0]
    )
    core = terminal.world.core
    core.policies = at_a_console(authority.policies())
    await terminal.types("please", who=person("rq"))
    core.policies = at_a_console(authority.policies(removed=True))
    terminal.world.clock.advance(authority.LATER / 2)
    await terminal.types(who=who)
    rule = await rulebook.make(core, rule_of(person("mk")), by=person("mk"), via="test")

    lines = [way.line.format(rule=rule.id), *(way.then if code == COUNTS else ())]
    told = await terminal.types(*lines, who=who)

    async def rows(table: sa.Table, *where: Any) -> list[Any]:
        async with sqlite_db.read() as tx:
            return list(await tx.run(sa.select(table).where(*where)))

    question = (await rows(schema.questions))[0]
    rules = [one for one in await rows(schema.rules) if one.id != rule.id]
    revoked = await rows(schema.rules, schema.rules.c.revoked_at.is_not(None))
    on_record = [one.actor for one in await rows(schema.audit, schema.audit.c.event == "refused")]
    again = await rows(schema.audit, schema.audit.c.event == "asked_again")
    if code == COUNTS:
        assert on_record == []
        assert question.state == way.becomes
        if way.becomes in ("approved", "declined", "answered"):
            assert question.settled_by == who.key
        ran = {"console edit": ["A2"], "console decline": []}.get(name, ["A1"])
        assert effects == (ran if way.becomes not in ("open", "expired") else [])
    else:
        assert SENTENCES[code] in told
        assert (question.state, effects) == ("open", [])
        assert on_record == ([who.key] if way.recorded else [])
    made = code == COUNTS and name in ("console rule", "console remember")
    assert [one.created_by for one in rules] == ([who.key] if made else [])
    ended = code == COUNTS and name == "console revoke"
    assert [one.id for one in revoked] == ([rule.id] if ended else [])
    asked = code == COUNTS and name == "console again"
    assert [one.actor for one in again] == ([who.key] if asked else [])
