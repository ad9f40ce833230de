"""Slack's side of Socket Mode: connections, envelopes, acknowledgements, refreshes, cut lines."""

import asyncio
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from tests.fakes.slack.workspace import APP, Json

MAX_CONNECTIONS = 10


@dataclass
class _Connection:
    socket: web.WebSocketResponse
    request: web.Request
    waiting: dict[str, asyncio.Future[Json]] = field(default_factory=dict)
    silent: bool = False


class Sockets:
    """The open connections of the app. Each envelope goes to one of them, in turn."""

    def __init__(self) -> None:
        self.tickets: set[str] = set()
        self._connections: list[_Connection] = []
        self._numbers = itertools.count(1)
        self._turn = itertools.count()

    def __len__(self) -> int:
        return len(self._connections)

    def ticket(self) -> str:
        """A new one-time ticket for a connection (apps.connections.open)."""
        made = f"ticket{next(self._numbers)}"
        self.tickets.add(made)
        return made

    def new_envelope(self) -> str:
        return f"envelope-{next(self._numbers)}"

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """One connection, from hello until it is closed."""
        ticket = request.query.get("ticket", "")
        if ticket not in self.tickets or len(self) >= MAX_CONNECTIONS:
            return web.Response(status=403)
        self.tickets.discard(ticket)
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        connection = _Connection(socket, request)
        self._connections.append(connection)
        hello = {
            "type": "hello",
            "num_connections": len(self),
            "connection_info": {"app_id": APP},
            "debug_info": {"host": "applink-fake", "approximate_connection_time": 18060},
        }
        try:
            await socket.send_json(hello)
            await self._listen(connection)
        finally:
            self._drop(connection)
        return socket

    async def _listen(self, connection: _Connection) -> None:
        async for message in connection.socket:
            if message.type is WSMsgType.PING and not connection.silent:
                await connection.socket.pong(message.data)
            if message.type is not WSMsgType.TEXT:
                continue
            answer: Any = json.loads(message.data)
            waiting = connection.waiting.get(answer.get("envelope_id", ""))
            if waiting and not waiting.done():
                waiting.set_result(answer)

    def _drop(self, connection: _Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
        for waiting in connection.waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the socket was closed"))

    async def send(self, envelope: Json, seconds: float) -> Json:
        """Send one envelope and wait for its acknowledgement.

        Raises ConnectionError without an open connection, TimeoutError when nothing came back.
        """
        if not self._connections:
            raise ConnectionError("no Socket Mode connection is open")
        connection = self._connections[next(self._turn) % len(self._connections)]
        waiting: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        connection.waiting[envelope["envelope_id"]] = waiting
        try:
            await connection.socket.send_json(envelope)
            return await asyncio.wait_for(waiting, seconds)
        finally:
            waiting.cancel()
            connection.waiting.pop(envelope["envelope_id"], None)

    async def refresh(self, reason: str = "refresh_requested") -> None:
        """Ask every connection to be made anew, then close it, as Slack does every few hours."""
        for connection in list(self._connections):
            self._connections.remove(connection)
            await connection.socket.send_json({"type": "disconnect", "reason": reason})
            await connection.socket.close()

    def fall_silent(self) -> None:
        """Answer no ping of the connections that are open now, as a line that is dead."""
        for connection in self._connections:
            connection.silent = True

    def abort(self) -> None:
        """Cut every line without a goodbye."""
        for connection in list(self._connections):
            self._drop(connection)
            if connection.request.transport is not None:
                connection.request.transport.abort()
