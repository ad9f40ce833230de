"""One turn of a language model: history in, a whole response out, text shown while it grows.

The providers' wires are pydantic-ai's (`pydantic_ai.direct`); its agent, its toolsets and the
retries of the providers' SDKs are not used. Retrying is done here, under an injected clock.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from pydantic_ai import exceptions as failures
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model as Wire
from pydantic_ai.models import ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from bot.transcript import ProposedCall, answers_calls, calls_of, dump, is_cut, sound, text_of

RETRIES: Final = 4
HELD_SECONDS: Final = 60.0  # how long one turn may wait in memory, all its waits together
DEFAULT_CONTEXT_TOKENS: Final = 128_000

OnText = Callable[[str], Awaitable[None]]
"""Receives the whole text so far, not the difference; it starts anew when a request is retried."""


class InvalidModel(ValueError):
    """The settings name no usable model; the message is one sentence that names the setting."""


class ModelFailed(Exception):
    """The turn failed for good; the message is one sentence for people.

    `detail` is what the provider said, for the operator's log, without the key.
    """

    def __init__(self, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.detail = detail


class TryLater(Exception):
    """The provider asks for a longer wait than a turn may hold: let go of the chat until `at`.

    `at` is in seconds since the epoch, by the model's clock.
    """

    def __init__(self, at: float, reason: str) -> None:
        super().__init__(f"The model asks to be tried again later: {reason}.")
        self.at = at


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it; `parameters` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """What an agent asks of its model.

    `instructions` go in front of every request: keep them free of anything that changes, or the
    provider's prompt cache is lost. `first_tool` is a tool the model must call first when a person
    has spoken; after a round of calls its choice is free again (spec: L5).
    """

    instructions: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    first_tool: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one response as the provider counted them; `input` includes both cache counts."""

    input: int
    output: int
    cache_read: int
    cache_write: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A whole response. `cut`: its last call is incomplete. `cost` in US dollars, None: unknown."""

    response: str
    text: str
    calls: tuple[ProposedCall, ...]
    cut: bool
    usage: Usage
    cost: Decimal | None
    model: str
    seconds: float


class Model:
    """A language model behind one provider's wire; as an async context it closes its connections.

    Many chats may use one at the same time.
    """

    def __init__(
        self,
        name: str,
        wire: Wire,
        *,
        context_tokens: int | None = None,
        priced: bool = True,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Random | None = None,
    ) -> None:
        self.name = name
        self.context_tokens = context_tokens or wire.context_window or DEFAULT_CONTEXT_TOKENS
        self._wire = wire
        self._priced = priced
        self._now = now
        self._sleep = sleep
        self._random = random or Random()

    @classmethod
    def open(
        cls,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        context_tokens: int | None = None,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Random | None = None,
    ) -> Model:
        """The model of a string such as "openai:gpt-5" or "anthropic:claude-sonnet-4-5".

        With `base_url`, "openai:..." is any server that speaks OpenAI's chat completions; its
        prices are unknown, and no key of the environment is ever sent there. Without `api_key`
        the provider's own variable is read (OPENAI_API_KEY, ...). Raises InvalidModel.
        """
        return cls(
            name,
            _open_wire(name, base_url, api_key),
            context_tokens=context_tokens,
            priced=base_url is None,
            now=now,
            sleep=sleep,
            random=random,
        )

    def __repr__(self) -> str:
        return f"Model({self.name!r})"

    async def __aenter__(self) -> Self:
        await self._wire.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._wire.__aexit__(kind, error, trace)

    async def turn(
        self,
        history: Sequence[ModelMessage],
        tools: Sequence[ToolSpec],
        settings: Settings,
        on_text: OnText,
    ) -> Turn:
        """Asks for one response and waits until it is whole.

        Failures that may pass are tried again up to four times, waiting at most 60 s in total and
        at least as long as the provider asks. May be cancelled at any await; nothing is stored
        (spec: L3). Raises TryLater or ModelFailed.
        """
        started = self._now()
        held = 0.0
        for attempt in range(RETRIES + 1):
            try:
                response = await self._attempt(history, tools, settings, on_text)
            except (failures.AgentRunError, failures.UserError) as error:
                failure = error
            else:
                return self._turn(response, self._now() - started)
            if not _may_pass(failure):
                raise self._failed(failure)
            wait = self._wait(attempt, failure)
            if held + wait > HELD_SECONDS:
                raise TryLater(self._now() + wait, _reason(failure))
            if attempt < RETRIES:
                held += wait
                await self._sleep(wait)
        raise ModelFailed(
            f"The model {self.name} gave no answer in {RETRIES + 1} attempts "
            f"({_reason(failure)}): write something here to try again.",
            self._detail(failure),
        )

    async def _attempt(
        self,
        history: Sequence[ModelMessage],
        tools: Sequence[ToolSpec],
        settings: Settings,
        on_text: OnText,
    ) -> ModelResponse:
        async with self._request(
            history, self._settings(history, settings), _parameters(tools, settings)
        ) as stream:
            async for event in stream:
                if _adds_text(event):
                    await on_text(text_of(sound(stream.get())))
            response = sound(stream.get())
        if response.state != "complete" or _broke_off(response):
            raise failures.UnexpectedModelBehavior("the answer broke off")
        if not text_of(response).strip() and not calls_of(response):
            raise _empty(response)
        return response

    def _request(
        self,
        history: Sequence[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
    ) -> AbstractAsyncContextManager[StreamedResponse]:
        return model_request_stream(
            self._wire, history, model_settings=settings, model_request_parameters=parameters
        )

    def _settings(self, history: Sequence[ModelMessage], settings: Settings) -> ModelSettings:
        wire = ModelSettings(cache=True)  # ignored where the provider has nothing to switch on
        if "max_retries" not in self._wire.unsupported_settings:
            wire["max_retries"] = 0
        if settings.max_tokens is not None:
            wire["max_tokens"] = settings.max_tokens
        if settings.temperature is not None:
            wire["temperature"] = settings.temperature
        if settings.first_tool is not None and not (history and answers_calls(history[-1])):
            wire["tool_choice"] = [settings.first_tool]
        return wire

    def _turn(self, response: ModelResponse, seconds: float) -> Turn:
        usage = response.usage
        return Turn(
            response=dump(response),
            text=text_of(response),
            calls=tuple(calls_of(response)),
            cut=is_cut(response),
            usage=Usage(
                input=usage.input_tokens,
                output=usage.output_tokens,
                cache_read=usage.cache_read_tokens,
                cache_write=usage.cache_write_tokens,
            ),
            cost=_cost(response, self._priced),
            model=response.model_name or self.name,
            seconds=seconds,
        )

    def _wait(self, attempt: int, failure: Exception) -> float:
        """Seconds before the next attempt: 0.5-1, 1-2, 2-4, 4-8, or what the provider asks."""
        backoff = 2.0**attempt * self._random.uniform(0.5, 1.0)
        asked = failure.retry_after if isinstance(failure, failures.ModelAPIError) else None
        return backoff if asked is None else asked + backoff / 10

    def _failed(self, failure: Exception) -> ModelFailed:
        match failure:
            case failures.ModelAuthenticationError():
                sentence = "refused the API key: check the key set for it"
            case failures.ModelQuotaExceededError():
                sentence = "has no quota left: top up the account, then write something here"
            case failures.ModelNotFoundError():
                sentence = "is unknown to its provider: check the agent's model setting"
            case failures.ModelContextWindowExceededError():
                sentence = "cannot take in a conversation this long: start a new thread"
            case failures.ContentFilterError():
                sentence = "was stopped by its provider's content filter: put it another way"
            case failures.IncompleteToolCall() | failures.OutputTokenLimitExceeded():
                sentence = "used up its output limit before it said anything: raise max_tokens"
            case _:
                sentence = "refused the request: the bot's log has what its provider said"
        return ModelFailed(f"The model {self.name} {sentence}.", self._detail(failure))

    def _detail(self, failure: Exception) -> str:
        client = getattr(self._wire.provider, "client", None)
        key = getattr(client, "api_key", None)
        text = str(failure)
        if isinstance(key, str) and key:
            text = text.replace(key, "[key]")
        return " ".join(text.split())[:500]


def _open_wire(name: str, base_url: str | None, api_key: str | None) -> Wire:
    kind, colon, model = name.partition(":")
    if not (kind and colon and model):
        raise InvalidModel(
            f"The model {name!r} is not of the form provider:model: "
            "set the agent's model to something like 'openai:gpt-5'."
        )
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise InvalidModel("The agent's base_url must begin with http:// or https://: correct it.")
    if base_url is not None and kind == "openai":
        kind = "openai-chat"  # what "compatible" servers speak; their Responses API rarely works

    def provider(kind: str) -> Provider[Any]:
        if base_url is not None:
            return _provider_at(kind, base_url, api_key)
        if api_key is not None:
            return infer_provider_class(kind)(api_key=api_key)  # type: ignore[call-arg]
        return infer_provider(kind)

    try:
        return infer_model(f"{kind}:{model}", provider)
    except ImportError as error:
        raise InvalidModel(_missing_package(name, str(error))) from None
    except TypeError:
        raise InvalidModel(
            f"The provider of the model {name!r} cannot be given a base_url or an api_key: "
            "leave them unset and use the provider's own environment variables."
        ) from None
    except (failures.UserError, ValueError) as error:
        if variable := re.search(r"`([A-Z][A-Z0-9_]+)` environment variable", str(error)):
            raise InvalidModel(
                f"The model {name!r} has no API key: set {variable[1]} in the environment."
            ) from None
        raise InvalidModel(
            f"No provider offers the model {name!r}: correct the agent's model setting."
        ) from None


def _provider_at(kind: str, base_url: str, api_key: str | None) -> Provider[Any]:
    # An explicit key, even an empty one's stand-in, keeps the SDKs from sending to this address
    # the key that the environment holds for the provider itself.
    key = api_key or "no-key"
    if kind in ("openai-chat", "openai-responses"):
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        return OpenAICompatibleProvider("openai-compatible", base_url=base_url, api_key=key)
    return infer_provider_class(kind)(base_url=base_url, api_key=key)  # type: ignore[call-arg]


def _missing_package(name: str, message: str) -> str:
    extra = re.search(r"pydantic-ai-slim\[([\w-]+)\]", message)
    if extra and extra[1] == "anthropic":
        package = "interlock[anthropic]"
    elif extra:
        package = f"pydantic-ai-slim[{extra[1]}]"
    else:
        package = "the package of its provider"
    return f"The model {name!r} needs a package that is missing: install {package}."


def _parameters(tools: Sequence[ToolSpec], settings: Settings) -> ModelRequestParameters:
    # Sorted: the order in which servers list their tools must not change the cached prefix.
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=dict(tool.parameters),
            )
            for tool in sorted(tools, key=lambda tool: tool.name)
        ],
        instruction_parts=(
            [InstructionPart(content=settings.instructions)] if settings.instructions else []
        ),
    )


def _adds_text(event: ModelResponseStreamEvent) -> bool:
    match event:
        case PartStartEvent(part=TextPart(content=text)):
            return bool(text)
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return bool(text)
        case _:
            return False


def _broke_off(response: ModelResponse) -> bool:
    # pydantic-ai 2.68 takes a chat completion that ends without a finish reason for a finished
    # one; the raw reason is then missing from the details. Goes when its `state` is "incomplete".
    raw = (response.provider_details or {}).get("finish_reason")
    return raw is None and response.finish_reason in (None, "stop")


def _empty(response: ModelResponse) -> failures.AgentRunError:
    match response.finish_reason:
        case "length":
            return failures.OutputTokenLimitExceeded("no text before the output limit")
        case "content_filter":
            return failures.ContentFilterError("stopped by the content filter")
        case _:
            return failures.UnexpectedModelBehavior("the answer was empty")


def _may_pass(failure: Exception) -> bool:
    match failure:
        case (
            failures.ModelRateLimitError()
            | failures.ModelUnavailableError()
            | failures.ModelServerError()
            | failures.ModelConnectionError()
        ):
            return True
        case failures.ModelHTTPError(status_code=status):
            return status in (408, 409)  # a time-out and a conflict, which have no class of theirs
        case failures.ModelAPIError():
            return type(failure) is failures.ModelAPIError  # garbled, not refused
        case failures.ContentFilterError() | failures.OutputTokenLimitExceeded():
            return False
        case _:
            return isinstance(failure, failures.UnexpectedModelBehavior)


def _reason(failure: Exception) -> str:
    match failure:
        case failures.ModelRateLimitError():
            return "its rate limit is reached"
        case failures.ModelUnavailableError():
            return "its provider is overloaded"
        case failures.ModelServerError():
            return "its provider has a fault"
        case failures.ModelTimeoutError():
            return "it took too long"
        case failures.ModelConnectionError():
            return "the connection failed"
        case _:
            return "its answers were empty or broke off"


def _cost(response: ModelResponse, priced: bool) -> Decimal | None:
    if response.usage.cost is not None:  # what the gateway says it charged
        return response.usage.cost
    if not priced or not response.model_name:
        return None
    try:
        return response.cost().total_price
    except (LookupError, ValueError):
        return None
