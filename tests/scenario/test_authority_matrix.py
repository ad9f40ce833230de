"""Every way into the product on Slack, by every kind of person: who decides, who is refused and
how, and that a refusal changes nothing. What is expected is in one table, `authority.TABLE`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from adapters.slack import people, standing
from bot.surface import Pace
from storage.database import Database
from tests.fakes.slack import FakeSlack, text_of
from tests.fakes.slack.web import Bucket
from tests.scenario import authority, authority_ways
from tests.scenario.authority import KINDS
from tests.scenario.authority_floor import Asked, Floor, Way, hold
from tests.scenario.authority_hands import Try
from tests.scenario.authority_ways import GROUPS
from tests.scenario.slack_product import ANA, OPS, product

POSTING = ("chat.postMessage", "chat.update", "chat.delete", "chat.startStream")


@dataclass(kw_only=True)
class Workspace(Floor[Try]):
    """The fake workspace with all kinds of people in it."""

    slack: FakeSlack

    def key(self, kind: str) -> str:
        user = KINDS[kind].user
        return f"slack:{authority.ACCOUNTS.get(user, {}).get('team', 'T1')}/{user}"

    async def mention(self, text: str) -> str:
        return await self.slack.mention(ANA, OPS, text)

    def card(self, root: str) -> tuple[str, str] | None:
        thread = self.slack.thread(OPS, root)[1:]
        found = next((one for one in thread if one.get("blocks")), None)
        return None if found is None else (found["ts"], str(found))

    def ended(self, root: str) -> bool:
        return "Done." in str(self.slack.thread(OPS, root))

    def public(self) -> int:
        calls = (one for one in self.slack.calls if one.method in POSTING)
        return sum(not str(one.args.get("channel")).startswith("D") for one in calls)

    def heard(self, kind: str, *, at_home: bool) -> str:
        user = KINDS[kind].user
        views = [view.body for view in self.slack.open_views(user)]
        page = self.slack.home(user) if at_home else None
        shown = [*self.slack.ephemerals(user), *views, *([] if page is None else [page.body])]
        return "\n".join(map(text_of, shown))

    def forget(self, kind: str) -> None:
        user = KINDS[kind].user
        self.slack.world.ephemerals.clear()
        self.slack.world.stacks.pop(user, None)
        self.slack.world.homes.pop(user, None)
        self.slack._faults.pop("users.info", None)

    def opened(self, kind: str, asked: Asked) -> bool:
        views = self.slack.open_views(KINDS[kind].user)
        about = (*asked.nonces, standing.RULE)
        return any(view.body.get("private_metadata") in about for view in views)

    async def act(self, way: Way[Try], kind: str, asked: Asked, *, has: bool) -> str:
        if kind == "un":
            self.slack.fail_next("users.info", "internal_error", times=9)
        if kind == "sl":
            self.slack.delay_next("users.info", 0.4, times=9)
        return await way.act(Try(self.slack, KINDS[kind].user, asked, has)) or ""

    def removed(self) -> None:
        self.core.policies = authority.policies(removed=True)
        self.slack.world.usergroups[authority.GROUP[0]].users.remove("U_LEF")


@asynccontextmanager
async def floor(db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workspace]:
    monkeypatch.setattr(people, "_SECONDS", 0.1)
    monkeypatch.setattr(Bucket, "wait", lambda _self, _now: 0.0)
    effects: list[str] = []
    tools, going_on = authority_ways.tools(effects)
    async with product(db, *authority_ways.steps(), tools=tools) as one:
        one.core.surfaces["slack"].pace = Pace()
        one.core.surfaces["slack"].statuses = False
        one.core.policies = authority.policies()
        for user, flags in authority.ACCOUNTS.items():
            one.slack.add_user(user, **flags)
        one.slack.world.channels[OPS].members += list(authority.ACCOUNTS)
        one.slack.add_usergroup(authority.GROUP[0], "oncall", authority.GROUP[1])
        one.slack.add_channel(*authority.CHANNEL)
        yield Workspace(one.core, effects, going_on, slack=one.slack)


@pytest.mark.row("B1")
@pytest.mark.row("B2")
@pytest.mark.row("B3")
@pytest.mark.row("B6")
@pytest.mark.parametrize("group", GROUPS)
async def test_who_gets_where_by_which_way(
    group: str, sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with floor(sqlite_db, monkeypatch) as on:
        await hold(on, GROUPS[group], on.removed)
