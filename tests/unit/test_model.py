from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from pydantic_ai import exceptions as failures
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage

from bot.model import (
    DEFAULT_CONTEXT_TOKENS,
    HELD_SECONDS,
    InvalidModel,
    Model,
    ModelFailed,
    Settings,
    ToolSpec,
    TryLater,
    Turn,
    _cost,
    _open_wire,
)
from bot.scripted import Script, Step
from bot.transcript import CallReturn, Said, load, returns_message, user_message
from tests.fakes.model import (
    ScriptedModel,
    call,
    cut,
    dropped,
    fails,
    hangs,
    overloaded,
    rate_limited,
    refused,
    say,
    script,
    server_error,
)

KEY = "sk-very-secret-0123456789"
TOOLS = [
    ToolSpec("refund", "Pays money back.", {"type": "object", "properties": {}}),
    ToolSpec("look", "Looks something up.", {"type": "object", "properties": {}}),
]


class Clock:
    def __init__(self) -> None:
        self.time = 1_000.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds


class Shown:
    def __init__(self) -> None:
        self.texts: list[str] = []

    async def __call__(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def scripted(clock: Clock, *steps: Step) -> ScriptedModel:
    return script(*steps, now=clock.now, sleep=clock.sleep, random=Random(7))


async def ask(
    model: Model,
    history: Sequence[ModelMessage] | None = None,
    settings: Settings | None = None,
    shown: Shown | None = None,
) -> Turn:
    return await model.turn(
        [user_message("hi", name="Ann")] if history is None else history,
        TOOLS,
        settings or Settings("Be brief."),
        shown or Shown(),
    )


# A whole turn


async def test_a_turn_has_the_text_and_the_calls_and_can_be_stored(clock: Clock) -> None:
    turn = await ask(scripted(clock, ["On it.", call("refund", order="A1", amount=5)]))

    assert turn.text == "On it."
    assert [(c.name, c.args) for c in turn.calls] == [("refund", '{"order": "A1", "amount": 5}')]
    assert not turn.cut
    assert (turn.model, turn.cost) == ("scripted", None)
    assert turn.usage.output > 0
    assert isinstance(load(turn.response), ModelResponse)


async def test_the_text_is_shown_whole_each_time_it_grows(clock: Clock) -> None:
    shown = Shown()

    await ask(scripted(clock, say("Hello there, Ann.")), shown=shown)

    assert shown.texts[-1] == "Hello there, Ann."
    assert len(shown.texts) > 2
    for before, after in zip(shown.texts, shown.texts[1:], strict=False):
        assert after.startswith(before)
        assert len(after) > len(before)


async def test_a_call_alone_shows_nothing(clock: Clock) -> None:
    shown = Shown()

    await ask(scripted(clock, call("look")), shown=shown)

    assert shown.texts == []


async def test_a_response_that_met_the_output_limit_is_cut(clock: Clock) -> None:
    turn = await ask(scripted(clock, cut("I will", call("refund", order="A1"))))

    assert turn.cut
    assert len(turn.calls) == 1


async def test_a_turn_counts_its_seconds_by_the_injected_clock(clock: Clock) -> None:
    turn = await ask(scripted(clock, fails(rate_limited(10), then="ok")))

    assert turn.seconds == pytest.approx(sum(clock.waits))


# The script


async def test_the_script_goes_on_where_the_history_ends_even_in_a_new_process(
    clock: Clock,
) -> None:
    steps: list[Step] = [call("look"), lambda history: f"{len(history)} messages", "last"]
    history = [user_message("hi", name="Ann")]
    turn = await ask(scripted(clock, *steps), history)
    history += [
        load(turn.response),
        returns_message([CallReturn(turn.calls[0].provider_id, "look", "found")], []),
    ]

    turn = await ask(Script(*steps), history)
    again = await ask(Script(*steps), [*history, load(turn.response)])

    assert (turn.text, again.text) == ("3 messages", "last")


async def test_the_script_says_when_it_is_at_its_end(clock: Clock) -> None:
    with pytest.raises(ModelFailed, match="at its end"):
        await ask(scripted(clock))


async def test_the_record_has_every_attempt(clock: Clock) -> None:
    model = scripted(clock, fails(server_error(), then="ok"))

    await ask(model)

    assert [len(request.messages) for request in model.requests] == [1, 1]
    assert model.requests[0].instructions == "Be brief."


# Failures that may pass


@pytest.mark.parametrize(
    "error",
    [
        rate_limited(),
        overloaded(),
        server_error(),
        dropped(),
        failures.ModelTimeoutError("m", "timed out"),
        failures.ModelAPIError("m", "garbled"),
        failures.ModelHTTPError(408, "m"),
        failures.UnexpectedModelBehavior("no content"),
    ],
)
async def test_a_failure_that_may_pass_is_tried_again(clock: Clock, error: Exception) -> None:
    turn = await ask(scripted(clock, fails(error, then="ok")))

    assert turn.text == "ok"
    assert len(clock.waits) == 1


async def test_an_empty_answer_is_asked_for_again(clock: Clock) -> None:
    answers = iter(["", "  \n", "ok"])

    turn = await ask(scripted(clock, lambda _history: next(answers)))

    assert turn.text == "ok"
    assert len(clock.waits) == 2


async def test_text_of_a_failed_attempt_is_not_joined_to_the_next_one(clock: Clock) -> None:
    shown = Shown()

    turn = await ask(
        scripted(clock, fails(dropped(), then="Done, Ann.", after="Half a sen")), shown=shown
    )

    assert turn.text == "Done, Ann."
    retried = shown.texts[shown.texts.index("Half a sen") + 1 :]
    assert all("Done, Ann.".startswith(text) for text in retried)
    assert retried[-1] == "Done, Ann."


async def test_waits_grow_and_differ_between_bots(clock: Clock) -> None:
    model = scripted(clock, fails(*[server_error()] * 4, then="ok"))

    await ask(model)

    assert [2**n / 2 <= wait <= 2**n for n, wait in enumerate(clock.waits)] == [True] * 4
    other = Clock()
    await ask(script(fails(server_error(), then="ok"), sleep=other.sleep, random=Random(8)))
    assert other.waits[0] != clock.waits[0]


async def test_after_the_fifth_failure_it_gives_up_with_one_sentence(clock: Clock) -> None:
    model = scripted(clock, fails(*[overloaded()] * 5, then="never"))

    with pytest.raises(ModelFailed, match=r"no answer in 5 attempts .* overloaded") as failed:
        await ask(model)

    assert len(model.requests) == 5
    assert len(clock.waits) == 4
    assert str(failed.value).count(". ") == 0


async def test_it_waits_at_least_as_long_as_the_provider_asks(clock: Clock) -> None:
    await ask(scripted(clock, fails(rate_limited(20), then="ok")))

    assert 20 <= clock.waits[0] <= 21


async def test_a_wait_longer_than_a_turn_may_hold_is_handed_to_the_loop(clock: Clock) -> None:
    with pytest.raises(TryLater) as later:
        await ask(scripted(clock, fails(rate_limited(61), then="never")))

    assert clock.waits == []
    assert later.value.at >= 1_000 + 61


async def test_all_waits_of_a_turn_together_stay_within_what_it_may_hold(clock: Clock) -> None:
    with pytest.raises(TryLater) as later:
        await ask(scripted(clock, fails(*[rate_limited(25)] * 3, then="never")))

    assert len(clock.waits) == 2
    assert sum(clock.waits) <= HELD_SECONDS
    assert later.value.at >= clock.time + 25


# Failures that do not pass


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (refused(), "refused the request"),
        (failures.ModelAuthenticationError("m", "no"), "check the key"),
        (failures.ModelQuotaExceededError("m", "no"), "quota"),
        (failures.ModelNotFoundError("m", "no"), "model setting"),
        (failures.ModelContextWindowExceededError("m", "no"), "new thread"),
        (failures.ContentFilterError("no"), "content filter"),
        (failures.UserError("no"), "refused the request"),
    ],
)
async def test_a_failure_that_stays_is_one_sentence_at_once(
    clock: Clock, error: Exception, says: str
) -> None:
    model = scripted(clock, fails(error, then="never"))

    with pytest.raises(ModelFailed, match=says) as failed:
        await ask(model)

    assert len(model.requests) == 1
    assert clock.waits == []
    sentence = str(failed.value)
    assert sentence.startswith("The model scripted ")
    assert sentence.endswith(".")
    assert ". " not in sentence
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None


