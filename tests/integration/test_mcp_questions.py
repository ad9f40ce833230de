"""What MCP servers ask in the middle of a call becomes cards; rows M1 to M19 over real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.mcp import tools as mcp_tools
from bot.question import Asked, Kind, Purpose
from bot.secrets import ConfigError
from bot.tool import Call, Done
from storage.database import Database
from tests.fakes.mcp.process import HttpServer, effects, seen
from tests.fakes.model import call
from tests.mcp_world import FREE, mcp_world, section
from tests.world import ANA, BEN, only_question, returned, until

Settings = dict[str, Any]


@pytest.fixture(params=["http", "stdio"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Settings]:
    """A server of 2026-07-28; `home` is where it leaves its effects."""
    if request.param == "stdio":
        yield section(tmp_path, **FREE)
        return
    running = HttpServer(tmp_path, env={"FAKE_MCP_KEY": "a key that survives restarts, 32 b"})
    await running.start()
    yield section(running, **FREE)
    running.stop()


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[HttpServer]:
    running = HttpServer(tmp_path)
    await running.start()
    yield running
    running.stop()


@pytest.fixture
async def legacy(tmp_path: Path) -> AsyncIterator[HttpServer]:
    running = HttpServer(tmp_path, legacy=True)
    await running.start()
    yield running
    running.stop()


ASK = call("srv__ask", service="api")


@pytest.mark.row("M2")
@pytest.mark.row("M3")
@pytest.mark.row("M13")
@pytest.mark.row("M14")
async def test_a_servers_form_is_a_card_and_its_answer_reaches_the_server(
    db: Database, server: Settings, tmp_path: Path
) -> None:
    async with mcp_world(db, server, ASK, "Done.") as world:
        chat = await world.chat()
        await world.settle()
        question = await only_question(chat)
        assert question.kind is Kind.FORM
        assert question.message == "Deploy api?"
        assert [one.name for one in question.fields] == ["env", "reason", "replicas", "notify"]
        (card,) = world.surface.cards()
        assert "The server srv asks this." in card.notices
        await question.answer({"env": "production", "replicas": "3"}, by=ANA)
        await world.settle()
        (result,) = await returned(chat)
        assert "ask:api" in result  # the state came back as it was given
        assert '"replicas": 3' in result
        assert '"reason": "none given"' in result
        assert effects(tmp_path) == ["ask api"]
    calls = [one for one in seen(tmp_path, "tools/call") if one["params"]["name"] == "ask"]
    assert len(calls) == 2
    assert calls[0]["id"] != calls[1]["id"]
    assert "requestState" not in calls[0]["params"]  # row M14


@pytest.mark.row("M15")
async def test_parked_in_one_process_answered_in_another_carried_on_in_a_third(
    db: Database, server: Settings, tmp_path: Path
) -> None:
    if "command" in server:
        pytest.skip("a server over stdio ends with its process, and its state with it")
    async with mcp_world(db, server, ASK, "Done.") as first:
        chat = await first.chat()
        await first.settle()
        surface = first.surface
    async with mcp_world(db, server, ASK, "Done.", surface=surface) as second:
        await (await only_question(second.here(chat))).answer({"env": "staging"}, by=ANA)
    async with mcp_world(db, server, ASK, "Done.", surface=surface) as third:
        await third.settle()
        here = third.here(chat)
        assert "staging" in (await returned(here))[0]
        assert await here.last_reply() == "Done."
        assert (await here.calls())[0].resume is None
    assert effects(tmp_path) == ["ask api"]
    assert len(surface.cards()) == 1


@pytest.mark.row("M4")
async def test_answered_with_nothing_the_servers_defaults_are_sent(
    sqlite_db: Database, http: HttpServer
) -> None:
    step = call("srv__ask_twice", service="api")
    async with mcp_world(sqlite_db, section(http, **FREE), step, "Done.") as world:
        chat = await world.chat()
        await world.settle()
        who = await only_question(chat)
        await who.answer({one.name: "ana" for one in who.fields if one.required}, by=ANA)
        await world.settle()
        await (await only_question(chat)).answer({"env": "staging"}, by=ANA)
        await world.settle()
        assert '"replicas": 1' in (await returned(chat))[0]


@pytest.mark.row("M5")
@pytest.mark.parametrize(("verb", "action"), [("decline", "decline"), ("dismiss", "cancel")])
async def test_a_no_reaches_the_server_as_such(
    verb: str, action: str, sqlite_db: Database, http: HttpServer
) -> None:
    async with mcp_world(sqlite_db, section(http, **FREE), ASK, "Done.") as world:
        chat = await world.chat()
        await world.settle()
        question = await only_question(chat)
        await (question.decline(by=ANA) if verb == "decline" else question.dismiss(by=ANA))
        await world.settle()
        assert action in (await returned(chat))[0]


@pytest.mark.row("M6")
@pytest.mark.row("M7")
@pytest.mark.parametrize("kinds", ["none", "page"])
async def test_a_kind_that_is_not_accepted_never_reaches_people(
    kinds: str, sqlite_db: Database, http: HttpServer
) -> None:
    asked: list[Asked] = []

    async def callback(question: Asked) -> None:
        asked.append(question)

    settings = section(http, **FREE, questions=kinds)
    async with mcp_world(sqlite_db, settings, ASK, "Done.", callbacks=[callback]) as world:
        chat = await world.chat()
        await world.settle()
        assert not await chat.waiting()
        assert await chat.last_reply() == "Done."
        assert not world.surface.cards()
    assert asked == []


@pytest.mark.row("M9")
def test_an_unknown_kind_is_an_error_where_it_is_declared() -> None:
    from bot.mcp.settings import server_settings

    with pytest.raises(ConfigError, match=r"servers\.srv\.questions"):
        server_settings("srv", {"url": "https://x.test/mcp", "questions": "forms"})


@pytest.mark.row("M1")
async def test_a_callback_settles_it_before_people_see_it(
    sqlite_db: Database, http: HttpServer, tmp_path: Path
) -> None:
    async def callback(question: Asked) -> dict[str, Any]:
        return {"env": "staging", "reason": "by rule"}

    async with mcp_world(
        sqlite_db, section(http, **FREE), ASK, "Done.", callbacks=[callback]
    ) as world:
        chat = await world.chat()
        await world.settle()
        assert "by rule" in (await returned(chat))[0]
        assert not world.surface.cards()
    assert effects(tmp_path) == ["ask api"]


@pytest.mark.row("M10")
@pytest.mark.row("B98")
async def test_a_page_is_visited_finished_and_asked_for_again_until_it_was(
    sqlite_db: Database, http: HttpServer, tmp_path: Path
) -> None:
    async with mcp_world(sqlite_db, section(http, **FREE), call("srv__ask_page"), "Done.") as world:
        chat = await world.chat()
        await world.settle()
        first = await only_question(chat)
        assert first.kind is Kind.PAGE
        assert first.url == "https://auth.example.com/start?user=42"
        await first.answer(by=ANA)  # too early: the server asks again
        await world.settle()
        again = await only_question(chat)
        assert again.id != first.id
        (tmp_path / "visited").touch()
        await again.answer(by=ANA)
        await world.settle()
        assert "accept" in (await returned(chat))[0]


@pytest.mark.row("M12")
async def test_a_server_that_never_has_enough_is_left_after_ten_rounds(
    sqlite_db: Database, http: HttpServer
) -> None:
    async def callback(question: Asked) -> dict[str, Any]:
        return {one.name: "ana" for one in question.fields if one.required}

    async with mcp_world(
        sqlite_db, section(http, **FREE), call("srv__ask_forever"), "Done.", callbacks=[callback]
    ) as world:
        chat = await world.chat()
        await world.settle()
        assert "asked more than 10 times" in (await returned(chat))[0]


async def test_two_questions_of_one_round_are_two_cards_and_one_answer(
    sqlite_db: Database, http: HttpServer, tmp_path: Path
) -> None:
    step = call("srv__ask_two", service="api")
    async with mcp_world(sqlite_db, section(http, **FREE), step, "Done.") as world:
        chat = await world.chat()
        await world.settle()
        one, two = await chat.pending_questions()
        form, who = (one, two) if one.message == "Deploy api?" else (two, one)
        await who.answer({f.name: "ana" for f in who.fields if f.required}, by=ANA)
        await world.settle()
        assert effects(tmp_path) == []
        await form.answer({"env": "staging"}, by=ANA)
        await world.settle()
        assert effects(tmp_path) == ["ask_two api"]


async def test_a_server_that_only_wants_time_is_asked_again(
    sqlite_db: Database, http: HttpServer
) -> None:
    async with mcp_world(
        sqlite_db, section(http, **FREE), call("srv__ask_later"), "Done."
    ) as world:
        chat = await world.chat()
        await world.settle()
        assert await returned(chat) == ["called 3 times"]


async def test_a_lapsed_state_is_asked_anew_and_the_record_answers(
    sqlite_db: Database, http: HttpServer, tmp_path: Path
) -> None:
    """The server was restarted with another key, so it does not know its state any more."""
    async with mcp_world(sqlite_db, section(http, **FREE), ASK, "Done.") as world:
        chat = await world.chat()
        await world.settle()
        http.kill()
        await http.start()
        await (await only_question(chat)).answer({"env": "staging"}, by=ANA)
        await world.settle()
        assert "staging" in (await returned(chat))[0]
        assert not await chat.waiting()
        assert len(world.surface.cards()) == 1
    assert effects(tmp_path) == ["ask api"]


@pytest.mark.row("M16")
async def test_an_approval_and_a_form_wait_side_by_side(
    sqlite_db: Database, http: HttpServer, tmp_path: Path
) -> None:
    settings = section(http, **FREE, approval_by_tool={"counter": "ask"})
    step = [call("srv__counter"), call("srv__ask", service="api")]
    async with mcp_world(sqlite_db, settings, step, "Done.") as world:
        chat = await world.chat()
        await world.settle()
        purposes = {one.purpose for one in await chat.pending_questions()}
        assert purposes == {Purpose.APPROVAL, Purpose.ASK}
        assert effects(tmp_path) == []


@pytest.mark.row("M18")
async def test_called_outside_a_chat_the_error_ends_with_message_and_address(
    sqlite_db: Database, http: HttpServer
) -> None:
    async with mcp_world(sqlite_db, section(http, **FREE), "Hello.") as world:
        tool = await world.core.agents["agent"].find("srv__page_required")
        assert tool is not None
        outcome = await tool.run({}, Call(id="", tool="", requester=""))
        assert isinstance(outcome, Done)
        assert outcome.result.endswith("Authorize files https://auth.example.com/start?user=42")


async def test_the_error_that_names_a_page_is_parked_and_the_call_made_anew(
    sqlite_db: Database, http: HttpServer, tmp_path: Path
) -> None:
    async with mcp_world(
        sqlite_db, section(http, **FREE), call("srv__page_required"), "Done."
    ) as world:
        chat = await world.chat()
        await world.settle()
        question = await only_question(chat)
        assert question.kind is Kind.PAGE
        (tmp_path / "visited").touch()
        await question.answer(by=ANA)
        await world.settle()
        assert await returned(chat) == ["welcome"]
    assert effects(tmp_path) == ["page_required"]


# Servers of before 2026-07-28 ask while the call is open.

CLASSIC = call("srv__classic_ask", service="api")


async def test_a_classic_question_is_answered_while_the_call_is_open(
    sqlite_db: Database, legacy: HttpServer, tmp_path: Path
) -> None:
    settings = section(legacy, **FREE, protocol="legacy")
    async with mcp_world(sqlite_db, settings, CLASSIC, "Done.") as world, world.serving():
        chat = await world.chat()

        async def asked() -> bool:
            return bool(await chat.pending_questions())

        async def over() -> bool:
            return await chat.last_reply() == "Done."

        await until(asked)
        await (await only_question(chat)).answer({"env": "staging"}, by=ANA)
        await until(over)
        assert await returned(chat) == ["api: accept staging"]
    assert effects(tmp_path) == ["classic_ask asks", "classic_ask api accept"]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_tools, "LIVE_SECONDS", 0.4)
    monkeypatch.setattr(mcp_tools, "LOOK_SECONDS", 0.05)


async def test_a_classic_question_that_outlived_its_call_is_not_replayed_by_itself(
    sqlite_db: Database, legacy: HttpServer, tmp_path: Path, impatient: None
) -> None:
    settings = section(legacy, **FREE, protocol="legacy")
    async with mcp_world(sqlite_db, settings, CLASSIC, "Done.") as world:
        chat = await world.chat()
        await world.settle()
        questions = {one.purpose: one for one in await chat.pending_questions()}
        assert set(questions) == {Purpose.ASK, Purpose.OUTCOME}
        assert effects(tmp_path) == ["classic_ask asks", "classic_ask api cancel"]

        await questions[Purpose.ASK].answer({"env": "production"}, by=ANA)
        await world.settle()
        assert len(effects(tmp_path)) == 2  # the answer alone runs nothing again
        await questions[Purpose.OUTCOME].answer({"outcome": "again"}, by=BEN)
        await world.settle()
        assert await returned(chat) == ["api: accept production"]
    assert effects(tmp_path)[2:] == ["classic_ask asks", "classic_ask api accept"]


async def test_a_direct_call_of_a_tool_that_asks_raises_nothing_and_sends_no_answer(
    sqlite_db: Database, legacy: HttpServer
) -> None:
    settings = section(legacy, **FREE, protocol="legacy")
    async with mcp_world(sqlite_db, settings, "Hello.") as world:
        tool = await world.core.agents["agent"].find("srv__classic_ask")
        assert tool is not None
        outcome = await tool.run({"service": "api"}, Call(id="", tool="", requester=""))
        assert outcome == Done("api: cancel")


async def test_a_call_that_is_given_up_asks_nothing_more(
    sqlite_db: Database, legacy: HttpServer, impatient: None
) -> None:
    settings = section(legacy, **FREE, protocol="legacy")
    async with mcp_world(sqlite_db, settings, CLASSIC, "Done.") as world:
        chat = await world.chat()
        await world.settle()
        questions = {one.purpose: one for one in await chat.pending_questions()}
        await questions[Purpose.OUTCOME].answer({"outcome": "give_up"}, by=BEN)
        await world.settle()
        assert await chat.pending_questions() == []
        assert not any(card.open for card in world.surface.cards())
        late = await questions[Purpose.ASK].answer({"env": "staging"}, by=ANA)
        assert not late.first
