"""Which calls are repeated, and what each failure means for the outbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from adapters.teams import limits
from adapters.teams.botbuilder import Answer, NoAnswer, NoToken
from adapters.teams.clouds import CLOUDS
from adapters.teams.connector import Connector
from adapters.teams.gate import Gate
from bot.surface import DeliveryError

SERVICE = "https://smba.trafficmanager.net/emea/"
THREAD = "19:ops@thread.tacv2;messageid=1"
GATE = Gate("app", frozenset({"t"}), CLOUDS["public"])


class Script:
    """Answers in order what it was told to, and records what was asked."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []

    async def call(
        self,
        verb: str,
        url: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        self.asked.append((verb, url))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def answered(status: int, code: str = "", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, {"error": {"code": code}} if code else {"id": "7"})


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPEAT_SECONDS", 0.0)


async def do(script: Script, verb: str) -> None:
    connector = Connector(script, GATE)
    match verb:
        case "post":
            await connector.post(SERVICE, THREAD, {"type": "message"})
        case "edit":
            await connector.edit(SERVICE, THREAD, "5", {"type": "message"})
        case _:
            await connector.member(SERVICE, "19:ops@thread.tacv2", "29:a/b")


async def fails(script: Script, verb: str) -> DeliveryError:
    with pytest.raises(DeliveryError) as failed:
        await do(script, verb)
    return failed.value


async def test_addresses_are_quoted() -> None:
    script = Script(answered(201), answered(200), answered(200))
    connector = Connector(script, GATE)
    assert await connector.post(SERVICE, THREAD, {}) == "7"
    await connector.edit(SERVICE, THREAD, "5", {})
    await connector.member(SERVICE, "19:ops@thread.tacv2", "29:a/b")
    root = "https://smba.trafficmanager.net/emea/v3/conversations/19%3Aops%40thread.tacv2"
    assert script.asked == [
        ("post", f"{root}%3Bmessageid%3D1/activities"),
        ("put", f"{root}%3Bmessageid%3D1/activities/5"),
        ("get", f"{root}/members/29%3Aa%2Fb"),
    ]


@pytest.mark.parametrize("status", [408, 412, 500, 502, 503, 504])
async def test_a_post_that_may_have_been_taken_is_not_sent_again(status: int) -> None:
    script = Script(answered(status))
    error = await fails(script, "post")
    assert error.maybe_sent
    assert not error.permanent
    assert len(script.asked) == 1


@pytest.mark.parametrize("verb", ["edit", "member"])
@pytest.mark.parametrize("status", [412, 502, 503, 504])
async def test_reading_and_editing_is_repeated_once(verb: str, status: int) -> None:
    script = Script(answered(status), answered(status))
    error = await fails(script, verb)
    assert len(script.asked) == 2
    assert not error.maybe_sent
    assert not error.permanent
    await Connector(Script(answered(status), answered(200)), GATE).edit(SERVICE, THREAD, "5", {})


async def test_too_many_is_waited_for_as_teams_says() -> None:
    for verb in ("post", "edit", "member"):
        script = Script(answered(429, Retry_After="17"))
        error = await fails(script, verb)
        assert error.retry_after is not None
        assert 17 <= error.retry_after < 18
        assert not error.maybe_sent
        assert len(script.asked) == 1
    error = await fails(Script(answered(429, Retry_After="Wed, 21 Oct 2026")), "post")
    assert error.retry_after is not None
    assert error.retry_after >= limits.QUIET_SECONDS


@pytest.mark.parametrize(
    ("status", "code", "unreachable"),
    [
        (403, "BotNotInConversationRoster", "add its app"),
        (403, "BotDisabledByAdmin", "ask an admin"),
        (403, "SomethingElse", "may not write"),
        (404, "ConversationNotFound", "not in this conversation"),
        (413, "MessageSizeTooBig", ""),
        (400, "BadSyntax", ""),
    ],
)
async def test_what_is_of_no_use_to_repeat(status: int, code: str, unreachable: str) -> None:
    error = await fails(Script(answered(status, code)), "post")
    assert error.permanent
    assert bool(error.unreachable) is bool(unreachable)
    assert unreachable in error.unreachable


async def test_an_edit_of_a_message_that_is_gone_says_nothing_of_the_conversation() -> None:
    error = await fails(Script(answered(404, "ActivityNotFoundInConversation")), "edit")
    assert error.permanent
    assert not error.unreachable


async def test_a_refused_token_is_tried_again_later() -> None:
    assert not (await fails(Script(answered(401)), "post")).permanent
    error = await fails(Script(NoToken("PermissionError")), "post")
    assert not error.maybe_sent
    assert not error.permanent


@pytest.mark.parametrize("sent", [True, False])
async def test_a_connection_that_breaks(sent: bool) -> None:
    assert (await fails(Script(NoAnswer("ReadTimeout", sent=sent)), "post")).maybe_sent is sent
    script = Script(NoAnswer("ReadTimeout", sent=sent), NoAnswer("ReadTimeout", sent=sent))
    assert not (await fails(script, "edit")).maybe_sent
    assert len(script.asked) == 2


async def test_a_stored_address_is_judged_again() -> None:
    script = Script()
    with pytest.raises(DeliveryError) as failed:
        await Connector(script, GATE).post("https://evil.test/", THREAD, {})
    assert failed.value.permanent
    assert script.asked == []


async def test_what_teams_says_of_an_error_is_not_quoted() -> None:
    answer = Answer(400, {}, {"error": {"code": "Bad <script>", "message": "s3cret"}})
    assert str(await fails(Script(answer), "post")) == "Teams post: 400"
