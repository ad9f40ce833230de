"""The two ways to a server, HTTP and a child process, with what the SDK's own lack.

Over HTTP a request that fails costs itself only, and it is known whether anything of it left; of a
child it is known at once that it has ended, and what it says on standard error is logged.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import anyio
import anyio.abc
import httpx2
import mcp.types as t
from mcp import StdioServerParameters
from mcp.client._transport import ReadStream, TransportStreams
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.stdio import stdio_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.shared.message import SessionMessage

from bot.mcp.settings import ServerSettings, needed_secret, value_of
from bot.secrets import ConfigError

SIZE_LIMIT = 8 * 2**20  # bytes of one answer
_COURTESY = 5.0  # seconds
_LINE_LIMIT = 500  # characters of one line of a child's standard error
_LAST_WORDS = 1.0  # seconds for what a child that has ended still says

# Raised before a byte of the request has left.
_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
)

Read = SessionMessage | Exception
OnElicit = Callable[[t.ElicitRequestParams], Awaitable[t.ElicitResult]]


@dataclass(slots=True, eq=False)
class Exchange:
    """What became of one operation on its way, for as long as it runs.

    `unsent` and `broken` say why nothing left, or why no answer came; `ended` how the process
    ended that a connection was opened to."""

    on_elicit: OnElicit | None = None
    deadline: asyncio.Timeout | None = None
    asking: int = 0  # questions that people look at right now
    sent: bool = False
    status: int | None = None
    unsent: str = ""
    broken: str = ""
    oversized: bool = False
    ended: str = ""


EXCHANGE: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


def explained(error: BaseException) -> str:
    """Why a request failed, in words, for the end of a sentence."""
    return str(error).strip().rstrip(".") or type(error).__name__


class Guarded(httpx2.AsyncBaseTransport):
    """Turns the failure of one request into an answer to that request.

    mcp 2.3.0 lets one POST that fails take the whole client with it, and all that is under way
    there (python-sdk issues 3522 and 3560). It is gone when
    test_a_request_that_fails_leaves_the_others_alone passes without this.

    `issuer` is the authorization server of the settings. `negotiating`: failures pass as they are,
    since an answer would be taken for a server of the time before 2026."""

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, url: str, issuer: str | None = None
    ) -> None:
        self._inner = inner
        self._origin = _origin(httpx2.URL(url))
        self._issuer = None if issuer is None else _origin(httpx2.URL(issuer))
        self.negotiating = True

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        origin = _origin(request.url)
        own = origin == self._origin
        configured = own or origin == self._issuer
        if not configured and request.url.scheme != "https":  # an address that the server chose
            raise httpx2.UnsupportedProtocol(f"{request.url.host} is not asked without https")
        if request.method == "DELETE":  # the end of a session: only a courtesy
            request.extensions["timeout"] = httpx2.Timeout(_COURTESY).as_dict()
        exchange = EXCHANGE.get() if own and request.method == "POST" else None
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            if exchange is not None:
                if isinstance(error, _UNSENT) and not exchange.sent:
                    exchange.unsent = explained(error)
                else:
                    exchange.broken = explained(error)
            if self.negotiating:
                raise
            failure = {"code": t.CONNECTION_CLOSED, "message": explained(error)}
            body = {"jsonrpc": "2.0", "id": None, "error": failure}
            return httpx2.Response(502, json=body, request=request)
        if exchange is not None:
            exchange.status = response.status_code
            exchange.sent = not 400 <= response.status_code < 500
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _Bounded(response.stream, exchange)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends in an error at the size limit, which the SDK has for event streams only."""

    def __init__(self, inner: httpx2.AsyncByteStream, exchange: Exchange | None) -> None:
        self._inner = inner
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._inner:
                size += len(chunk)
                if size > SIZE_LIMIT:
                    if self._exchange is not None:
                        self._exchange.oversized = True
                    raise httpx2.StreamError(f"the answer is over {SIZE_LIMIT} bytes")
                yield chunk
        except httpx2.TransportError as error:
            if self._exchange is not None:
                self._exchange.broken = explained(error)
            raise httpx2.StreamError(explained(error)) from error

    async def aclose(self) -> None:
        await self._inner.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return (url.scheme, url.host, url.port)


