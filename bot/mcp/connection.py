"""How requests reach a server, and what is known when they fail.

A server of 2026-07-28 over HTTP has no standing connection: each operation is a client of its own
on one shared HTTP client, with what `server/discover` said once. A server of before, and a child
process, have one that a single task opens, keeps and closes (mcp 2.3.0: a client must be left in
the task that entered it); everybody else only sends on it. Whatever goes wrong is one of four
errors that tell whether the tool may have run.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Literal, TypeVar

import httpx2
import mcp.types as t
import pydantic
import structlog
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.client._transport import Transport
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT

from bot.mcp import extension
from bot.mcp.extension import CreatedTask, TasksClient, TaskSnapshot
from bot.mcp.settings import ServerSettings
from bot.mcp.transport import (
    EXCHANGE,
    SIZE_LIMIT,
    Exchange,
    Guarded,
    OnElicit,
    child,
    explained,
    http_client,
    secrets_of,
)

log = structlog.get_logger(__name__)

Era = Literal["modern", "legacy", "unknown"]
R = TypeVar("R")
Use = Callable[[ClientSession], Awaitable[R]]

_REQUEST_TIMEOUT = 30.0  # seconds, for everything but a tool call
_DISCOVERY = 10.0  # seconds that the SDK tries 2026-07-28 before it tries what was before
_BACKOFF = (0.5, 30.0)  # seconds from the first to the longest pause between two attempts
_STEADY = 10.0  # seconds after which a connection counts as one that works
_STOPPING = 6.0  # seconds; the SDK gives a child two and two more before it kills it
_PAGES = 100  # of a tool list; a server that never ends must not keep us
_MODERN = "2026-07-28"
_WORDS = 300  # characters of what a server says, in a sentence of ours

# The server is not what it was when it was discovered: the next operation looks again.
_OTHER_SERVER = (
    t.UNSUPPORTED_PROTOCOL_VERSION,
    t.INVALID_REQUEST,
    t.METHOD_NOT_FOUND,
    t.INTERNAL_ERROR,
)

# Texts of mcp 2.3.0 and its servers.
_SESSION_GONE = ("Session not found", "Session terminated")
_NO_ANSWER = ("server answered a request with 202", "Unexpected content type")


class Failure(Exception):
    """A request without a result; the text is a sentence that names the server."""


class NotSent(Failure):
    """Nothing of it reached the server: it surely did not run."""


class Lost(Failure):
    """No answer came, and nobody knows whether it ran."""


class Rejected(Failure):
    """The server answered with a JSON-RPC error, which `code`, `message` and `data` are of."""

    def __init__(self, sentence: str, code: int, message: str, data: Any = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.message = message
        self.data = data


class BadAnswer(Failure):
    """It ran, but its answer is malformed, breaks the schema of the tool, or is too large."""


class Connection:
    """One server. `start()` begins to look for it and returns at once.

    `on_list_changed` is called when a server with a standing connection says that its tools have
    changed; the others say for how long a list holds (`tools_ttl`, seconds; None: not said)."""

    def __init__(self, name: str, settings: ServerSettings) -> None:
        """Raises ConfigError when a secret that the settings name is not set."""
        self.name = name
        self.settings = settings
        self.on_list_changed: Callable[[], None] = lambda: None
        self.tools_ttl: float | None = None
        self._secrets = secrets_of(name, settings)
        self._http: httpx2.AsyncClient | None = None
        self._guarded: Guarded | None = None
        self._owner: asyncio.Task[None] | None = None
        self._attempt: asyncio.Future[Failure | None]  # the one under way, or the next
        self._wanted = asyncio.Event()  # somebody waits: do not pause
        self._over = asyncio.Event()  # what is connected is no longer good
        self._session: ClientSession | None = None  # of the standing connection
        self._discovered: t.DiscoverResult | None = None  # of a server without one
        self._version = ""
        self._open: list[Exchange] = []
        self._turn = asyncio.Lock()
        self._tools: list[t.Tool] | None = None
        self._answered: datetime | None = None
        self._trouble = "is not connected yet"

    def __repr__(self) -> str:
        return f"Connection({self.name!r})"

    # What is known

    @property
    def era(self) -> Era:
        if not self._version:
            return "unknown"
        return "modern" if self._version >= _MODERN else "legacy"

    @property
    def connected(self) -> bool:
        return self._session is not None or self._discovered is not None

    @property
    def _attempt_limit(self) -> float:
        return self.settings.connect_timeout + _DISCOVERY

    @property
    def health(self) -> str:
        """A sentence for people."""
        last = f"last answer {self._answered:%Y-%m-%d %H:%M:%S} UTC" if self._answered else ""
        if self._trouble:
            return f"{self.name} {self._trouble}{f' ({last})' if last else ''}."
        way = "HTTP" if self.settings.url is not None else "stdio"
        return f"{self.name} is connected ({self._version} over {way}, {last})."

    # Its life

    async def start(self) -> None:
        """Raises ConfigError when the settings cannot work."""
        if self._owner is not None:
            return
        if self.settings.url is not None:
            self._http, self._guarded = http_client(self.name, self.settings)
        self._attempt = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(), name=f"mcp:{self.name}")

    async def stop(self) -> None:
        """Ends the connection; what is under way there is Lost."""
        owner, self._owner = self._owner, None
        if owner is None:
            return
        self._drop()
        self._attempt.set_result(self._not_sent("is not connected: it was stopped"))
        self._wanted.set()
        await asyncio.wait([owner], timeout=_STOPPING)
        owner.cancel()
        with suppress(asyncio.CancelledError):
            await owner
        if self._http is not None:
            await self._http.aclose()

    async def _own(self) -> None:
        """Opens the connection again and again; the only task that enters and leaves it."""
        clock = asyncio.get_running_loop().time
        first, longest = _BACKOFF
        pause = first
        while self._owner is not None:
            self._wanted.clear()
            self._over.clear()
            began = clock()
            try:
                await self._connect()
            except Exception as error:
                self._trouble_with(self._connecting_failed(error))
            else:
                self._trouble_with(self._not_sent("has ended the connection"))
            pause = first if clock() - began > _STEADY else min(pause * 2, longest)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wanted.wait()

    async def _connect(self) -> None:
        """One attempt, and the connection for as long as it is good."""
        exchange = Exchange()
        EXCHANGE.set(exchange)
        if self._guarded is not None:
            self._guarded.negotiating = True
        found: t.DiscoverResult | None = None
        try:
            async with asyncio.timeout(self._attempt_limit) as deadline:
                async with self._client(self.settings.protocol) as client:
                    deadline.reschedule(None)
                    self._version = client.protocol_version
                    found = client.session.discover_result if self._http is not None else None
                    if found is None:
                        await self._stand(client)
        except MCPError as error:
            raise self._failure(error, exchange) from error
        if found is not None:
            self._discovered = found
            self._connected()
            await self._over.wait()

    async def _stand(self, client: Client) -> None:
        """Keeps the connection that was opened until it is over."""
        _fresh_ids(client.session)
        self._teach(client.session)
        self._session = client.session
        self._connected()
        listening = asyncio.create_task(self._listen(client), name=f"mcp:{self.name}:listen")
        try:
            await self._over.wait()
        finally:
            self._drop()
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening

    async def _listen(self, client: Client) -> None:
        """Since 2026-07-28 a server tells of changes only to who listens."""
        tools = client.server_capabilities.tools
        if self.era != "modern" or tools is None or not tools.list_changed:
            return
        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:  # they arrive at _noticed as well
                    pass
        except Exception as error:
            log.debug("mcp server is not listened to", server=self.name, error=explained(error))

    def _connected(self) -> None:
        if self._guarded is not None:
            self._guarded.negotiating = False
        self._heard()
        log.info("mcp server connected", server=self.name, version=self._version)
        if not self._attempt.done():
            self._attempt.set_result(None)

    def _drop(self) -> None:
        """What is connected is no longer good: the next operation waits for the next attempt."""
        self._session = None
        self._discovered = None
        if self._attempt.done():
            self._attempt = asyncio.get_running_loop().create_future()
        self._over.set()

    def _trouble_with(self, failure: Failure) -> None:
        """An attempt has failed: who waits for it is told why. Or a connection has ended."""
        was_connected = self._over.is_set() or self._attempt.done()
        if not was_connected:
            self._attempt.set_result(failure)
        self._drop()
        self._failed(failure)
        log.warning("mcp server is not connected", server=self.name, error=str(failure))

    async def _ready(self) -> None:
        """Raises NotSent when there is no connection and the next attempt fails."""
        if self._owner is None:
            raise self._not_sent("is not connected: its connection was not started")
        if self.connected:
            return
        attempt = self._attempt
        self._wanted.set()
        await asyncio.wait([attempt], timeout=self._attempt_limit + _STOPPING)
        failure = attempt.result() if attempt.done() else self._not_sent("is not connected yet")
        if failure is not None:
            raise failure

    # Requests

    async def list_tools(self) -> list[t.Tool]:
        """All tools, over all pages. Raises Failure."""
        tools, ttl = await self._again(self._walk)
        self._tools = tools
        self.tools_ttl = ttl
        return list(tools)

    async def _walk(self, session: ClientSession) -> tuple[list[t.Tool], float | None]:
        tools: list[t.Tool] = []
        cursor: str | None = None
        ttl: float | None = None
        for _ in range(_PAGES):
            page = await session.list_tools(params=t.PaginatedRequestParams(cursor=cursor))
            tools += page.tools
            if page.ttl_ms is not None:
                ttl = min(page.ttl_ms / 1000, ttl) if ttl is not None else page.ttl_ms / 1000
            cursor = page.next_cursor
            if cursor is None:
                return tools, ttl
        raise RuntimeError(f"its list of tools has more than {_PAGES} pages")

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        answers: t.InputResponses | None = None,
        state: str | None = None,
        on_progress: ProgressFnT | None = None,
        on_elicit: OnElicit | None = None,
    ) -> t.CallToolResult | t.InputRequiredResult | CreatedTask:
        """Calls a tool once, and never again by itself, under a request id that no other call had.

        `answers` and `state` go on with a call that asked (2026-07-28). `on_elicit` answers what
        an older server asks during the call; it is cancelled when the question is withdrawn.
        Raises Failure: whether the tool may have run is its kind."""
        await self._know(name)
        asks = self.era == "legacy" and self.settings.questions != "none"
        limit = self.settings.call_timeout

        async def use(
            session: ClientSession,
        ) -> t.CallToolResult | t.InputRequiredResult | t.Result:
            exchange = EXCHANGE.get()
            assert exchange is not None
            async with asyncio.timeout(limit if asks else None) as exchange.deadline:
                return await session.call_tool(
                    name,
                    dict(arguments),
                    read_timeout_seconds=math.inf if asks else limit,
                    progress_callback=on_progress,
                    input_responses=answers,
                    request_state=state,
                    allow_input_required=True,
                    allow_claimed=True,
                )

        # Over stdio an older server does not say which call it asks for: one at a time.
        async with self._turn if asks and self._http is None else nullcontext():
            try:
                result = await self._request(use, on_elicit)
            except Rejected as error:
                if error.code != t.HEADER_MISMATCH:
                    raise
                # Refused for headers made from an old list of tools: the specification has the
                # client list them again and send once more.
                await self._list_before(name)
                result = await self._request(use, on_elicit)
        if self._http is None and len(result.model_dump_json()) > SIZE_LIMIT:
            raise self._bad_answer(f"it is over {SIZE_LIMIT} bytes")
        assert isinstance(result, t.CallToolResult | t.InputRequiredResult | CreatedTask)
        return result

    async def get_task(self, task_id: str) -> TaskSnapshot:
        """Raises Failure; Rejected with -32602 when the server does not know the task (any more)."""
        request = extension.get_task(task_id)
        return await self._again(lambda session: session.send_request(request, TaskSnapshot))

    async def update_task(self, task_id: str, answers: t.InputResponses) -> None:
        """Raises Failure. Sending the same again does no harm."""
        request = extension.update_task(task_id, answers)
        await self._request(lambda session: session.send_request(request, t.EmptyResult))

    async def cancel_task(self, task_id: str) -> None:
        """Raises Failure."""
        request = extension.cancel_task(task_id)
        await self._request(lambda session: session.send_request(request, t.EmptyResult))

    async def _know(self, name: str) -> None:
        """The SDK needs the schemas of a tool before it is called: with them missing it lists the
        tools after the call, and an error of that hides the result."""
        if not any(one.name == name for one in self._tools or ()):
            await self._list_before(name)

    async def _list_before(self, name: str) -> None:
        try:
            tools = await self.list_tools()
        except Failure as error:
            raise NotSent(str(error)) from error
        if not any(one.name == name for one in tools):
            raise self._not_sent(f"offers no tool named {name}")

    async def _again(self, use: Use[R]) -> R:
        """For what may be repeated."""
        try:
            return await self._request(use)
        except (NotSent, Lost):
            return await self._request(use)

    async def _request(self, use: Use[R], on_elicit: OnElicit | None = None) -> R:
        await self._ready()
        exchange = Exchange(on_elicit)
        task = asyncio.current_task()
        cancelling = task.cancelling() if task is not None else 0
        token = EXCHANGE.set(exchange)
        self._open.append(exchange)
        try:
            result = await self._carry(use)
        except Exception as error:
            if task is not None and task.cancelling() > cancelling:
                raise asyncio.CancelledError from error  # the failure came with it
            raise self._failed(self._failure(error, exchange)) from error
        finally:
            self._open.remove(exchange)
            EXCHANGE.reset(token)
        self._heard()
        return result

    async def _carry(self, use: Use[R]) -> R:
        if self._session is not None:
            return await use(self._session)
        if self._discovered is None:
            raise self._not_sent("was disconnected just now")
        async with self._client(self._version, self._discovered) as client:
            _fresh_ids(client.session)
            self._teach(client.session)
            try:
                return await use(client.session)
            except Exception as error:  # let out here it would come back in a group
                failed = error
        raise failed

    def _client(self, mode: str, discovered: t.DiscoverResult | None = None) -> Client:
        transport: Transport
        if self.settings.url is not None:
            transport = streamable_http_client(
                self.settings.url, http_client=self._http, max_sse_event_size=SIZE_LIMIT
            )
        else:
            transport = child(self.name, self.settings, said=self._said, ended=self._drop)
        return Client(
            transport,
            mode=mode,
            prior_discover=discovered,
            read_timeout_seconds=_REQUEST_TIMEOUT,
            # Being there it declares that people can be asked, for forms and pages alike.
            elicitation_callback=self._asked if self.settings.questions != "none" else None,
            message_handler=self._noticed,
            client_info=t.Implementation(name="interlock", version=version("interlock")),
            extensions=[TasksClient()],
            cache=None,
        )

    def _teach(self, session: ClientSession) -> None:
        """Gives a new session the list of tools, which it would fetch again otherwise.

        mcp 2.3.0 has no public way; without the private one each call costs one more request."""
        absorb = getattr(session, "_absorb_tool_listing", None)
        if absorb is not None and self._tools is not None:
            absorb(t.ListToolsResult(tools=list(self._tools)), complete=True)

    async def _noticed(self, message: t.ServerNotification | Exception) -> None:
        if isinstance(message, t.ToolListChangedNotification):
            self.on_list_changed()

    async def _asked(
        self, _context: ClientRequestContext, params: t.ElicitRequestParams
    ) -> t.ElicitResult:
        """A question of an older server; over HTTP the context says which call it belongs to."""
        exchange = EXCHANGE.get()
        if exchange is None or exchange.on_elicit is None:
            open_calls = [one for one in self._open if one.on_elicit is not None]
            exchange = open_calls[0] if len(open_calls) == 1 else None
        if exchange is None or exchange.on_elicit is None:
            log.warning("mcp question without a call", server=self.name)
            return t.ElicitResult(action="cancel")
        exchange.asking += 1
        self._reschedule(exchange)
        try:
            return await exchange.on_elicit(params)
        except Exception:
            # Raised on, its text would be sent to the server.
            log.exception("mcp question was not asked", server=self.name)
            return t.ElicitResult(action="cancel")
        finally:
            exchange.asking -= 1
            self._reschedule(exchange)

    def _reschedule(self, exchange: Exchange) -> None:
        """The deadline of a call rests while people are asked, and begins anew afterwards."""
        if exchange.deadline is None:
            return
        now = asyncio.get_running_loop().time()
        with suppress(RuntimeError):  # the call is over
            exchange.deadline.reschedule(
                None if exchange.asking else now + self.settings.call_timeout
            )

    # Failures

    def _heard(self) -> None:
        self._answered = datetime.now(UTC)
        self._trouble = ""

    def _failed(self, failure: Failure) -> Failure:
        if isinstance(failure, NotSent | Lost):
            self._trouble = str(failure).removeprefix(f"{self.name} ").rstrip(".")
        else:
            self._heard()
        return failure

    def _said(self, line: str) -> None:
        log.info("mcp server says", server=self.name, line=self._clean(line))

    def _clean(self, text: str) -> str:
        """One line without the secrets that the server was given, which it may repeat."""
        for one in self._secrets:
            text = text.replace(one, "[secret]")
        line = " ".join(text.split())
        return line if len(line) <= _WORDS else f"{line[:_WORDS]}…"

    def _not_sent(self, clause: str) -> NotSent:
        return NotSent(self._clean(f"{self.name} {clause.rstrip('.')}."))

    def _lost(self, why: str) -> Lost:
        why = why.rstrip(".")
        return Lost(
            self._clean(f"{self.name} gave no answer ({why}), so it may or may not have happened.")
        )

    def _bad_answer(self, why: str) -> BadAnswer:
        why = why.rstrip(".")
        return BadAnswer(self._clean(f"{self.name} answered, but the answer is of no use: {why}."))

    def _rejected(self, error: MCPError, message: str) -> Rejected:
        message = self._clean(message)
        return Rejected(
            f"{self.name} refused: {message.rstrip('.')}.", error.code, message, error.data
        )

    def _connecting_failed(self, error: Exception) -> NotSent:
        match _leaf(error):
            case NotSent() as failure:
                return failure
            case Failure() as failure:
                return NotSent(str(failure))
            case TimeoutError():
                return self._not_sent(f"did not answer within {self._attempt_limit:g} seconds")
            case OSError() as failure if self._http is None:
                program = self.settings.command[0]
                return self._not_sent(f"cannot be started: {program}: {failure.strerror}")
            case failure:
                return self._not_sent(f"could not be reached: {explained(failure)}")

    def _failure(self, error: BaseException, exchange: Exchange) -> Failure:
        """What a failed request means."""
        leaf = _leaf(error)
        match leaf:
            case Failure():
                return leaf
            case OAuthFlowError():
                return self._not_sent(f"could not be asked: no token: {explained(leaf)}")
            case _ if exchange.unsent:
                return self._not_sent(f"could not be reached: {exchange.unsent}")
            case _ if exchange.oversized:
                return self._bad_answer(f"it is over {SIZE_LIMIT} bytes")
            case _ if exchange.broken:
                return self._lost(exchange.broken)
            case MCPError():
                return self._answered_with(leaf, exchange)
            case pydantic.ValidationError():
                return self._bad_answer(f"it is malformed ({_first_fault(leaf)})")
            case RuntimeError():
                return self._bad_answer(str(leaf).partition("\n")[0])
            case TimeoutError():
                return self._lost(f"within {self.settings.call_timeout:g} seconds")
            case _:
                return self._lost(explained(leaf))

    def _answered_with(self, error: MCPError, exchange: Exchange) -> Failure:
        """The SDK (2.3.0) also reports as errors of the server what it found out itself."""
        message = error.message
        match error.code:
            case t.CONNECTION_CLOSED if "byte limit" in message:
                return self._bad_answer(f"it is over {SIZE_LIMIT} bytes")
            case t.CONNECTION_CLOSED | t.REQUEST_TIMEOUT:
                if message == "Connection closed":
                    self._drop()
                return self._lost(message)
            case t.PARSE_ERROR if message.startswith("Failed to parse"):
                return self._bad_answer("it is malformed")
            case t.INVALID_REQUEST if self.era == "legacy" and message in _SESSION_GONE:
                self._drop()
                return self._not_sent("has forgotten the session, so it was not asked")
            case t.INVALID_REQUEST if message.startswith(_NO_ANSWER):
                return self._lost(message)
            case t.UNSUPPORTED_PROTOCOL_VERSION:
                self._drop()
                return self._not_sent("speaks another version of the protocol now")
            case t.INTERNAL_ERROR if message == "Server returned an error response":
                return self._http_error(error, exchange.status or 500)
            case code:
                if code in _OTHER_SERVER and self._discovered is not None:
                    self._drop()
                return self._rejected(error, message)

    def _http_error(self, error: MCPError, status: int) -> Failure:
        if status >= 500:
            return self._lost(f"HTTP {status}")
        if self._discovered is not None:
            self._drop()
        hint = ""
        if status in (401, 403):
            hint = f": check bearer, headers or oauth of servers.{self.name}"
        return self._rejected(error, f"HTTP {status}{hint}")


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _first_fault(error: pydantic.ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"


def _fresh_ids(session: ClientSession) -> None:
    """Request ids begin anywhere, so that a call that goes on in another client, or process, has
    another id than the one before, as the specification demands.

    mcp 2.3.0 counts from 1 in each client and has no setting for it. It is gone when
    test_no_two_requests_have_the_same_id passes without this."""
    dispatcher: Any = session._dispatcher
    if isinstance(getattr(dispatcher, "_next_id", None), int):
        dispatcher._next_id = secrets.randbelow(2**40)
