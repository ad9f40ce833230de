"""Every way into the product, by every kind of person: who decides, who is refused and how, and
that a refusal changes nothing. What is expected is in one table, `authority.TABLE`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa

from adapters.slack import people, standing
from bot import rulebook
from bot.surface import Actor, Pace
from storage import schema
from storage.database import Database
from tests.fakes.slack import FakeSlack, text_of
from tests.fakes.slack.web import Bucket
from tests.scenario import authority, authority_ways
from tests.scenario.authority import COUNTS, KINDS, SENTENCES, SILENT, rule_of
from tests.scenario.authority_hands import Asked, Try, Way
from tests.scenario.authority_ways import GROUPS, WAYS
from tests.scenario.slack_product import ANA, OPS, Product, product

EXPECTED = authority.read()
DECIDED = "something was decided"
POLL = 0.03  # seconds
POSTING = ("chat.postMessage", "chat.update", "chat.delete", "chat.startStream")
DUMP = [
    *(f"SELECT * FROM {name}" for name in ("questions", "decisions", "tool_calls", "rules")),
    "SELECT id FROM chats WHERE cancelled_by IS NOT NULL",
]
DECISIONS = (
    "decided",
    "stop_chat",
    "cancel_task",
    "rule_made",
    "rule_revoked",
    "asked_again",
)


async def until(check: Callable[[], bool | Awaitable[bool]]) -> None:
    """Waits for what other tasks do; rarely, for there is much to look at."""
    async with asyncio.timeout(150):
        while True:
            found = check()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(POLL)


@dataclass
class Floor:
    """The workspace with all kinds of people in it, and questions that wait."""

    one: Product
    effects: list[str]
    going_on: Any
    due: list[str] = field(default_factory=list)  # the effects that there must be

    @property
    def slack(self) -> FakeSlack:
        return self.one.slack

    async def rows(self, table: sa.Table, *where: Any) -> list[Any]:
        async with self.one.db.read() as tx:
            return list(await tx.run(sa.select(table).where(*where)))

    async def ask(self, wanted: Sequence[tuple[str, str]]) -> list[Asked]:
        """What waits (of which policy), each in a thread of its own, once its card is there and
        what the clock does to it is done; or a standing rule."""
        ended = [await self._rule() if what == "rule" else None for what, _ in wanted]
        cards = iter(await self._ask([one for one in wanted if one[0] != "rule"]))
        return [next(cards) if one is None else one for one in ended]

    async def _rule(self) -> Asked:
        maker = Actor("slack", "T1", KINDS["mk"].user)
        rule = rule_of(maker)
        await rulebook.make(self.one.core, rule, by=maker, via="test")
        return Asked("", "", "", (), (rule.id,))

    async def _ask(self, wanted: Sequence[tuple[str, str]]) -> list[Asked]:
        said = [f"run {what} {policy} N{n}" for n, (what, policy) in enumerate(wanted)]
        roots = await asyncio.gather(*(self.slack.mention(ANA, OPS, one) for one in said))
        await until(lambda: all(self._card(root) for root in roots))
        await until(self._on_time)
        brief = [r for r, (_, policy) in zip(roots, wanted, strict=True) if policy == "brief"]
        await until(lambda: all("Done." in str(self.slack.thread(OPS, one)) for one in brief))
        asked = await self.rows(schema.questions)
        calls = await self.rows(schema.tool_calls)
        chats = {one.root: one.id for one in await self.rows(schema.chats)}
        found = []
        for root in roots:
            chat, card = chats[root], self._card(root)
            assert card is not None
            mine = tuple(one.id for one in calls if one.chat_id == chat)
            nonces = [one.nonce for one in asked if one.chat_id == chat] or list(mine)
            nonces.sort(key=lambda one: one not in str(card))  # of a shared card it names the first
            found.append(Asked(root, card["ts"], chat, mine, tuple(nonces)))
        return found

    async def _on_time(self) -> bool:
        """Whether what is due soon is done."""
        for row in await self.rows(schema.questions):
            policy = row.audience["policy"]
            if policy == "brief" and row.state == "open":
                return False
            if policy == "late" and row.escalated_at is None:
                return False
        return True

    def _card(self, root: str) -> Any:
        return next((one for one in self.slack.thread(OPS, root)[1:] if one.get("blocks")), None)

    async def dump(self) -> list[Any]:
        """All that a decision changes."""
        async with self.one.db.read() as tx:
            return [list(await tx.run(sa.text(one))) for one in DUMP]

    def public(self) -> int:
        """How often the bot has posted or edited where others read it."""
        calls = (one for one in self.slack.calls if one.method in POSTING)
        return sum(not str(one.args.get("channel")).startswith("D") for one in calls)

    async def last_audit(self) -> int:
        async with self.one.db.read() as tx:
            found = await tx.run(sa.select(sa.func.max(schema.audit.c.id)))
            return int(found.scalar() or 0)

    async def quiet(self) -> None:
        """Everything that was on its way has been delivered."""
        waiting = schema.outbox.c.state.in_(("waiting", "sending"))

        async def delivered() -> bool:
            return not await self.rows(schema.outbox, waiting)

        await until(delivered)

    async def new_rules(self, way: Way, kind: str) -> list[str]:
        """What is wrong with the standing rule that came of it last."""
        rule = (await self.rows(schema.rules))[-1]
        found, due = (rule.scope, rule.created_by), (way.rule, key_of(KINDS[kind].user))
        return [] if found == due else [f"{kind}: a rule {found} came of it"]

    def heard(self, user: str, *, at_home: bool) -> str:
        """What only this person reads."""
        views = [view.body for view in self.slack.open_views(user)]
        page = self.slack.home(user) if at_home else None
        shown = [*self.slack.ephemerals(user), *views, *([] if page is None else [page.body])]
        return "\n".join(map(text_of, shown))

    def forget(self, user: str) -> None:
        """Nothing of what they were told is before them any more."""
        self.slack.world.ephemerals.clear()
        self.slack.world.stacks.pop(user, None)
        self.slack.world.homes.pop(user, None)
        self.slack._faults.pop("users.info", None)


@asynccontextmanager
async def floor(db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Floor]:
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
        yield Floor(one, effects, going_on)


def key_of(user: str) -> str:
    return f"slack:{authority.ACCOUNTS.get(user, {}).get('team', 'T1')}/{user}"


def troubled(slack: FakeSlack, kind: str) -> None:
    """Slack has its trouble with some people."""
    if kind == "un":
        slack.fail_next("users.info", "internal_error", times=9)
    if kind == "sl":
        slack.delay_next("users.info", 0.4, times=9)


async def tries(on: Floor, way: Way, kind: str, code: str, asked: Asked) -> str:
    """What comes of it, as a code of the table."""
    user, mark = KINDS[kind].user, await on.last_audit()
    on.forget(user)
    troubled(on.slack, kind)
    has = code == COUNTS
    answered = await way.act(Try(on.slack, user, asked, has)) or ""
    deadline = asyncio.get_running_loop().time() + (0.2 if code == SILENT else 3.0)
    while asyncio.get_running_loop().time() < deadline:
        if not way.becomes and _opened(on, user, asked):
            return COUNTS
        heard = f"{answered}\n{on.heard(user, at_home=way.at_home)}"
        for found, sentence in SENTENCES.items():
            if sentence in heard and not ((way.becomes or way.at_home) and found in "l0"):
                return found
        made = await on.rows(schema.audit, schema.audit.c.id > mark)
        if any(row.event in DECISIONS and row.actor == key_of(user) for row in made):
            return COUNTS
        await asyncio.sleep(POLL)
    return SILENT


def _opened(on: Floor, user: str, asked: Asked) -> bool:
    """A form or the whole of a call is before them."""
    views = on.slack.open_views(user)
    about = (*asked.nonces, standing.RULE)
    return any(view.body.get("private_metadata") in about for view in views)


ON_RECORD = frozenset("nsagboxtmpqve")


async def is_refused(
    on: Floor, way: Way, kind: str, code: str, asked: Asked, before: list[Any]
) -> list[str]:
    """What is wrong with a try that must change nothing of `before`."""
    shown, mark = on.public(), await on.last_audit()
    done = len(on.effects), len(on.going_on.cancelled)
    found = await tries(on, way, kind, code, asked)
    wrong = [] if found == code else [f"{kind}: {found} instead of {code}"]
    if await on.dump() != before:
        wrong.append(f"{kind}: {DECIDED}")
    if on.public() != shown:
        wrong.append(f"{kind}: something was posted or edited in public")
    if (len(on.effects), len(on.going_on.cancelled)) != done:
        wrong.append(f"{kind}: something ran or was stopped")
    made = await on.rows(schema.audit, schema.audit.c.id > mark)
    refused = [row.actor for row in made if row.event == "refused"]
    due = way.decides if way.recorded and code in ON_RECORD else 0
    if refused != [key_of(KINDS[kind].user)] * due:
        wrong.append(f"{kind}: {len(refused)} of {due} refusals are on record")
    return wrong


async def counts(on: Floor, way: Way, kind: str, asked: Asked) -> list[str]:
    """What is wrong with a try that must count."""
    found = await tries(on, way, kind, COUNTS, asked)
    if found != COUNTS:
        return [f"{kind}: {found} instead of {COUNTS}"]
    key, wrong = key_of(KINDS[kind].user), [] if not way.rule else await on.new_rules(way, kind)
    match way.becomes:
        case "asked to stop":
            return [] if on.going_on.cancelled.pop() else ["no task was stopped"]
        case "made":
            return wrong
        case "revoked":
            rules = await on.rows(schema.rules, schema.rules.c.revoked_by == key)
            ended = asked.nonces[0] in [row.id for row in rules]
            return [] if ended else [f"{kind}: nothing was revoked"]
        case "asked again":
            made = await on.rows(schema.audit, schema.audit.c.event == "asked_again")
            askers = [row.detail["askers"] for row in made if row.actor == key]
            return [] if askers == [[key_of(ANA)]] else [f"{kind}: it is asked for by {askers}"]
    theirs = schema.questions.c.nonce.in_(asked.nonces), schema.questions.c.state == way.becomes

    async def is_settled() -> bool:
        return len(await on.rows(schema.questions, *theirs)) >= way.decides

    await until(is_settled)
    settled = await on.rows(schema.questions, *theirs)
    if len(settled) != way.decides:
        return [f"{kind}: {len(settled)} are {way.becomes}"]
    by = {row.settled_by for row in settled}
    stopped = way.becomes == "cancelled"
    if by != ({None} if stopped else {key}):
        return [f"{kind}: settled by {by}"]
    if way.becomes in ("approved", "answered"):
        calls = await on.rows(schema.tool_calls, schema.tool_calls.c.id.in_(asked.calls))
        by_call = {row.id: row.args["order"] for row in calls}
        on.due += [by_call[row.call_id] for row in settled]
    return wrong


def wants(way: Way, kind: str) -> tuple[str, str]:
    return way.asks, way.policy or KINDS[kind].policy


@pytest.mark.row("B1")
@pytest.mark.row("B2")
@pytest.mark.row("B3")
@pytest.mark.row("B6")
@pytest.mark.parametrize("group", GROUPS)
async def test_who_gets_where_by_which_way(
    group: str, sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [(name, kind, code) for name in GROUPS[group] for kind, code in EXPECTED[name].items()]
    deciding = [cell for cell in cells if cell[2] == COUNTS and WAYS[cell[0]].becomes]
    others = [cell for cell in cells if cell not in deciding]
    needed = [wants(WAYS[name], kind) for name, kind, _ in others]
    asking = [*dict.fromkeys(needed)]  # what nobody decides is asked once
    asking += [wants(WAYS[name], kind) for name, kind, _ in deciding]
    async with floor(sqlite_db, monkeypatch) as on:
        asked = await on.ask(asking)
        shared = dict(zip(asking, asked[: -len(deciding)], strict=False))
        await on.quiet()
        on.one.core.policies = authority.policies(removed=True)
        on.slack.world.usergroups[authority.GROUP[0]].users.remove("U_LEF")
        wrong, before = [], await on.dump()
        for (name, kind, code), what in zip(others, needed, strict=True):
            found = await is_refused(on, WAYS[name], kind, code, shared[what], before)
            async with sqlite_db.transaction("close_homes") as tx:  # else each is drawn ever anew
                await tx.run(sa.delete(schema.homes))
            wrong += [f"{name}, {one}" for one in found]
            assert DECIDED not in str(wrong), "\n".join(wrong)  # the rest would mean nothing
        for (name, kind, _), own in zip(deciding, asked[-len(deciding) :], strict=True):
            wrong += [f"{name}, {one}" for one in await counts(on, WAYS[name], kind, own)]
        assert not wrong, "\n".join(wrong)
        await until(lambda: len(on.effects) >= len(on.due))
        await on.quiet()
        assert sorted(on.effects) == sorted(on.due)
