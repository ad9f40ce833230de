"""Standing rules on home pages: whose they show, who makes one there and who ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bot.home_rules import SHOWN
from bot.surface import Actor, NewRule, Place
from storage import audit
from storage.database import Database
from tests.fakes.surface import MemorySurface
from tests.integration.test_rule_commands import GUEST, asked, kept, say, world
from tests.integration.test_rules import rule
from tests.world import ANA, BEN, CYN, World

HERE = Place("slack", "T1", "C1", "")
ANSWER = {"tool": "refund", "effect": "deny", "where": "organisation", "until": "1 day"}
OUTSIDE = replace(BEN, organisation="T2", is_external=True)


async def new(
    w: World, *, by: Actor = BEN, organisation: str = "T1", sure: bool = True, **given: Any
) -> str:
    event = NewRule(
        actor=by, organisation=organisation, via="slack modal", answer=ANSWER | given, sure=sure
    )
    response = await w.service.new_rule(event)
    assert response.done is (not response.errors and "rule makers" not in response.sentence)
    return response.sentence


async def sentences(w: World, by: Actor) -> list[str]:
    return [one.sentence for one in (await w.service.home(by, "T1")).rules]


async def test_a_page_shows_the_rules_that_its_person_made_or_may_revoke_and_no_other(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemorySurface, "link", lambda _, at: f"{at.channel}/{at.root}")
    w = world(sqlite_db)
    await asked(w, root="1.0", by=ANA)
    await say(w, "rules add refund allow for 7d 3 times yes", at=replace(HERE, root="1.0"))
    w.clock.advance(1)
    await say(w, "rules add refund deny when order=A9 in channel yes")
    await rule(w, id="rule_far", scope_key="slack:T2")

    mine = (await w.service.home(BEN, "T1")).rules
    assert [(one.may, one.link) for one in mine] == [
        (True, "C1/"),
        (True, "C1/1.0"),
    ]
    assert await sentences(w, BEN) == [
        "refund is refused when order is “A9”, in slack:T1/C1, until it is revoked.",
        "refund runs without asking, in its thread, for 1 week, 3 times at most.",
    ]
    assert mine[0].about == "ben said so on 2027-01-15 at 08:00 UTC; used never"
    assert len(await sentences(w, ANA)) == 1  # who began the thread is asked for again without it
    assert await sentences(w, CYN) == []


async def test_a_rule_that_does_not_speak_now_is_said_to_be_suspended(sqlite_db: Database) -> None:
    w = world(sqlite_db)
    await rule(w, schema_digest="another", note="as agreed")
    [shown] = (await w.service.home(BEN, "T1")).rules
    assert shown.about.endswith("; suspended: the tool has changed since; as agreed")


@pytest.mark.row("B59")
async def test_a_secret_in_a_note_is_hidden(sqlite_db: Database) -> None:
    w = world(sqlite_db)
    await rule(w, note=f"see ghp_{'a1' * 18}")
    [shown] = (await w.service.home(BEN, "T1")).rules
    assert shown.about.partition("; see ")[2].startswith("[GitHub token hidden: 40 characters")


@pytest.mark.row("B67")
async def test_a_rule_that_is_not_found_after_it_was_saved_is_no_success(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(*_: object) -> list[object]:
        return []

    w = world(sqlite_db)
    await asked(w)
    monkeypatch.setattr("bot.home_rules.scope.rules_in_force", none)
    event = NewRule(actor=BEN, organisation="T1", via="slack modal", answer=ANSWER, sure=True)
    response = await w.service.new_rule(event)
    assert not response.done  # which closes the form without a word
    assert "do not rely on it" in response.sentence


async def test_a_page_has_room_for_some_rules_and_counts_the_others(sqlite_db: Database) -> None:
    w = world(sqlite_db)
    for number in range(SHOWN + 3):
        await rule(w, id=f"rule_{number}", created_at=float(number))
    page = await w.service.home(BEN, "T1")
    assert [one.id for one in page.rules][:2] == [f"rule_{SHOWN + 2}", f"rule_{SHOWN + 1}"]
    assert (len(page.rules), page.more_rules) == (SHOWN, 3)


@pytest.mark.parametrize("by", [ANA, CYN, GUEST, OUTSIDE, replace(BEN, is_bot=True)])
async def test_nobody_but_a_rule_maker_gets_the_form_or_has_it_taken(
    sqlite_db: Database, by: Actor
) -> None:
    w = world(sqlite_db)
    await asked(w)
    form = await w.service.rule_form(by, "T1")
    assert form.fields == ()
    assert "rule makers" in form.refusal
    for sure in (False, True):
        assert "A1" not in await new(w, by=by, sure=sure)
    async with sqlite_db.read() as tx:
        log = [row async for row in audit.since(tx) if row.event == "refused"]
    assert [row.actor for row in log] == [by.key]  # who tried to save one, not who looked
    assert not (await w.service.home(by, "T1")).maker
    assert await kept(w) == []


@pytest.mark.row("B67")
async def test_the_form_is_previewed_and_then_saved_as_it_was_filled_in(
    sqlite_db: Database,
) -> None:
    w = world(sqlite_db)
    await asked(w)
    assert (await w.service.home(BEN, "T1")).maker

    shown = await new(w, sure=False, when="order in A1, A2", uses=2, note="as agreed")
    assert shown.splitlines()[:2] == [
        "refund is refused when order is one of “A1”, “A2”, in this whole workspace, for 1 day, "
        "2 times at most.",
        "Of the only call there it would have met 1:",
    ]
    assert await kept(w) == []

    saved = await new(w, when="order in A1, A2", uses=2, note="as agreed")
    [made] = await kept(w)
    assert saved.startswith("Saved: refund is refused when")
    assert (made.scope_key, made.uses_left, made.note) == ("slack:T1", 2, "as agreed")
    assert made.expires_at == w.core.now() + 86_400
    assert await asked(w, root="2.0") == "declined"


@pytest.mark.parametrize(
    ("given", "errors"),
    [
        ({"tool": "rm"}, {"tool"}),
        ({"effect": "forget"}, {"effect"}),
        ({"where": "chat"}, {"where"}),
        ({"where": "channel"}, {"where"}),
        ({"until": "99 years"}, {"until"}),
        ({"uses": 0}, {"uses"}),
        ({"when": "it is late"}, {"when"}),
        ({"when": "order=A1 and order=A2"}, {"when"}),
        ({"note": "x" * 301}, {"note"}),
    ],
)
async def test_what_the_form_does_not_offer_is_refused_at_its_field(
    sqlite_db: Database, given: dict[str, Any], errors: set[str]
) -> None:
    w = world(sqlite_db)
    for sure in (False, True):
        event = NewRule(
            actor=BEN, organisation="T1", via="slack modal", answer=ANSWER | given, sure=sure
        )
        response = await w.service.new_rule(event)
        assert not response.done
        assert set(response.errors) == errors
    assert await kept(w) == []


@pytest.mark.row("B68")
async def test_a_rule_is_ended_by_who_may_and_only_where_it_holds(sqlite_db: Database) -> None:
    w = world(sqlite_db)
    await rule(w, id="rule_here", effect="deny")
    await rule(w, id="rule_far", scope_key="slack:T2")

    async def ended(rule_id: str, by: Actor, organisation: str = "T1") -> str:
        made = await w.service.revoke_rule(rule_id, by, organisation, via="slack button")
        return made.sentence

    assert "Only who made this rule" in await ended("rule_here", CYN)
    assert "people of this organisation only" in await ended("rule_here", OUTSIDE)
    assert await ended("rule_far", BEN) == "There is no such rule in force here."
    assert await ended("rule_none", BEN) == "There is no such rule in force here."
    assert len(await kept(w)) == 2

    assert (await ended("rule_here", BEN)).startswith("No longer in force: refund is refused")
    assert [one.id for one in await kept(w)] == ["rule_far"]
    assert await ended("rule_here", BEN) == "There is no such rule in force here."