class _Tokens:
    """The OAuth token of this process; after a restart a new one is fetched."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


def secrets_of(name: str, settings: ServerSettings) -> list[str]:
    """The secrets that a server is given, so that they can be struck from what it says.

    Raises ConfigError when one is not set."""
    setting = f"servers.{name}"
    found = [
        value_of(f"{setting}.{section}.{key}", value)
        for section, values in (("headers", settings.headers), ("env", settings.env))
        for key, value in values.items()
        if value.startswith("env:")
    ]
    if settings.proxy is not None and settings.proxy.startswith("env:"):
        found.append(value_of(f"{setting}.proxy", settings.proxy))
    if settings.bearer is not None:
        found.append(needed_secret(f"{setting}.bearer", settings.bearer))
    if settings.oauth is not None:
        named = settings.oauth.client_secret
        found.append(needed_secret(f"{setting}.oauth.client_secret", named))
    return found


def http_client(name: str, settings: ServerSettings) -> tuple[httpx2.AsyncClient, Guarded]:
    """The one HTTP client of a server, shared by all its requests. Raises ConfigError."""
    assert settings.url is not None
    setting = f"servers.{name}"
    headers = {
        # Sizes are limited as they arrive, so a body must not grow afterwards.
        "Accept-Encoding": "identity",
        **{
            key: value_of(f"{setting}.headers.{key}", value)
            for key, value in settings.headers.items()
        },
    }
    if settings.bearer is not None:
        headers["Authorization"] = f"Bearer {needed_secret(f'{setting}.bearer', settings.bearer)}"
    for key, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise ConfigError(f"{setting}: the header {key} must be one line of plain ASCII.")
    verify: ssl.SSLContext | bool = True
    if settings.ca_file is not None:
        verify = ssl.create_default_context()
        try:
            verify.load_verify_locations(settings.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"{setting}.ca_file names {settings.ca_file}, which cannot be read as "
                f"certificates ({explained(error)}): correct it."
            ) from error
    auth = None
    if settings.oauth is not None:
        named = settings.oauth.client_secret
        auth = ClientCredentialsOAuthProvider(
            settings.url,
            _Tokens(),
            client_id=settings.oauth.client_id,
            client_secret=needed_secret(f"{setting}.oauth.client_secret", named),
            scope=settings.oauth.scope,
            issuer=settings.oauth.issuer,
        )
    try:
        proxy = value_of(f"{setting}.proxy", settings.proxy) if settings.proxy else None
        inner = httpx2.AsyncHTTPTransport(verify=verify, proxy=proxy, trust_env=False)
    except (ValueError, httpx2.InvalidURL):
        raise ConfigError(f"{setting}.proxy is no address of a proxy: correct it.") from None
    issuer = settings.oauth.issuer if settings.oauth is not None else None
    guarded = Guarded(inner, settings.url, issuer)
    connect = settings.connect_timeout
    client = httpx2.AsyncClient(
        transport=guarded,
        headers=headers,
        auth=auth,
        # No proxies, certificates or passwords (.netrc) but those that the settings name.
        trust_env=False,
        # A call has its own deadline; this one ends what outlives it. A question that people
        # answer inside a call of before 2026 may leave the stream silent for a minute.
        timeout=httpx2.Timeout(connect, read=settings.call_timeout + 60),
    )
    return client, guarded


@asynccontextmanager
async def child(
    name: str,
    settings: ServerSettings,
    *,
    said: Callable[[str], None],
    ended: Callable[[], None],
) -> AsyncIterator[TransportStreams]:
    """A server as a child process, with the SDK's minimal environment and what `env` adds.

    `said` gets each line of its standard error; `ended` is called when its output has ended, and
    the exchange is told how it did. Raises OSError when it cannot be started, and ConfigError."""
    setting = f"servers.{name}.env"
    parameters = StdioServerParameters(
        command=settings.command[0],
        args=list(settings.command[1:]),
        env={key: value_of(f"{setting}.{key}", value) for key, value in settings.env.items()},
        cwd=settings.cwd,
    )
    lines: deque[str] = deque(maxlen=1)  # the last one

    def heard(line: str) -> None:
        lines.append(line)
        said(line)

    read_end, write_end = os.pipe()
    listener = asyncio.create_task(_each_line(read_end, heard), name=f"mcp:{name}:stderr")
    try:
        with os.fdopen(write_end, "w") as errors:
            client = stdio_client(parameters, errors)
            async with client as (read, write):
                errors.close()  # the child has its own; ours would keep the pipe open
                watched = _Watched(read, ended)
                try:
                    yield watched, write
                finally:
                    exchange = EXCHANGE.get()
                    if watched.over and exchange is not None:
                        code = await _exit_code(client)
                        await asyncio.wait([listener], timeout=_LAST_WORDS)
                        exchange.ended = _ending(code, lines)
    finally:
        listener.cancel()
        with suppress(asyncio.CancelledError):
            await listener


async def _exit_code(client: object) -> int | None:
    """How a child ended; None when that cannot be known, or when it only said no more.

    mcp 2.3.0 keeps the process to itself, as a local of the generator that `client` is made of;
    where it is not found, an ending is told without its code."""
    frame = getattr(getattr(client, "gen", None), "ag_frame", None)
    process = frame.f_locals.get("process") if frame is not None else None
    if not isinstance(process, anyio.abc.Process):
        return None
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_WORDS):
            await process.wait()
    return process.returncode


def _ending(code: int | None, lines: Sequence[str]) -> str:
    """The rest of a sentence that begins with the server."""
    match code:
        case None:
            how = "has ended its output"
        case _ if code < 0:
            how = f"has ended (killed by signal {-code})"
        case _:
            how = f"has ended (exit code {code})"
    return f"{how} and last said: {lines[-1]}" if lines else f"{how} without a word"


async def _each_line(descriptor: int, said: Callable[[str], None]) -> None:
    reader = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    rest = ""
    try:
        while chunk := await reader.read(4096):
            *lines, rest = (rest + chunk.decode(errors="replace")).split("\n")
            rest = rest[:_LINE_LIMIT]
            for line in filter(str.strip, lines):
                said(line.rstrip()[:_LINE_LIMIT])
        if rest.strip():
            said(rest.rstrip())
    finally:
        pipe.close()


class _Watched:
    """The messages of a child; calls `ended` when there will be no more. `over`: the child itself
    has ended them.

    mcp 2.3.0 tells nobody that a child has died until something is sent to it. It is gone when
    test_a_child_that_dies_while_idle_is_started_again passes without this."""

    def __init__(self, inner: ReadStream[Read], ended: Callable[[], None]) -> None:
        self._inner = inner
        self._ended = ended
        self.over = False

    async def receive(self) -> Read:
        return await self._inner.receive()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Read:
        try:
            return await self._inner.__anext__()
        except (StopAsyncIteration, anyio.ClosedResourceError) as error:
            self.over = isinstance(error, StopAsyncIteration)
            self._ended()
            raise

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, traceback)
