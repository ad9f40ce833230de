"""Commands over rows: what is listed for whom, what is found, and who may stop what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest
from pydantic_ai.messages import ModelMessage

from bot.approvers import Policy
from bot.chat import Chat
from bot.commands import HELP, NO_THREAD, OUTSIDER
from bot.question import Verb
from bot.remember import THREAD
from bot.scripted import Step
from bot.surface import Actor, Command, Decision, Message, Place
from storage import chats, messages
from storage.calls import CallState
from storage.database import Database
from tests.fakes.background import BackgroundTool, background
from tests.fakes.model import call
from tests.fakes.surface import MemorySurface
from tests.world import ANA, BEN, CYN, World, audited, effect, only_question, world

CHANNEL = Place("slack", "T1", "C1", "")
ELSEWHERE = Place("slack", "T1", "C2", "")
EVIL = "x` <!channel> [a](https://evil.test) **b**\n# c"


def refund_or_talk(history: Sequence[ModelMessage]) -> Step:
    """The agent only talks to who says hello."""
    return "Hello." if "hello" in str(history[0]) else call("refund")


async def begin(
    w: World,
    place: Place = CHANNEL,
    *,
    by: Actor = ANA,
    root: str = "1.0",
    text: str = "do it",
) -> Chat:
    """A chat in a thread of this channel, carried as far as it goes."""
    where = replace(place, root=root)
    event = Message(keys=(f"{where}",), place=where, actor=by, text=text, starts=True)
    await w.service.message(event)
    await w.settle()
    async with w.db.read() as tx:
        row = await chats.at_place(tx, where)
    assert row is not None
    return Chat(row.id, w.core)


async def ask(
    w: World, name: str, argument: str = "", *, by: Actor = ANA, at: Place = CHANNEL
) -> str:
    return await w.service.command(Command(name=name, argument=argument, actor=by, place=at))


def ids(answer: str) -> list[str]:
    """The ids that the lines of a list begin with."""
    return re.findall(r"^- `([0-9a-z]+)` ", answer, re.MULTILINE)


async def test_status_lists_what_a_channel_is_at_for_the_person_first(db: Database) -> None:
    w = world(db, refund_or_talk, tools=[effect([])])
    asked = await begin(w, by=CYN, root="1.0")
    await begin(w, by=ANA, root="2.0")
    w.clock.advance(3_600)
    idle = await begin(w, by=CYN, root="3.0", text="hello")
    await begin(w, ELSEWHERE, by=ANA, root="4.0")

    answer = await ask(w, "status", by=CYN)

    lines = answer.splitlines()
    assert len(lines) == 5
    assert "chat with **agent**, idle, you began it" in lines[0]
    assert ids(lines[0]) == [idle.id[5:11]]
    assert "chat with **agent**, waiting for people, you began it" in lines[1]
    assert ids(lines[1]) == [asked.id[5:11]]
    assert all("`agent wants to run refund`" in line for line in lines[2:4])
    assert "begun" in lines[4]
    assert "you" not in lines[4]


async def test_status_puts_what_may_be_decided_before_anything_else(db: Database) -> None:
    w = world(db, refund_or_talk, tools=[effect([])])
    await begin(w, by=ANA, root="1.0")
    await begin(w, by=BEN, root="2.0", text="hello")

    lines = (await ask(w, "status", by=BEN)).splitlines()

    assert "**(yours)**" in lines[0]
    assert "you began it" in lines[1]
    assert "begun" in lines[2]


async def test_status_of_a_thread_says_what_it_is_at_and_then_the_channel(db: Database) -> None:
    w = world(db, call("refund"), tools=[effect([])])
    chat = await begin(w, root="1.0")

    here = await ask(w, "status", at=replace(CHANNEL, root="1.0"))
    nowhere = await ask(w, "status", at=replace(CHANNEL, root="9.0"))

    assert here.startswith(f"**agent** is waiting for people (chat `{chat.id}`).")
    assert "`refund` waits for a decision" in here
    assert "In this channel:" in here
    assert nowhere.startswith("No chat lives in this thread.")


@pytest.mark.parametrize("name", ["status", "pending", "rules", "usage"])
async def test_an_empty_channel_is_said_to_be_empty(sqlite_db: Database, name: str) -> None:
    answer = await ask(world(sqlite_db), name)

    assert answer
    assert ids(answer) == []


async def test_pending_lists_the_open_questions_of_the_channel_mine_first(db: Database) -> None:
    both = Policy(name="ops", approvers=frozenset({BEN.key, CYN.key}))
    w = world(db, call("refund"), tools=[effect([])], policies=[both])
    await begin(w, by=BEN, root="1.0")  # who asked may not approve it
    await begin(w, by=ANA, root="2.0")
    await begin(w, ELSEWHERE, by=ANA, root="3.0")

    lines = (await ask(w, "pending", by=BEN)).splitlines()

    assert ["(yours)" in line for line in lines] == [True, False]
    assert (await ask(w, "pending", at=replace(CHANNEL, channel="C9"))).startswith("Nothing waits")


async def test_lists_come_in_pages_that_hold_everything_once(db: Database) -> None:
    w = world(db, refund_or_talk, tools=[effect([])])
    for number in range(13):
        text = "hello" if number < 12 else "refund it"
        await begin(w, by=ANA if number % 2 else CYN, root=f"{number}.0", text=text)

    pages = [await ask(w, "status", page) for page in ("", "2", "3")]

    assert [len(ids(page)) for page in pages] == [10, 4, 0]
    assert len({one for page in pages for one in ids(page)}) == 14
    assert pages[0].endswith("Page 1 of 2: `status 2` shows more.")
    assert pages[1].endswith("Page 2 of 2.")
    assert pages[2] == "There are only 2 pages."
    mine = ["you began it" in line for page in pages for line in page.splitlines() if ids(line)]
    assert mine == sorted(mine, reverse=True)


@pytest.mark.parametrize("argument", ["x", "-1", "1 2", "99999", "①"])
async def test_a_page_is_a_number(sqlite_db: Database, argument: str) -> None:
    answer = await ask(world(sqlite_db), "status", argument)

    assert answer == "`status` takes the number of a page and nothing else."


async def test_lines_link_to_their_threads_where_the_surface_has_links(db: Database) -> None:
    class Linking(MemorySurface):
        def link(self, place: Place) -> str | None:
            return f"https://chat.test/{place.channel}/{place.root}"

    w = world(db, "Hello.", surface=Linking())
    await begin(w, root="7.0")

    assert " · [thread](https://chat.test/C1/7.0)" in await ask(w, "status")


# One call


async def test_task_tells_all_of_a_call_and_cuts_arguments_visibly(db: Database) -> None:
    w = world(db, call("refund", order="A" * 3_000), "Done.", tools=[effect([])])
    chat = await begin(w)
    (short,) = ids(await ask(w, "pending"))

    waiting = await ask(w, "task", short)
    await w.service.decide(
        Decision(
            nonce=(await only_question(chat)).nonce,
            verb=Verb.APPROVE,
            actor=BEN,
            via="test",
            place=replace(CHANNEL, root="1.0"),
        )
    )
    await w.settle()
    done = await ask(w, "task", f"`{short.upper()}`")

    assert "- waiting for people since 2027-01-15 at 08:00 UTC" in waiting
    assert "- approval: open since" in waiting
    assert '"order":"AAAA' in waiting
    assert "(cut: 1,512 more characters)" in waiting
    assert "- done since" in done
    assert "- approval: approved by `ben` on" in done


async def test_task_of_a_background_call_says_what_its_server_says(db: Database) -> None:
    w = world(db, call("rollout"), tools=[background(message=EVIL)])
    await begin(w)
    short = ids(await ask(w, "status"))[0]

    answer = await ask(w, "task", short)

    assert "- running in the background since" in answer
    assert "says: `working` `xˋ <!channel> [a](https://evil.test) **b** # c`" in answer


async def test_an_id_of_another_channel_or_organisation_is_not_found(db: Database) -> None:
    w = world(db, call("refund"), tools=[effect([])])
    chat = await begin(w)
    (short,) = ids(await ask(w, "pending"))

    for place in (ELSEWHERE, Place("slack", "T2", "C1", ""), Place("teams", "T1", "C1", "")):
        for word in (short, chat.id):
            for name in ("task", "cancel"):
                answer = await ask(w, name, word, at=place, by=BEN)
                assert "is not found here" in answer
    assert (await only_question(chat)).state == "open"


@pytest.mark.parametrize("word", ["", "zz", "%", "call_%", "____", "k3v9qz' --", EVIL, "٣٣٣٣٣٣"])
async def test_what_is_no_id_finds_nothing(sqlite_db: Database, word: str) -> None:
    w = world(sqlite_db, call("refund"), tools=[effect([])])
    await begin(w)

    answer = await ask(w, "task", word)

    assert "not found here" in answer or "Which one?" in answer


async def test_a_beginning_that_several_ids_share_is_refused(db: Database) -> None:
    w = world(db)
    async with db.transaction("two") as tx:
        for tail in ("aa", "bb"):
            await chats.open_at(
                tx,
                replace(CHANNEL, root=tail),
                chat_id=f"chat_k3v9qz{tail}",
                agent="agent",
                requester=ANA.key,
                now=1.0,
            )

    assert (await ask(w, "task", "k3v9qz")).startswith("Several ids begin with `k3v9qz`")
    assert "chat `chat_k3v9qzaa`" in await ask(w, "task", "k3v9qza")
    assert ids(await ask(w, "status")) == ["k3v9qza", "k3v9qzb"]


# Stopping


async def test_cancel_of_a_background_call_is_for_who_asked_and_who_approves(
    db: Database,
) -> None:
    tool: BackgroundTool = background()
    w = world(db, call("rollout"), tools=[tool])
    chat = await begin(w)
    short = ids(await ask(w, "status"))[0]

    refused = await ask(w, "cancel", short, by=CYN)
    assert tool.cancelled == []
    taken = await ask(w, "cancel", short, by=ANA)

    assert refused.startswith("Only the person who asked")
    assert taken == "The server was asked to stop."
    assert tool.cancelled == ["t1"]
    (row,) = await audited(chat, "cancel_task")
    assert (row.actor, row.via) == (ANA.key, "slack command")
    (row,) = await audited(chat, "refused")
    assert (row.actor, row.via) == (CYN.key, "slack command")


async def test_cancel_of_a_chat_stops_it_for_who_may(db: Database) -> None:
    effects: list[str] = []
    w = world(db, call("refund"), "Done.", tools=[effect(effects)])
    chat = await begin(w)

    refused = await ask(w, "cancel", chat.id[5:13], by=CYN)
    taken = await ask(w, "cancel", chat.id, by=BEN)
    await w.settle()

    assert refused.startswith("Only the person who asked")
    assert taken.startswith("Stopping")
    assert [one.state for one in await chat.calls()] == [CallState.FAILED]
    (row,) = await audited(chat, "stop_chat")
    assert (row.actor, row.via) == (BEN.key, "slack command")
    assert await audited(chat, "refused")


async def test_cancel_of_a_call_that_only_waits_says_what_to_do(db: Database) -> None:
    w = world(db, call("refund"), "Done.", tools=[effect([])])
    chat = await begin(w)
    (short,) = ids(await ask(w, "pending"))

    answer = await ask(w, "cancel", short, by=BEN)

    assert f"`cancel {chat.id}` stops its whole chat" in answer
    assert (await only_question(chat)).state == "open"


async def test_stop_needs_a_thread(db: Database) -> None:
    w = world(db, call("refund"), tools=[effect([])])
    chat = await begin(w)

    assert await ask(w, "stop") == NO_THREAD
    assert "nothing to stop" in await ask(w, "stop", at=replace(CHANNEL, root="9.0"))
    assert await chat.waiting()

    assert (await ask(w, "stop", at=replace(CHANNEL, root="1.0"))).startswith("Stopping")
    await w.settle()
    assert not await chat.waiting()


# Rules, usage, the rest


async def test_rules_lists_those_in_force_in_the_channel(db: Database) -> None:
    w = world(db, call("refund"), call("refund"), "Done.", tools=[effect([])])
    chat = await begin(w)
    await (await only_question(chat)).approve(by=BEN, remember=THREAD)
    await w.settle()

    here, elsewhere = await ask(w, "rules"), await ask(w, "rules", at=ELSEWHERE)

    assert "`refund` runs without asking in its thread: `ben` said so on 2027-01-15" in here
    assert here.endswith("used once, last on 2027-01-15 at 08:00 UTC")
    assert elsewhere.startswith("No standing rule")


async def spend(w: World, place: Place, cost: Decimal | None) -> None:
    """A thread whose only turn took so much."""
    chat = await Chat.open(w.core, place, agent="agent", requester=ANA)
    async with w.db.transaction("spend") as tx:
        await messages.record_turn(
            tx,
            chat.id,
            None,
            model="m",
            input_tokens=1_000,
            output_tokens=7,
            cache_read_tokens=0,
            cache_write_tokens=0,
            cost=cost,
            seconds=1.0,
            now=w.clock.now(),
        )


async def test_usage_is_of_the_thread_and_of_the_channel(db: Database) -> None:
    w = world(db)
    for place, root in ((CHANNEL, "1.0"), (CHANNEL, "2.0"), (ELSEWHERE, "3.0")):
        await spend(w, replace(place, root=root), Decimal("0.25"))
    both = "- This channel: 2 model turns, 2000 tokens in, 14 out, 0.5000 US dollars"

    assert await ask(w, "usage") == both
    assert await ask(w, "usage", at=replace(CHANNEL, root="1.0")) == (
        f"- This thread: 1 model turns, 1000 tokens in, 7 out, 0.2500 US dollars\n{both}"
    )


async def test_one_turn_of_unknown_cost_makes_the_cost_of_a_channel_unknown(db: Database) -> None:
    w = world(db)
    await spend(w, replace(CHANNEL, root="1.0"), Decimal("0.25"))
    await spend(w, replace(CHANNEL, root="2.0"), None)

    assert (await ask(w, "usage")).endswith("unknown cost")


async def test_an_unknown_command_gets_the_help_and_its_name_stays_inert(
    sqlite_db: Database,
) -> None:
    answer = await ask(world(sqlite_db), EVIL)

    assert answer.startswith("There is no command `xˋ <!channel>")
    assert answer.endswith(HELP)
    assert await ask(world(sqlite_db), "") == HELP


@pytest.mark.parametrize("flag", ["is_bot", "is_external"])
async def test_bots_and_other_organisations_are_told_nothing(
    sqlite_db: Database, flag: str
) -> None:
    w = world(sqlite_db, call("refund"), tools=[effect([])])
    await begin(w)
    stranger = replace(BEN, **{flag: True})  # type: ignore[arg-type]

    for name in ("status", "pending", "task", "cancel", "stop", "rules", "usage", "help"):
        assert await ask(w, name, by=stranger) == OUTSIDER
    assert (await w.service.inbox(stranger, "T1", 1)).text == OUTSIDER


async def test_the_inbox_holds_what_a_person_may_decide_in_all_channels(db: Database) -> None:
    w = world(db, call("refund"), tools=[effect([])])
    for number in range(12):
        await begin(w, CHANNEL if number % 2 else ELSEWHERE, root=f"{number}.0")
    await begin(w, replace(CHANNEL, organisation="T2"), root="12.0")

    first, second = [await w.service.inbox(BEN, "T1", page) for page in (1, 2)]

    assert (first.page, first.pages, second.page) == (1, 2, 2)
    assert [len(ids(one.text)) for one in (first, second)] == [10, 2]
    assert (await w.service.inbox(CYN, "T1", 1)).text == "Nothing waits for you."


async def test_a_command_that_is_delivered_again_is_answered_once(db: Database) -> None:
    w = world(db, call("rollout"), tools=[tool := background()])
    await begin(w)
    short = ids(await ask(w, "status"))[0]
    event = Command(name="cancel", argument=short, actor=ANA, place=CHANNEL, keys=("e1", "t1"))

    answers = [await w.service.command(one) for one in (event, replace(event, keys=("e2", "t1")))]

    assert answers == ["The server was asked to stop.", ""]
    assert tool.cancelled == ["t1"]


async def test_a_database_that_is_away_is_said(db: Database) -> None:
    w = world(db)
    await db.close()
    w.core.db = Database("postgresql://127.0.0.1:1/nothing")

    assert "The database is not answering" in await ask(w, "status")
    assert "The database is not answering" in (await w.service.inbox(ANA, "T1", 1)).text
    await w.core.db.close()


async def test_a_refused_stop_is_on_record_once(sqlite_db: Database) -> None:
    w = world(sqlite_db, "Hello.")
    chat = await begin(w)

    await ask(w, "stop", by=CYN, at=replace(CHANNEL, root="1.0"))

    assert [one.actor for one in await audited(chat, "refused")] == [CYN.key]
