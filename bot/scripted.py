"""A model that follows a script: for the demonstration, and under the tests' own model.

    Script(say("Let me look."), call("refund", order="A1", amount=5), "Done.")

Where it stands in the script is the number of its responses in the history it is given, so a
restart of the process changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final

from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.settings import ModelSettings

from bot.model import Model, ModelFailed

_CHUNKS: Final = (3, 1, 7, 2, 11)  # characters: unequal, as they come from a provider
_SLOWLY: Final = 2_000  # characters; what comes after them comes in large pieces
_QUICKLY: Final = 997


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call by name; `args` is the JSON text of its arguments, which need not be valid."""

    name: str
    args: str


@dataclass(frozen=True)
class Reply:
    """One response: its text, its calls, and whether the output limit cuts it off."""

    parts: tuple[Say | Call, ...]
    cut: bool = False

    async def stream(self, position: int) -> AsyncIterator[str | DeltaToolCalls]:
        yield ""  # a stream must open with something, even an empty one
        for index, part in enumerate(self.parts):
            match part:
                case Say(text):
                    for piece in _pieces(text):
                        yield piece
                case Call(name, args):
                    call_id = f"call_{position}_{index}"
                    yield {index: DeltaToolCall(name=name, tool_call_id=call_id)}
                    for piece in _pieces(args):
                        yield {index: DeltaToolCall(json_args=piece)}


Part = str | Say | Call
Step = Part | Sequence[Part] | Reply | Callable[[Sequence[ModelMessage]], "Step"]
"""One turn: text, a call, several of them, or a function of the history that gives such."""


def say(text: str) -> Say:
    return Say(text)


def call(name: str, /, **args: Any) -> Call:
    return Call(name, json.dumps(args))


class Script(Model):
    """A Model whose responses are its steps, one after the other.

    A turn after the last step raises ModelFailed.
    """

    def __init__(self, *steps: Step, **options: Any) -> None:
        super().__init__("scripted", FunctionModel(stream_function=_unused), **options)
        self._steps = steps

    def reply(self, history: Sequence[ModelMessage]) -> Reply:
        position = _position(history)
        if position >= len(self._steps):
            raise ModelFailed("The script of the model is at its end: start a new thread.")
        return _reply(self._steps[position], history)

    @asynccontextmanager
    async def _request(
        self,
        history: Sequence[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
    ) -> AsyncGenerator[StreamedResponse]:
        reply = self.reply(history)
        position = _position(history)
        wire = FunctionModel(
            stream_function=lambda _messages, _info: reply.stream(position), model_name=self.name
        )
        async with model_request_stream(
            wire, history, model_settings=settings, model_request_parameters=parameters
        ) as stream:
            stream.finish_reason = "length" if reply.cut else "stop"
            stream.provider_details = {"finish_reason": stream.finish_reason}
            yield stream


def _position(history: Sequence[ModelMessage]) -> int:
    return sum(isinstance(message, ModelResponse) for message in history)


def _reply(step: Step, history: Sequence[ModelMessage]) -> Reply:
    match step:
        case Reply():
            return step
        case str():
            return Reply((Say(step),))
        case Say() | Call():
            return Reply((step,))
        case Sequence():
            return Reply(tuple(Say(part) if isinstance(part, str) else part for part in step))
        case _:
            return _reply(step(history), history)


def _pieces(text: str) -> Iterator[str]:
    sizes = cycle(_CHUNKS)
    at = 0
    while at < len(text):
        size = next(sizes) if at < _SLOWLY else _QUICKLY
        yield text[at : at + size]
        at += size


async def _unused(_history: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str]:
    raise NotImplementedError
    yield ""  # what makes it a stream
