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
from typing import Any, TypeVar

import httpx2
import mcp.types as t
import structlog
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.client._transport import Transport
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT

from bot.clock import Clock
from bot.mcp import extension
from bot.mcp.extension import CreatedTask, TasksClient, TaskSnapshot
from bot.mcp.failure import (
    BadAnswer,
    ConnectionFailed,
    Era,
    Lost,
    NotSent,
    Rejected,
    Words,
    ends_connection,
)
from bot.mcp.schema import Unchecked, faults
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

__all__ = ["BadAnswer", "Connection", "ConnectionFailed", "Lost", "NotSent", "Rejected"]

log = structlog.get_logger(__name__)

R = TypeVar("R")
Use = Callable[[ClientSession], Awaitable[R]]

_REQUEST_TIMEOUT = 30.0  # seconds, for everything but a tool call
_DISCOVERY = 10.0  # seconds that the SDK tries 2026-07-28 before it tries what was before
_BACKOFF = (0.5, 30.0)  # seconds from the first to the longest pause between two attempts
_STEADY = 10.0  # seconds after which a connection counts as one that works
_STOPPING = 6.0  # seconds; the SDK gives a child two and two more before it kills it
_PAGES = 100  # of a tool list; a server that never ends must not keep us
_MODERN = "2026-07-28"


