"""Why a request to a server has no result, and above all: whether it may have had its effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import mcp.types as t
import pydantic
from mcp import MCPError
from mcp.client.auth.exceptions import OAuthFlowError

from bot.mcp.transport import SIZE_LIMIT, Exchange, explained

Era = Literal["modern", "legacy", "unknown"]

_WORDS = 300  # characters of what a server says, in a sentence of ours

# What mcp 2.3.0 says by itself, in the form of an error of the server.
_CLOSED = "Connection closed"
_HTTP_ERROR = "Server returned an error response"
_UNREADABLE = "Failed to parse"
_TOO_LARGE = "byte limit"
_NO_ANSWER = ("server answered a request with 202", "Unexpected content type")
_SESSION_GONE = ("Session not found", "Session terminated")

# What a server answers that is not the one that was discovered.
_OTHER_SERVER = (
    t.UNSUPPORTED_PROTOCOL_VERSION,
    t.INVALID_REQUEST,
    t.METHOD_NOT_FOUND,
    t.INTERNAL_ERROR,
)


class ConnectionFailed(Exception):
    """A request without a result; the text is a sentence that names the server."""


class NotSent(ConnectionFailed):
    """Nothing of it was taken by the server: it surely did not run."""


class Lost(ConnectionFailed):
    """No answer came, and nobody knows whether it ran."""


class Rejected(ConnectionFailed):
    """The server answered with a JSON-RPC error, which `code`, `message` and `data` are of."""

    def __init__(self, sentence: str, code: int, message: str, data: Any = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.message = message
        self.data = data


class BadAnswer(ConnectionFailed):
    """It ran, but its answer is malformed, breaks the schema of the tool, or is too large."""


@dataclass(frozen=True, slots=True, repr=False)
class Words:
    """Puts the failures of one server into sentences, without the secrets that it was given."""

    server: str
    secrets: Sequence[str]

    def clean(self, text: str) -> str:
        """One line, not too long; a server may repeat what it was given."""
        for one in self.secrets:
            text = text.replace(one, "[secret]")
        line = " ".join(text.split())
        return line if len(line) <= _WORDS else f"{line[:_WORDS]}…"

    def not_sent(self, clause: str) -> NotSent:
        return NotSent(f"{self.server} {self.clean(clause).rstrip('.')}.")

    def lost(self, why: str) -> Lost:
        why = self.clean(why).rstrip(".")
        return Lost(f"{self.server} gave no answer ({why}): it may or may not have happened.")

    def bad_answer(self, why: str) -> BadAnswer:
        why = self.clean(why).rstrip(".")
        return BadAnswer(f"{self.server} answered, but the answer is of no use: {why}.")

    def rejected(self, error: MCPError, message: str) -> Rejected:
        message = self.clean(message)
        sentence = f"{self.server} refused: {message.rstrip('.')}."
        return Rejected(sentence, error.code, message, error.data)

    def of_attempt(self, error: BaseException, exchange: Exchange, limit: float) -> NotSent:
        """Why a server could not be connected; `limit` is the seconds that it was given."""
        match error := leaf(error):
            case NotSent():
                return error
            case _ if exchange.ended:
                return self.not_sent(exchange.ended)
            case TimeoutError():
                return self.not_sent(f"did not answer within {limit:g} seconds")
            case MCPError():
                clause = str(self._of_error(error, exchange)).removeprefix(f"{self.server} ")
                return self.not_sent(clause)
            case OSError():
                return self.not_sent(f"cannot be started: {error.strerror}: {error.filename}")
            case OAuthFlowError():
                return self.not_sent(f"gives no token: {explained(error)}")
            case _:
                return self.not_sent(f"could not be reached: {explained(error)}")

    def of_request(
        self, error: BaseException, exchange: Exchange, limit: float
    ) -> ConnectionFailed:
        """What a request that failed means; `limit` is the seconds that it was given."""
        match error := leaf(error):
            case ConnectionFailed():
                return error
            case OAuthFlowError():
                return self.not_sent(f"gives no token: {explained(error)}")
            case _ if exchange.unsent:
                return self.not_sent(f"could not be reached: {exchange.unsent}")
            case _ if exchange.oversized:
                return self.bad_answer(f"it is over {SIZE_LIMIT} bytes")
            case _ if exchange.broken:
                return self.lost(exchange.broken)
            case MCPError():
                return self._of_error(error, exchange)
            case pydantic.ValidationError():
                return self.bad_answer(f"it is malformed ({_first_fault(error)})")
            case RuntimeError():  # of a list of tools without an end
                return self.bad_answer(str(error).partition("\n")[0])
            case TimeoutError():
                return self.lost(f"not within {limit:g} seconds")
            case _:
                return self.lost(explained(error))

    def _of_error(self, error: MCPError, exchange: Exchange) -> ConnectionFailed:
        message = error.message
        match error.code:
            case t.CONNECTION_CLOSED if _TOO_LARGE in message:
                return self.bad_answer(f"it is over {SIZE_LIMIT} bytes")
            case t.CONNECTION_CLOSED | t.REQUEST_TIMEOUT:
                return self.lost(message)
            case t.PARSE_ERROR if message.startswith(_UNREADABLE):
                return self.bad_answer("it is malformed")
            case t.INVALID_REQUEST if message in _SESSION_GONE:
                return self.not_sent("has forgotten the session, so it was not asked")
            case t.INVALID_REQUEST if message.startswith(_NO_ANSWER):
                return self.lost(message)
            case t.UNSUPPORTED_PROTOCOL_VERSION:
                return self.not_sent(f"speaks another version of the protocol: {message}")
            case t.INTERNAL_ERROR if message == _HTTP_ERROR:
                return self._of_status(error, exchange.status or 500)
            case _:
                return self.rejected(error, message)

    def _of_status(self, error: MCPError, status: int) -> ConnectionFailed:
        """A server, or what stands before it, answered with nothing but a status."""
        if status >= 500:
            return self.lost(f"HTTP {status}")
        hint = f": check bearer, headers or oauth of servers.{self.server}"
        return self.rejected(error, f"HTTP {status}{hint if status in (401, 403) else ''}")


def leaf(error: BaseException) -> BaseException:
    """The error itself: a client of the SDK raises them in groups of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def ends_connection(error: BaseException, era: Era, *, standing: bool) -> bool:
    """Whether what is known of the server, or the connection to it, is of no use any more."""
    error = leaf(error)
    if not isinstance(error, MCPError):
        return False
    if not standing:
        return error.code in _OTHER_SERVER
    gone = error.code == t.INVALID_REQUEST and error.message in _SESSION_GONE
    closed = error.code == t.CONNECTION_CLOSED and error.message == _CLOSED
    return closed or (gone and era == "legacy")


def _first_fault(error: pydantic.ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