async def test_an_answer_cut_before_its_first_word_names_the_limit(clock: Clock) -> None:
    with pytest.raises(ModelFailed, match="max_tokens"):
        await ask(scripted(clock, cut("")))

    assert clock.waits == []


async def test_a_fault_in_showing_the_text_is_not_taken_for_the_models(clock: Clock) -> None:
    async def broken(_text: str) -> None:
        raise ConnectionError("the chat service is gone")

    with pytest.raises(ConnectionError):
        await scripted(clock, "hello").turn(
            [user_message("hi", name="Ann")], [], Settings(), broken
        )

    assert clock.waits == []


# Cancelling


@pytest.mark.row("L3")
async def test_cancelled_while_streaming_it_stops_and_the_chat_is_usable(clock: Clock) -> None:
    model = scripted(clock, hangs("Half a sen", then="Here I am."))
    streaming = asyncio.Event()

    async def show(_text: str) -> None:
        streaming.set()

    running = asyncio.create_task(
        model.turn([user_message("hi", name="Ann")], [], Settings(), show)
    )
    await streaming.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert (await ask(model)).text == "Here I am."


@pytest.mark.row("L3")
async def test_cancelled_while_waiting_it_does_not_try_again() -> None:
    waiting = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    model = script(fails(server_error(), then="never"), sleep=sleep)
    running = asyncio.create_task(ask(model))
    await waiting.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert len(model.requests) == 1


