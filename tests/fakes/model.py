"""A scripted model that records what it was asked and can fail the way providers do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pydantic_ai import exceptions as failures
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.function import DeltaToolCalls
from pydantic_ai.settings import ModelSettings

from bot.model import ToolSpec
from bot.scripted import Call, Reply, Say, Script, Step, call, say

__all__ = [
    "Call",
    "Request",
    "Say",
    "ScriptedModel",
    "call",
    "cut",
    "dropped",
    "fails",
    "hangs",
    "overloaded",
    "rate_limited",
    "refused",
    "say",
    "script",
    "server_error",
]

_Category = (
    failures.ModelRateLimitError
    | failures.ModelUnavailableError
    | failures.ModelServerError
    | failures.ModelRequestRejectedError
)


@dataclass(frozen=True)
class Request:
    """What one attempt sent: the history, the tools in their order, the instructions."""

    messages: list[ModelMessage]
    tools: list[ToolSpec]
    instructions: str
    settings: ModelSettings


@dataclass(frozen=True)
class _Fails(Reply):
    error: Exception | None = None

    async def stream(self, position: int) -> AsyncIterator[str | DeltaToolCalls]:
        async for chunk in super().stream(position):
            yield chunk
        assert self.error is not None
        raise self.error


@dataclass(frozen=True)
class _Hangs(Reply):
    async def stream(self, position: int) -> AsyncIterator[str | DeltaToolCalls]:
        async for chunk in super().stream(position):
            yield chunk
        await asyncio.Event().wait()


@dataclass(frozen=True)
class _Faulty:
    faults: tuple[Reply, ...]
    then: Step

    def __call__(self, _history: Sequence[ModelMessage]) -> Step:
        return self.then


class ScriptedModel(Script):
    """A Script with a record: `requests` has every attempt, retried ones too."""

    def __init__(self, *steps: Step, **options: Any) -> None:
        super().__init__(*steps, **options)
        self.requests: list[Request] = []
        self._faults = [
            list(step.faults) if isinstance(step, _Faulty) else [] for step in self._steps
        ]

    def reply(self, history: Sequence[ModelMessage]) -> Reply:
        position = sum(message.kind == "response" for message in history)
        if position < len(self._faults) and self._faults[position]:
            return self._faults[position].pop(0)
        return super().reply(history)

    @asynccontextmanager
    async def _request(
        self,
        history: Sequence[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
    ) -> AsyncGenerator[StreamedResponse]:
        self.requests.append(
            Request(
                messages=list(history),
                tools=[
                    ToolSpec(tool.name, tool.description or "", tool.parameters_json_schema)
                    for tool in parameters.function_tools
                ],
                instructions="".join(p.content for p in parameters.instruction_parts or []),
                settings=settings,
            )
        )
        async with super()._request(history, settings, parameters) as stream:
            yield stream


def script(*steps: Step, **options: Any) -> ScriptedModel:
    return ScriptedModel(*steps, **options)


def cut(*parts: str | Say | Call) -> Reply:
    """A response that the output limit cuts off after its last part."""
    return Reply(tuple(say(part) if isinstance(part, str) else part for part in parts), cut=True)


def hangs(text: str = "", *, then: Step) -> Step:
    """Shows this text and never goes on; the attempt after it was cancelled succeeds."""
    return _Faulty((_Hangs((say(text),)),), then)


def fails(*errors: Exception, then: Step, after: str = "") -> Step:
    """Raises each error once, having shown the text `after`; the attempt that follows succeeds."""
    return _Faulty(tuple(_Fails((say(after),), error=error) for error in errors), then)


def rate_limited(retry_after: float | None = None) -> Exception:
    return _http(failures.ModelRateLimitError, 429, retry_after)


def overloaded() -> Exception:
    return _http(failures.ModelOverloadedError, 529)


def server_error() -> Exception:
    return _http(failures.ModelServerError, 500)


def refused(message: str = "bad request") -> Exception:
    return _http(failures.ModelRequestRejectedError, 400, message=message)


def dropped() -> Exception:
    return failures.ModelConnectionError("scripted", "connection reset", phase="read")


def _http(
    category: type[_Category], status: int, retry_after: float | None = None, message: str = ""
) -> Exception:
    return failures.ModelHTTPError.for_category(
        category,
        status_code=status,
        model_name="scripted",
        body={"message": message},
        retry_after=retry_after,
    )
