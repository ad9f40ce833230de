"""Standing rules by command: who may, what is said before and after, and what it does then."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bot import rulebook
from bot.approvers import Policy
from bot.commands import HELP, OUTSIDER
from bot.rule_grammar import SHAPE
from bot.surface import Actor, Command, Message, Place
from storage import audit, chats, scope
from storage.database import Database
from storage.rules import RuleRow
from tests import world as worlds
from tests.fakes.model import call
from tests.world import ANA, BEN, CYN, World, effect

CHANNEL = Place("slack", "T1", "C1", "")
BEN_MAKES = Policy(name="ops", approvers=frozenset({BEN.key}), rule_makers=frozenset({BEN.key}))
GUEST = replace(BEN, is_guest=True)
EVIL = "x` <!channel> [a](https://evil.test) **b**"


def world(db: Database, *steps: Any, effects: Sequence[str] = (), **options: Any) -> World:
    """A world where Ben may make any rule."""
    ran = effects if isinstance(effects, list) else []
    given: dict[str, Any] = {"policies": [BEN_MAKES], "tools": [effect(ran)]} | options
    return worlds.world(db, *(steps or (call("refund", order="A1"), "done")), **given)


async def asked(w: World, *, root: str = "1.0", by: Actor = ANA, channel: str = "C1") -> str:
    """What becomes of a refund that somebody asks for in a thread."""
    place = Place("slack", "T1", channel, root)
    event = Message(keys=(f"{place}{w.core.now()}",), place=place, actor=by, text="go", starts=True)
    await w.service.message(event)
    await w.settle()
    async with w.db.read() as tx:
        chat = await chats.at_place(tx, place)
    assert chat is not None
    return str((await w.here_id(chat.id).calls())[-1].state)


async def say(w: World, text: str, *, by: Actor = BEN, at: Place = CHANNEL) -> str:
    name, _, argument = text.partition(" ")
    return await w.service.command(Command(name=name, argument=argument, actor=by, place=at))


async def kept(w: World) -> list[RuleRow]:
    async with w.db.read() as tx:
        return [rule for rule, _ in await scope.rules_in_force(tx, scope.EVERYTHING, w.core.now())]


async def test_a_rule_is_shown_in_full_with_the_calls_it_would_have_met_and_nothing_is_saved(
    sqlite_db: Database,
) -> None:
    w = world(sqlite_db)
    assert await asked(w) == "waiting"

    shown = await say(w, "rules add refund allow when order=A1 in channel for 7d 3 times")

    assert shown.splitlines() == [
        "Not saved yet: `refund runs without asking when order is “A1”, in this channel, "
        "for 1 week, 3 times at most.`",
        "Of the only call there it would have met 1:",
        '- `2027-01-15 at 08:00 UTC: refund {"order":"A1"}`',
        "Send it again with `yes` at its end to save it.",
    ]
    assert await kept(w) == []


@pytest.mark.row("B67")
async def test_a_saved_rule_is_named_by_its_id_is_listed_and_lets_the_next_call_run(
    sqlite_db: Database,
) -> None:
    effects: list[str] = []
    w = world(sqlite_db, effects=effects)

    saved = await say(w, "rules add refund allow when order=A1 in channel yes")

    [rule] = await kept(w)
    assert rule.created_by == BEN.key
    found = re.match(r"Saved as `([0-9a-z]{6})`: `refund runs without asking when order is", saved)
    assert found is not None
    assert rule.id.startswith(f"rule_{found[1]}")
    assert f"- `{found[1]}`" in await say(w, "rules")
    assert await asked(w) == "done"
    assert effects == ["refund A1"]


@pytest.mark.row("B67")
async def test_a_rule_that_is_not_there_after_it_was_saved_is_told(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: Any, **__: Any) -> None:
        pass

    monkeypatch.setattr(rulebook, "keep", lost)
    w = world(sqlite_db)

    told = await say(w, "rules add refund allow yes")

    assert "not among the rules in force here" in told
    assert "Saved as" not in told


@pytest.mark.row("B68")
async def test_a_rule_is_revoked_by_the_beginning_of_its_id_and_the_next_call_asks(
    db: Database,
) -> None:
    w = world(db)
    await say(w, "rules add refund allow in channel yes")
    [rule] = await kept(w)
    assert await asked(w, root="1.0") == "done"

    ended = await say(w, f"rules revoke {rule.id[5:11]}")

    assert ended.startswith("No longer in force: `refund runs without asking, in slack:T1/C1")
    assert await kept(w) == []
    assert await asked(w, root="2.0") == "waiting"
    assert "no rule that is in force here" in await say(w, f"rules revoke {rule.id}")


@pytest.mark.parametrize(
    ("by", "told"),
    [
        (ANA, "You are not among the rule makers"),
        (CYN, "You are not among the rule makers"),
        (GUEST, "by people of this organisation only"),
        (replace(BEN, is_external=True), OUTSIDER),
        (replace(BEN, is_bot=True), OUTSIDER),
        (replace(BEN, organisation="T2"), "You are not among the rule makers"),
        (replace(BEN, surface="console"), "You are not among the rule makers"),
    ],
)
async def test_nobody_but_a_rule_maker_makes_a_rule_or_sees_a_preview(
    sqlite_db: Database, by: Actor, told: str
) -> None:
    w = world(sqlite_db)
    await asked(w)
    for does in ("allow", "ask", "deny"):
        for end in ("", " yes"):
            answer = await say(w, f"rules add refund {does} in workspace{end}", by=by)
            assert told in answer
            assert "A1" not in answer
    assert await kept(w) == []


async def test_nobody_but_its_maker_a_rule_maker_or_an_approver_revokes_a_rule(
    sqlite_db: Database,
) -> None:
    w = world(sqlite_db)
    await say(w, "rules add refund deny in channel yes")
    [rule] = await kept(w)

    for by in (ANA, CYN, replace(BEN, is_external=True)):
        assert "No longer" not in await say(w, f"rules revoke {rule.id}", by=by)

    assert await kept(w) == [rule]
    async with w.db.read() as tx:
        refused = {row.actor async for row in audit.since(tx) if row.event == "refused"}
    assert refused == {ANA.key, CYN.key}


async def test_a_refused_attempt_to_save_is_on_record(sqlite_db: Database) -> None:
    w = world(sqlite_db)
    await say(w, "rules add refund allow yes", by=CYN)
    async with w.db.read() as tx:
        [row] = [row async for row in audit.since(tx) if row.event == "refused"]
    assert (row.actor, row.via) == (CYN.key, "slack command")


async def test_a_rule_holds_in_the_thread_where_it_is_made_else_in_the_channel(
    sqlite_db: Database,
) -> None:
    w = world(sqlite_db)
    await asked(w, root="1.0")
    here = replace(CHANNEL, root="1.0")

    await say(w, "rules add refund deny yes", at=here)
    await say(w, "rules add refund deny yes", at=CHANNEL)
    await say(w, "rules add refund ask in workspace yes", at=here)
    await say(w, "rules add refund ask in everywhere yes", at=here)

    async with w.db.read() as tx:
        chat = await chats.at_place(tx, here)
    assert chat is not None
    assert {(one.scope, one.scope_key) for one in await kept(w)} == {
        ("chat", chat.id),
        ("channel", "slack:T1/C1"),
        ("organisation", "slack:T1"),
        ("surface", "slack"),
    }


async def test_a_thread_that_is_not_known_or_has_no_chat_gets_no_rule(sqlite_db: Database) -> None:
    w = world(sqlite_db)
    nowhere = await say(w, "rules add refund deny in thread yes")
    empty = await say(w, "rules add refund deny in thread yes", at=replace(CHANNEL, root="9.0"))
    alone = await say(w, "rules add refund deny yes", at=replace(CHANNEL, root="9.0"))
    assert "Nothing says which thread" in nowhere
    assert "No chat lives in this thread" in empty
    assert "No chat lives in this thread" in alone
    assert await kept(w) == []


async def test_a_rule_only_for_me_is_for_who_typed_it(sqlite_db: Database) -> None:
    w = world(sqlite_db)
    await say(w, "rules add refund deny in channel only for me yes")
    [rule] = await kept(w)
    assert rule.requester == BEN.key
    assert await asked(w, root="1.0", by=ANA) == "waiting"
    assert await asked(w, root="2.0", by=BEN) == "declined"


async def test_a_rule_that_would_allow_nothing_for_who_makes_it_is_not_made(
    sqlite_db: Database,
) -> None:
    w = world(sqlite_db)
    told = await say(w, "rules add refund allow in channel only for me yes")
    assert "`only for me` would allow nothing" in told
    assert await kept(w) == []
    itself = replace(BEN_MAKES, self_approval=True)
    w = world(sqlite_db, policies=[itself])
    assert "Saved as" in await say(w, "rules add refund allow in channel only for me yes")
    assert await asked(w, by=BEN) == "done"


async def test_a_misspelt_tool_or_argument_makes_no_rule(sqlite_db: Database) -> None:
    w = world(sqlite_db)
    assert "No agent here has a tool refnud" in await say(w, "rules add refnud deny yes")
    assert "has no argument ordr" in await say(w, "rules add refund deny when ordr=A1 yes")
    assert await kept(w) == []


async def test_what_cannot_be_read_is_answered_with_the_right_shape(sqlite_db: Database) -> None:
    w = world(sqlite_db)
    for typed in ("rules add", "rules add refund", "rules add refund allow pls"):
        assert f"`{SHAPE}`" in await say(w, typed)
    assert "conditions are `amount>=100`" in await say(w, "rules add refund deny when it is late")
    assert "Which one" in await say(w, "rules revoke")
    assert "`rules add TOOL" in HELP
    assert "`rules revoke ID`" in HELP


async def test_what_others_wrote_is_inert_in_the_answers(sqlite_db: Database) -> None:
    w = world(sqlite_db, call("refund", order=EVIL), "done")
    await asked(w)
    quoted = EVIL.replace('"', "")
    answers = [
        await say(w, f'rules add refund deny when order="{quoted}"'),
        await say(w, f"rules add refund deny {EVIL}"),
        await say(w, f"rules revoke {EVIL}"),
    ]
    for answer in answers:
        bare = re.sub(r"`[^`]*`", "", answer)
        assert "evil" not in bare
        assert "<!" not in bare


async def test_the_home_of_who_made_a_rule_is_drawn_anew_when_it_is_made_and_ended(
    sqlite_db: Database,
) -> None:
    w = world(sqlite_db)
    await w.service.home(BEN, "T1", 1)
    await w.service.home(CYN, "T1", 1)

    await say(w, "rules add refund allow in channel yes")
    await w.settle()
    once = list(w.surface.homes)
    [rule] = await kept(w)
    await say(w, f"rules revoke {rule.id}")
    await w.settle()

    assert once == ["BEN"]
    assert w.surface.homes == ["BEN", "BEN"]