# What is asked


async def test_tools_go_out_in_one_order_whatever_order_they_come_in(clock: Clock) -> None:
    model = scripted(clock, "one")

    for tools in (TOOLS, TOOLS[::-1]):
        await model.turn([user_message("hi", name="Ann")], tools, Settings(), Shown())

    assert [[tool.name for tool in request.tools] for request in model.requests] == [
        ["look", "refund"]
    ] * 2


async def test_only_what_is_set_is_sent(clock: Clock) -> None:
    model = scripted(clock, "one")

    await ask(model)
    await ask(model, settings=Settings(max_tokens=500, temperature=0.0))

    assert model.requests[0].settings == {"cache": True, "max_retries": 0}
    assert model.requests[1].settings == {
        "cache": True,
        "max_retries": 0,
        "max_tokens": 500,
        "temperature": 0.0,
    }


@pytest.mark.row("L5")
async def test_a_tool_that_must_be_called_first_is_free_again_after_a_round(clock: Clock) -> None:
    model = scripted(clock, call("look"), "found", "again")
    settings = Settings(first_tool="look")
    history = [user_message("hi", name="Ann")]

    first = await ask(model, history, settings)
    outcome = CallReturn(first.calls[0].provider_id, "look", "found")
    history += [load(first.response), returns_message([outcome], [Said("well?", "Ann")])]
    second = await ask(model, history, settings)
    history += [load(second.response), user_message("again", name="Ann")]
    await ask(model, history, settings)

    forced = [request.settings.get("tool_choice") for request in model.requests]
    assert forced == [["look"], None, ["look"]]


# Opening a model


