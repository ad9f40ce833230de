"""FakeSlack: a strict Slack on a local port. It is its own server, so it outlives the bot."""

import json
from dataclasses import dataclass
from email.utils import formatdate
from types import TracebackType
from typing import Any, Literal, Self

import aiohttp
from aiohttp import web

from tests.fakes.clock import Clock, FakeClock
from tests.fakes.slack import chat
from tests.fakes.slack.args import Args
from tests.fakes.slack.delivery import Deliveries, Delivery
from tests.fakes.slack.installing import Elsewhere, Installing
from tests.fakes.slack.people import People
from tests.fakes.slack.pings import Ping
from tests.fakes.slack.sockets import Sockets
from tests.fakes.slack.web import RateLimited, WebApi
from tests.fakes.slack.workspace import (
    BOT_USER,
    Call,
    Json,
    SlackError,
    Workspace,
)


@dataclass
class _Fault:
    """One thing that will go wrong with one method."""

    kind: Literal["fail", "drop", "delay"]
    error: str | None = None
    status: int | None = None
    seconds: float = 0.0
    """Retry-After of a failure, length of a delay."""
    times: int = 1


class FakeSlack(People):
    """A workspace with ana, ben, cyn and the channel C_OPS, where the bot is a member.

    Use `async with FakeSlack(clock=...) as slack`, give `slack.base_url` to the SDK, and either set
    `slack.events_url` (the bot's HTTP address) or let the bot connect over Socket Mode.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or FakeClock()
        self.sockets = Sockets()
        world = Workspace(self.clock)
        super().__init__(world, Deliveries(world, self.sockets))
        self.api = WebApi(world, self._connections_open)
        self.down = False
        """While true, everything is answered with a 503."""
        self._faults: dict[str, list[_Fault]] = {}
        self.bot_address = ""
        """Where the bot's web server is, for those who install the app."""
        self.elsewhere: list[Elsewhere] = []
        """Other workspaces that may install the app."""
        self.installing = Installing(self)
        self._runner: web.AppRunner | None = None
        for name in ("ana", "ben", "cyn"):
            self.add_user(f"U_{name.upper()}", name)
        self.add_channel("C_OPS", ["U_ANA", "U_BEN", "U_CYN", BOT_USER])

    def add_workspace(
        self, team: str, *, enterprise: str = "", teams: tuple[str, ...] = ()
    ) -> Elsewhere:
        """Another workspace, alike in people and channels, where nobody installed the app yet.
        With `teams` it is a whole enterprise, by its id, and they are its workspaces."""
        world = Workspace(self.clock, team, team if teams else enterprise, whole=bool(teams))
        world.teams = list(teams)
        world.token = None
        world.share_ids(self.world)
        deliveries = Deliveries(world, self.sockets, self.deliveries.http, self.events_url)
        made = Elsewhere(world, deliveries, self.installing)
        self.elsewhere.append(made)
        return made

    # Running

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=32 * 1024**2)
        app.router.add_route("*", "/api/{method}", self._api)
        app.router.add_post("/response/{token}", self._response_url)
        app.router.add_post("/upload/{file}", self._upload)
        app.router.add_get("/files-pri/{file}/{name}", self._download)
        app.router.add_get("/signin", self._sign_in)
        app.router.add_get("/link", self._link)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.world.base_url = f"http://{host}:{port}/api/"
        self.deliveries.http = aiohttp.ClientSession()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._runner is not None
        assert self.deliveries.http is not None
        self.sockets.abort()
        await self.deliveries.http.close()
        await self._runner.cleanup()

    @property
    def base_url(self) -> str:
        """The `base_url` of the SDK's client."""
        return self.world.base_url

    @property
    def events_url(self) -> str | None:
        """Where events and interactions are posted; None means Socket Mode."""
        return self.deliveries.events_url

    @events_url.setter
    def events_url(self, address: str | None) -> None:
        for one in (self, *self.elsewhere):
            one.deliveries.events_url = address

    # Looking at what the bot did

    @property
    def calls(self) -> list[Call]:
        """Every call of the bot, in order."""
        return self.world.calls

    @property
    def refused(self) -> list[Call]:
        """The calls that Slack refused (rate limits and injected faults included)."""
        return [call for call in self.world.calls if call.error]

    @property
    def pings(self) -> list[Ping]:
        """Everything in the bot's messages that Slack would read as a ping or a link."""
        return self.world.pings

    def calls_of(self, method: str) -> list[Call]:
        """The calls of one method."""
        return [call for call in self.world.calls if call.method == method]

    # Deliveries by hand

    async def redeliver(self) -> int:
        """Retry every event whose time has come; returns how many that were."""
        return await self.deliveries.redeliver()

    async def redeliver_last(self) -> Delivery:
        """Deliver the last event once more, with the same event id."""
        return await self.deliveries.redeliver_last()

    async def deliver_http(
        self,
        body: str,
        *,
        secret: str | None = None,
        timestamp: int | str | None = None,
        retry: int = 0,
        signed: bool = True,
    ) -> Delivery:
        """POST a raw body to the bot, signed as asked: wrongly, stale, or not at all."""
        return await self.deliveries.deliver_http(
            body, secret=secret, timestamp=timestamp, retry=retry, signed=signed
        )

    # Faults

    def fail_next(
        self,
        method: str,
        error: str | None = None,
        status: int | None = None,
        retry_after: float = 0.0,
        times: int = 1,
    ) -> None:
        """Answer the next calls of a method with this error without doing anything.

        "response_url" counts as a method here. An error without a status comes as HTTP 200, as
        Slack does it; status 429 needs no error.
        """
        fault = _Fault("fail", error, status, retry_after, times)
        self._faults.setdefault(method, []).append(fault)

    def drop_next(self, method: str, times: int = 1) -> None:
        """Do what the next call asks, then cut the connection without an answer."""
        self._faults.setdefault(method, []).append(_Fault("drop", times=times))

    def delay_next(self, method: str, seconds: float, times: int = 1) -> None:
        """Let the next call wait, by the injected clock, before anything is done."""
        fault = _Fault("delay", seconds=seconds, times=times)
        self._faults.setdefault(method, []).append(fault)

    def _fault(self, method: str, kind: str) -> _Fault | None:
        for fault in self._faults.get(method, []):
            if fault.kind == kind and fault.times > 0:
                fault.times -= 1
                return fault
        return None

    # The server

    def _connections_open(self) -> Json:
        ticket = self.sockets.ticket()
        base = self.base_url.removeprefix("http").removesuffix("/api/")
        return {"url": f"ws{base}/link?ticket={ticket}&app_id=A_BOT"}

    async def _api(self, request: web.Request) -> web.Response:
        if self.down:
            return web.Response(status=503, text="service_unavailable")
        method = request.match_info["method"]
        given, token = await _arguments(request)
        api = self._api_of(token)
        if delay := self._fault(method, "delay"):
            await self.clock.sleep(delay.seconds)
        if failure := self._fault(method, "fail"):
            self.world.calls.append(Call(method, given, failure.error or str(failure.status)))
            return _failed(failure)
        try:
            if method == "oauth.v2.access":
                answer = self.installing.access(request, given)
            else:
                answer = api.call(method, token, given)
        except RateLimited as limited:
            return _rate_limited(limited.seconds)
        if self._fault(method, "drop") and request.transport is not None:
            request.transport.abort()
        headers = {"x-slack-req-id": self.world.number("req")}
        headers["Date"] = formatdate(self.clock.now(), usegmt=True)
        if token == api.world.token:
            headers["x-oauth-scopes"] = ",".join(sorted(api.world.scopes))
        return web.json_response(answer, headers=headers)

    def _api_of(self, token: str) -> WebApi:
        """What the token speaks to; one that nobody knows is refused by the first workspace."""
        for one in self.elsewhere:
            if token == one.world.token or token in one.world.dead_tokens:
                return one.api
        return self.api

    async def _response_url(self, request: web.Request) -> web.Response:
        if self.down:
            return web.Response(status=503, text="service_unavailable")
        given: Any = json.loads(await request.text())
        if failure := self._fault("response_url", "fail"):
            self.world.calls.append(Call("response_url", given, failure.error or "injected"))
            return _failed(failure)
        url = request.match_info["token"]
        worlds = [one.world for one in (self, *self.elsewhere)]
        world = next((one for one in worlds if url in one.response_urls), self.world)
        try:
            chat.respond(world, url, Args(given))
        except SlackError as refused:
            about = tuple(refused.extra.get("errors", ()))
            self.world.calls.append(Call("response_url", given, refused.code, about))
            gone = refused.code in ("no_such_url", "expired_url", "used_url")
            answer = {"ok": False, "error": refused.code}
            return web.json_response(answer, status=404 if gone else 400)
        self.world.calls.append(Call("response_url", given, None))
        return web.Response(text="ok")

    async def _upload(self, request: web.Request) -> web.Response:
        worlds = [one.world for one in (self, *self.elsewhere)]
        files = {name: file for world in worlds for name, file in world.files.items()}
        file = files.get(request.match_info["file"])
        if self.down or file is None:
            return web.Response(status=503 if self.down else 404)
        if request.content_type.startswith("multipart/"):
            parts = await request.post()
            content = b"".join(
                part.file.read() for part in parts.values() if isinstance(part, web.FileField)
            )
        else:
            content = await request.read()
        if len(content) != file["size"]:
            return web.Response(status=400, text="the length is not the announced one")
        file["content"] = content
        return web.Response(text=f"OK - {len(content)}")

    async def _download(self, request: web.Request) -> web.Response:
        """The address of a person's file. Who may not have it is sent to the login page, as a
        browser would be. "download" counts as a method for faults."""
        if self.down:
            return web.Response(status=503)
        file_id, token = request.match_info["file"], _token(request)
        self.world.downloads.append((file_id, token))
        if delay := self._fault("download", "delay"):
            await self.clock.sleep(delay.seconds)
        if failure := self._fault("download", "fail"):
            return _failed(failure)
        if self._fault("download", "drop") and request.transport is not None:
            request.transport.abort()
        if token != self.world.token or "files:read" not in self.world.scopes:
            return web.Response(status=302, headers={"Location": "/signin?redir=%2Ffiles-pri"})
        file = self.world.files.get(file_id)
        if file is None:
            return web.Response(status=404)
        if "moved_to" in file:
            return web.Response(status=302, headers={"Location": file["moved_to"]})
        return web.Response(
            body=file["content"],
            content_type=file.get("mimetype") or "application/octet-stream",
            headers={"Content-Disposition": "attachment"},
        )

    async def _sign_in(self, request: web.Request) -> web.Response:
        page = "<!DOCTYPE html><html><head><title>Sign in | Slack</title></head></html>"
        return web.Response(text=page, content_type="text/html")

    async def _link(self, request: web.Request) -> web.StreamResponse:
        if self.down:
            return web.Response(status=503)
        return await self.sockets.serve(request)


async def _arguments(request: web.Request) -> tuple[Json, str]:
    """The arguments and the token of a call, from any of the shapes that the SDK uses.

    A token in the query string is not accepted, as with every app made since 2021.
    """
    given: Json = {key: value for key, value in request.query.items() if key != "token"}
    if request.content_type == "application/json":
        body: Any = json.loads(await request.text() or "{}")
        given |= body if isinstance(body, dict) else {}
    elif request.method == "POST" and request.can_read_body:
        given |= dict(await request.post())
    token = _token(request) or str(given.get("token", ""))
    return {key: value for key, value in given.items() if key != "token"}, token


def _token(request: web.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


def _rate_limited(seconds: float) -> web.Response:
    answer = {"ok": False, "error": "ratelimited"}
    headers = {"Retry-After": str(max(1, -int(-seconds // 1)))}
    return web.json_response(answer, status=429, headers=headers)


def _failed(fault: _Fault) -> web.Response:
    if fault.status == 429 or fault.error == "ratelimited":
        return _rate_limited(fault.seconds)
    if fault.error is None:
        return web.Response(status=fault.status or 500, text="internal error")
    answer = {"ok": False, "error": fault.error}
    return web.json_response(answer, status=fault.status or 200)
