"""The lines of the matrix (`authority.TABLE`) that are about Teams.

Some kinds of people are not in Teams: it has no user groups and tells nobody's role in a team."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

import pytest

from adapters.teams import actions, limits
from adapters.teams.transport import TeamsSurface
from bot.approvers import ANYONE, REQUESTER, Policies
from bot.surface import Pace
from storage.database import Database
from tests.fakes.teams import TENANT, FakeTeams
from tests.fakes.teams.server import OTHER_TENANT
from tests.scenario import authority, authority_ways
from tests.scenario.authority import KINDS
from tests.scenario.authority_floor import Asked, Floor, Way, hold
from tests.scenario.authority_teams import TEAMS, Try
from tests.scenario.teams_world import entra, product

__all__ = ["entra"]

ABSENT: Final = {
    "gm": "Teams has no user groups: `cm` is a member of an approving channel",
    "ad": "Teams does not tell who administers a team",
}
ONCALL, LEADS = "19:oncall@thread.tacv2", "19:leads@thread.tacv2"
USERS: Final = sorted({one.user for one in KINDS.values()})


def name(user: str) -> str:
    return user.removeprefix("U_").lower()


def person(user: str) -> str:
    return f"00000000-0000-0000-0001-{USERS.index(user):012}"


def in_teams(key: str) -> str:
    """The key of the same person, or of a channel with the same people, in Teams."""
    if key in (ANYONE, REQUESTER):
        return key
    team, _, user = key.removeprefix("slack:").partition("/")
    if user.startswith(("@", "#")):
        return f"teams:{TENANT}/#{ONCALL if user.startswith('@') else LEADS}"
    return f"teams:{TENANT if team == 'T1' else OTHER_TENANT}/{person(user)}"


def policies(*, removed: bool = False) -> Policies:
    given = authority.policies(removed=removed)

    def moved(some: frozenset[str]) -> frozenset[str]:
        return frozenset(map(in_teams, some))

    return Policies(
        [
            replace(
                one,
                approvers=moved(one.approvers),
                escalate_to=moved(one.escalate_to),
                rule_makers=moved(one.rule_makers),
            )
            for one in given.policies
        ],
        people={in_teams(key): who for key, who in given.people.items()},
    )


@dataclass(kw_only=True)
class Tenant(Floor[Try]):
    """The fake tenant with all kinds of people in it."""

    teams: FakeTeams
    surface: TeamsSurface
    told: str = ""
    before: int = 0  # messages that were there before the try

    def key(self, kind: str) -> str:
        one = self.teams.people[name(KINDS[kind].user)]
        return f"teams:{one.tenant}/{one.user}"

    async def mention(self, text: str) -> str:
        thread = await self.teams.mention("ana", text)
        return thread.partition(";messageid=")[2]

    def _thread(self, root: str) -> str:
        return f"{self.teams.channel};messageid={root}"

    def card(self, root: str) -> tuple[str, str] | None:
        shown = self.teams.in_thread(self._thread(root))
        found = next((one for one in shown if one.card), None)
        return None if found is None else (found.id, str(found.card))

    def ended(self, root: str) -> bool:
        return any("Done." in one.text for one in self.teams.in_thread(self._thread(root)))

    def public(self) -> int:
        written = [path for what, path in self.teams.calls if what in ("post", "put")]
        return sum("a:1chat" not in path for path in written)

    def forget(self, kind: str) -> None:
        self.teams.whispers.clear()
        self.told, self.before = "", len(self.teams.messages)
        self.surface._people._known.clear()

    def heard(self, kind: str, *, at_home: bool) -> str:
        who = name(KINDS[kind].user)
        alone, member = self.teams.personal(who), self.teams.people[who].member
        told = [one for one in self.teams.whispers if one.seen_by == member]
        told += [one for one in self.teams.messages[self.before :] if one.thread == alone]
        return "\n".join(one.text for one in told)

    def opened(self, kind: str, asked: Asked) -> bool:
        """A view has a way back to what stands there."""
        if actions.RULE_PREVIEW in self.told:
            return True
        back = actions.BACK in self.told or actions.HOME in self.told
        return back and any(one in self.told for one in asked.nonces)

    async def act(self, way: Way[Try], kind: str, asked: Asked, *, has: bool) -> str:
        there = replace(asked, root=self._thread(asked.root)) if asked.root else asked
        who = name(KINDS[kind].user)
        self.told = await way.act(Try(self.teams, who, there, has, kind == "bo")) or ""
        return self.told

    def removed(self) -> None:
        self.core.policies = policies(removed=True)
        self.teams.rosters[ONCALL].remove("lef")
        self.surface._groups._known.clear()


@asynccontextmanager
async def floor(db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tenant]:
    monkeypatch.setattr(limits, "MEMBER_SECONDS", 0.15)
    monkeypatch.setattr(limits, "REPEAT_SECONDS", 0.01)
    monkeypatch.setattr(TeamsSurface, "pace", Pace())
    monkeypatch.setattr(FakeTeams, "_judge", lambda _self, _card: None)  # others do, it takes time
    monkeypatch.setattr(TeamsSurface, "statuses", False)
    effects: list[str] = []
    tools, going_on = authority_ways.tools(effects)
    async with product(db, *authority_ways.steps(), tools=tools) as one:
        teams, surface = one.teams, one.core.surfaces["teams"]
        assert isinstance(surface, TeamsSurface)
        for user in USERS:
            flags = authority.ACCOUNTS.get(user, {})
            found = teams.add(name(user), person(user))
            found.role = "guest" if {*flags} & {"guest", "single_channel_guest"} else "user"
            found.tenant = OTHER_TENANT if "team" in flags else TENANT
            found.gone = "deleted" in flags
        teams.people["unk"].failing = True
        teams.people["slo"].slow = 0.5
        teams.rosters = {
            ONCALL: [name(one) for one in authority.GROUP[1]],
            LEADS: [name(one) for one in authority.CHANNEL[1] if one in USERS],
        }
        for channel in (ONCALL, LEADS):
            here = teams.activity("ana", channel, type="installationUpdate", action="add")
            assert (await teams.deliver(here)).status == 200
        one.core.policies = policies()
        yield Tenant(one.core, effects, going_on, teams=teams, surface=surface)


@pytest.mark.row("B1")
@pytest.mark.row("B2")
@pytest.mark.row("B3")
@pytest.mark.row("B6")
@pytest.mark.usefixtures("entra")
async def test_who_gets_where_by_which_way_in_teams(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with floor(sqlite_db, monkeypatch) as on:
        await hold(on, TEAMS, on.removed)


def test_every_kind_of_person_is_in_the_table_of_teams_or_cannot_be() -> None:
    tried = {kind for way in TEAMS for kind in authority.read()[way]}
    assert tried | set(ABSENT) == set(KINDS)