def test_a_models_context_is_known_and_can_be_overridden() -> None:
    assert Model.open("openai:gpt-5", api_key=KEY).context_tokens == 400_000
    local = Model.open("openai:our-own", base_url="http://127.0.0.1:1/v1")
    assert local.context_tokens == DEFAULT_CONTEXT_TOKENS
    assert Model.open("openai:gpt-5", api_key=KEY, context_tokens=8_000).context_tokens == 8_000


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gpt-5", "set the agent's model to something like 'openai:gpt-5'"),
        ("openai:", "set the agent's model"),
        ("test", "set the agent's model"),
        ("nobody:gpt-5", "correct the agent's model setting"),
        ("openai:gpt-5", "set OPENAI_API_KEY in the environment"),
        ("anthropic:claude-sonnet-4-5", "set ANTHROPIC_API_KEY in the environment"),
    ],
)
def test_a_model_that_cannot_be_opened_names_the_setting_in_one_sentence(
    name: str, says: str
) -> None:
    with pytest.raises(InvalidModel, match=says) as invalid:
        Model.open(name)

    assert str(invalid.value).endswith(".")
    assert ". " not in str(invalid.value)


def test_a_base_url_without_a_scheme_is_refused() -> None:
    with pytest.raises(InvalidModel, match="base_url"):
        Model.open("openai:gpt-5", base_url="localhost:8000")


def test_a_provider_whose_package_is_missing_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    monkeypatch.delitem(sys.modules, "pydantic_ai.providers.anthropic", raising=False)

    with pytest.raises(InvalidModel, match=r"install interlock\[anthropic\]\."):
        Model.open("anthropic:claude-sonnet-4-5", api_key=KEY)


@pytest.mark.parametrize("name", ["openai:gpt-5", "anthropic:claude-sonnet-4-5", "nobody:x"])
@pytest.mark.parametrize("base_url", [None, "http://127.0.0.1:1/v1"])
def test_the_key_is_in_no_error_and_no_repr(name: str, base_url: str | None) -> None:
    try:
        shown = repr(Model.open(name, base_url=base_url, api_key=KEY))
    except InvalidModel as error:
        shown = f"{error!r} {error.__cause__!r}"

    assert KEY not in shown


async def test_a_key_that_a_provider_repeats_is_not_in_the_failure(clock: Clock) -> None:
    class Echoing(ScriptedModel):
        def __init__(self, *steps: Step) -> None:
            super().__init__(*steps)
            self._wire = _open_wire("openai:gpt-5", None, KEY)

    with pytest.raises(ModelFailed) as failed:
        await ask(Echoing(fails(refused(f"bad key {KEY}"), then="never")))

    assert "bad key [key]" in failed.value.detail
    assert KEY not in f"{failed.value!r} {failed.value.detail}"


@pytest.mark.parametrize(
    "name", ["openai:ours", "openai-responses:ours", "anthropic:claude-sonnet-4-5"]
)
def test_a_key_of_the_environment_is_not_sent_to_another_address(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)

    wire = _open_wire(name, "http://127.0.0.1:1/v1", None)

    assert wire.provider is not None
    assert KEY not in (wire.provider.client.api_key, getattr(wire.provider.client, "auth_token", 0))


# Cost


def priced(model: str, provider: str = "openai", **usage: Any) -> ModelResponse:
    return ModelResponse(
        parts=[TextPart("ok")],
        usage=RequestUsage(**usage),
        model_name=model,
        provider_name=provider,
    )


def test_a_known_model_has_its_price() -> None:
    cost = _cost(priced("gpt-5", input_tokens=1_000, output_tokens=10), priced=True)

    assert isinstance(cost, Decimal)
    assert cost > 0


@pytest.mark.parametrize(
    ("response", "known_provider"),
    [
        (priced("no-such-model", input_tokens=1_000), True),
        (priced("gpt-5", "openai-compatible", input_tokens=1_000), False),
        (priced("gpt-5", unmeasured_requests=1), True),
    ],
)
def test_a_price_nobody_knows_is_none(response: ModelResponse, known_provider: bool) -> None:
    assert _cost(response, known_provider) is None


def test_a_price_that_the_gateway_reports_goes_first() -> None:
    response = priced("gpt-5", input_tokens=1_000)
    response.usage.cost = Decimal("0.5")

    assert _cost(response, priced=False) == Decimal("0.5")