class Connection:
    """One server. `start()` begins to look for it and returns at once.

    `on_list_changed` is called when a server with a standing connection says that its tools have
    changed; the others say how long a list holds (`tools_ttl`, seconds; None: not said)."""

    def __init__(
        self,
        name: str,
        settings: ServerSettings,
        clock: Clock,
        *,
        on_list_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Raises ConfigError when a secret that the settings name is not set."""
        self.name = name
        self.settings = settings
        self._clock = clock
        self._on_list_changed = on_list_changed
        self.tools_ttl: float | None = None
        self._words = Words(name, secrets_of(name, settings))
        self._http: httpx2.AsyncClient | None = None
        self._guarded: Guarded | None = None
        self._owner: asyncio.Task[None] | None = None
        self._attempt: asyncio.Future[ConnectionFailed | None]  # the one under way, or the next
        self._wanted = asyncio.Event()  # somebody waits: do not pause
        self._over = asyncio.Event()  # what is connected is no longer good
        self._up = False  # whether the current attempt has become a connection
        self._session: ClientSession | None = None  # of the standing connection
        self._discovered: t.DiscoverResult | None = None  # of a server without one
        self._version = ""
        self._open: list[Exchange] = []
        self._turn = asyncio.Lock()
        self._tools: list[t.Tool] | None = None
        self._answered: float | None = None
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
    def _link(self) -> object:
        return self._session or self._discovered

    @property
    def _attempt_limit(self) -> float:
        return self.settings.connect_timeout + _DISCOVERY

    @property
    def health(self) -> str:
        """A sentence for people."""
        last = ""
        if self._answered is not None:
            at = datetime.fromtimestamp(self._answered, UTC)
            last = f", last answer {at:%Y-%m-%d %H:%M:%S} UTC"
        if self._trouble:
            return f"{self.name} {self._trouble}{last}."
        way = "HTTP" if self.settings.url is not None else "stdio"
        return f"{self.name} is connected ({self._version} over {way}{last})."

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
        self._attempt.set_result(self._words.not_sent("is not connected: it was stopped"))
        self._wanted.set()
        if self._up:  # it leaves in good order; an attempt may just be left
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
            self._up = False
            began = clock()
            exchange = Exchange()
            EXCHANGE.set(exchange)
            try:
                await self._connect()
            except Exception as error:
                self._trouble_with(self._words.of_attempt(error, exchange, self._attempt_limit))
            else:
                why = exchange.ended or "has ended the connection"
                self._trouble_with(self._words.not_sent(why))
            pause = first if clock() - began > _STEADY else min(pause * 2, longest)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wanted.wait()

    async def _connect(self) -> None:
        """One attempt, and the connection for as long as it is good."""
        if self._guarded is not None:
            self._guarded.negotiating = True
        async with asyncio.timeout(self._attempt_limit) as deadline:
            async with self._client(self.settings.protocol) as client:
                deadline.reschedule(None)
                self._version = client.protocol_version
                found = client.session.discover_result if self._http is not None else None
                if found is None:
                    await self._stand(client)
        if found is not None:
            self._discovered = found
            self._connected()
            await self._over.wait()

    async def _stand(self, client: Client) -> None:
        """Keeps the connection that was opened until it is over."""
        self._prepare(client.session)
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
        self._up = True
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

    def _trouble_with(self, failure: ConnectionFailed) -> None:
        """An attempt has failed: who waits for it is told why. Or a connection has ended: who
        waits, waits for the next attempt."""
        if self._owner is None:
            return
        if not self._up and not self._attempt.done():
            self._attempt.set_result(failure)
        self._drop()
        known = self._trouble
        self._failed(failure)
        if self._trouble != known:
            log.warning("mcp server is not connected", server=self.name, error=str(failure))

    async def _ready(self) -> None:
        """Raises NotSent when there is no connection and the next attempt fails."""
        if self._owner is None:
            raise self._words.not_sent("is not connected: its connection was not started")
        if self._link is not None:
            return
        attempt = self._attempt
        self._wanted.set()
        await asyncio.wait([attempt], timeout=self._attempt_limit + _STOPPING)
        failure = (
            attempt.result() if attempt.done() else self._words.not_sent("is not connected yet")
        )
        if failure is not None:
            raise failure

    # Requests

    async def list_tools(self) -> list[t.Tool]:
        """All tools, over all pages. Raises ConnectionFailed."""
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
        Raises ConnectionFailed: whether the tool may have run is its kind."""
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
            raise self._words.bad_answer(f"it is over {SIZE_LIMIT} bytes")
        assert isinstance(result, t.CallToolResult | t.InputRequiredResult | CreatedTask)
        if isinstance(result, t.CallToolResult) and not result.is_error:
            self._check(name, result)
        return result

    def _check(self, name: str, result: t.CallToolResult) -> None:
        """Raises BadAnswer when a result breaks the schema that its tool was listed with."""
        schema = next((one.output_schema for one in self._tools or () if one.name == name), None)
        if schema is None:
            return
        if "structured_content" not in result.model_fields_set:
            raise self._words.bad_answer("it has no structured content, which the tool promises")
        try:
            wrong = faults(schema, result.structured_content, "structured content")
        except Unchecked as error:
            why = f"its structured content cannot be checked: {error}"
            raise self._words.bad_answer(why) from error
        if wrong:
            raise self._words.bad_answer(f"its structured content does not fit: {wrong[0]}")

    async def get_task(self, task_id: str) -> TaskSnapshot:
        """Raises ConnectionFailed: Rejected with -32602 when the server does not, or no longer,
        know the task."""
        request = extension.get_task(task_id)
        return await self._again(lambda session: session.send_request(request, TaskSnapshot))

    async def update_task(self, task_id: str, answers: t.InputResponses) -> None:
        """Raises ConnectionFailed. Sending the same again does no harm."""
        request = extension.update_task(task_id, answers)
        await self._request(lambda session: session.send_request(request, t.EmptyResult))

    async def cancel_task(self, task_id: str) -> None:
        """Raises ConnectionFailed."""
        request = extension.cancel_task(task_id)
        await self._request(lambda session: session.send_request(request, t.EmptyResult))

    async def _know(self, name: str) -> None:
        """The schemas of a tool have to be there before it is called: some arguments go into
        headers too, and the result is checked."""
        if not any(one.name == name for one in self._tools or ()):
            await self._list_before(name)

    async def _list_before(self, name: str) -> None:
        try:
            tools = await self.list_tools()
        except ConnectionFailed as error:
            raise NotSent(str(error)) from error
        if not any(one.name == name for one in tools):
            raise self._words.not_sent(f"offers no tool named {name}")

    async def _again(self, use: Use[R]) -> R:
        """For what may be repeated."""
        try:
            return await self._request(use)
        except (NotSent, Lost):
            return await self._request(use)

    async def _request(self, use: Use[R], on_elicit: OnElicit | None = None) -> R:
        await self._ready()
        used, standing = self._link, self._session is not None
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
            if used is self._link and ends_connection(error, self.era, standing=standing):
                self._drop()
            limit = self.settings.call_timeout
            raise self._failed(self._words.of_request(error, exchange, limit)) from error
        finally:
            self._open.remove(exchange)
            EXCHANGE.reset(token)
        self._heard()
        return result

    async def _carry(self, use: Use[R]) -> R:
        if self._session is not None:
            return await use(self._session)
        if self._discovered is None:
            raise self._words.not_sent("was disconnected just now")
        async with self._client(self._version, self._discovered) as client:
            self._prepare(client.session)
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

    def _prepare(self, session: ClientSession) -> None:
        _fresh_ids(session)
        _whole_by_default(session)
        _without_checks(session)
        self._teach(session)

    def _teach(self, session: ClientSession) -> None:
        """Gives a new session the list of tools, which it would fetch again otherwise.

        mcp 2.3.0 has no public way; without the private one each call costs one more request."""
        absorb = getattr(session, "_absorb_tool_listing", None)
        if absorb is not None and self._tools is not None:
            absorb(t.ListToolsResult(tools=list(self._tools)), complete=True)

    async def _asked(
        self, context: ClientRequestContext, params: t.ElicitRequestParams
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

    # What was heard

    def _heard(self) -> None:
        self._answered = self._clock.now()
        self._trouble = ""

    def _failed(self, failure: ConnectionFailed) -> ConnectionFailed:
        if isinstance(failure, NotSent | Lost):
            self._trouble = str(failure).removeprefix(f"{self.name} ").rstrip(".")
        else:
            self._heard()
        return failure

    def _said(self, line: str) -> None:
        log.info("mcp server says", server=self.name, line=self._words.clean(line))

    async def _noticed(self, message: t.ServerNotification | Exception) -> None:
        if isinstance(message, t.ToolListChangedNotification):
            self._on_list_changed()


def _fresh_ids(session: ClientSession) -> None:
    """Request ids begin anywhere, so that a call that goes on in another client, or process, has
    another id than the one before, as the specification demands.

    mcp 2.3.0 counts from 1 in each client and has no setting for it. It is gone when
    test_no_two_requests_have_the_same_id passes without this."""
    dispatcher: Any = session._dispatcher
    if isinstance(getattr(dispatcher, "_next_id", None), int):
        dispatcher._next_id = secrets.randbelow(2**40)


def _whole_by_default(session: ClientSession) -> None:
    """A tool's result that does not say of what type it is, is a complete one, as the
    specification demands.

    mcp 2.3.0 refuses it on a 2026-07-28 connection, after the tool has run. It is gone when
    test_a_result_without_a_type_is_complete passes without this."""
    dispatcher: Any = session._dispatcher
    send = dispatcher.send_raw_request

    async def sent(method: str, *args: Any, **named: Any) -> Any:
        result = await send(method, *args, **named)
        if method == "tools/call" and isinstance(result, dict):
            result.setdefault("resultType", "complete")
        return result

    dispatcher.send_raw_request = sent


def _without_checks(session: ClientSession) -> None:
    """Structured content is checked by us, after the call.

    mcp 2.3.0 checks it by itself, with patterns of the server that it gives to `re`, and lists
    the tools for that when it does not know the one that was called. It is gone when
    test_a_server_cannot_stop_us_with_the_schema_of_a_result passes without this."""

    async def leave(_name: str, _result: t.CallToolResult) -> None:
        return

    its: Any = session
    its.validate_tool_result = leave
