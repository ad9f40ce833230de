"""The connector of Teams and what people do in its clients.

It holds the bot to the limits and answers of platforms/teams.md; what the bot does wrong stands in
`complaints`, and whoever leaves the fake with one has failed."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import aiohttp
from aiohttp import web

from adapters.teams.clouds import Cloud
from tests.fakes.teams import cards
from tests.fakes.teams.tokens import APP, ISSUER, KEY, Entra, jwk, signed

T = TypeVar("T")

TENANT: Final = "aaaaaaaa-0000-0000-0000-00000000000a"
OTHER_TENANT: Final = "bbbbbbbb-0000-0000-0000-00000000000b"
BOT: Final = f"28:{APP}"
CARD: Final = "application/vnd.microsoft.card.adaptive"
MESSAGE_BYTES: Final = 100 * 1024  # in UTF-16
INVOKE_SECONDS: Final = 10.0


@dataclass
class Somebody:
    """A person; `user` is their Entra object id."""

    user: str
    name: str
    tenant: str = TENANT
    role: str = "user"
    email: str = ""  # as the admins of their tenant have set it
    gone: bool = False  # no roster has them any more
    failing: bool = False  # the rosters fail to tell of them
    slow: float = 0.0  # seconds that the rosters take to

    @property
    def member(self) -> str:
        return f"29:{self.user}"

    def told(self) -> dict[str, str]:
        """As a roster has them."""
        return {
            "id": self.member,
            "name": self.name,
            "aadObjectId": self.user,
            "tenantId": self.tenant,
            "userRole": self.role,
        } | ({"email": self.email} if self.email else {})


@dataclass
class Shown:
    """A message of the bot as everybody sees it; `own` are cards that only some see."""

    id: str
    thread: str
    activity: dict[str, Any]
    edits: int = 0
    own: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen_by: str = ""

    @property
    def card(self) -> dict[str, Any] | None:
        for one in self.activity.get("attachments") or ():
            if one["contentType"] == CARD:
                content: dict[str, Any] = one["content"]
                return content
        return None

    def card_for(self, user: str) -> dict[str, Any]:
        card = self.own.get(user) or self.card
        assert card is not None
        return card

    @property
    def text(self) -> str:
        if self.card is not None:
            return cards.text_of(self.card)
        return str(self.activity.get("text", ""))


@dataclass
class Stated:
    """What the bot answered a request with."""

    status: int
    body: Any


@dataclass
class _Stream:
    id: str
    sequence: int
    text: str
    begun_at: float
    pieces: int = 1


@dataclass
class _Fault:
    what: str
    status: int
    code: str
    retry_after: int | None
    taken: bool
    drop: bool


class FakeTeams:
    """One tenant with a channel, a group chat and the personal chats of its people."""

    def __init__(self) -> None:
        self.people: dict[str, Somebody] = {}
        for number, name in enumerate(("ana", "ben", "cyn"), 1):
            self.add(name, f"00000000-0000-0000-0000-00000000000{number}")
        self.channel = "19:ops@thread.tacv2"
        self.group = "19:group@thread.v2"
        self.rosters: dict[str, list[str]] = {}  # who is in a channel; else everybody is
        self.messages: list[Shown] = []
        self.whispers: list[Shown] = []
        self.typing: list[str] = []
        self.calls: list[tuple[str, str]] = []
        self.complaints: list[str] = []
        self.keys: list[dict[str, Any]] = [jwk(KEY)]
        self.key_fetches = 0
        self.key_delay = 0.0
        self.streams: dict[str, _Stream] = {}  # that run, by their chat
        self.streamed: list[int] = []  # pieces of each that has ended
        self.stops_streams = False  # people press Stop
        self.keeps_stopped = True  # what was stopped or is too old stays as a message
        self.targeted = True  # whether this tenant has messages for one person
        self.bot_url = ""
        self.service_url = ""
        self._faults: list[_Fault] = []
        self._ids = itertools.count(int(time.time() * 1_000))
        self._session: aiohttp.ClientSession
        self._runner: web.AppRunner

    def add(self, name: str, user: str, **given: Any) -> Somebody:
        self.people[name] = Somebody(user, name, **given)
        return self.people[name]

    async def __aenter__(self) -> FakeTeams:
        app = web.Application()
        conversation = "/emea/v3/conversations/{thread}"
        app.add_routes(
            [
                web.get("/openid", self._openid),
                web.get("/jwks", self._jwks),
                web.post("/emea/v3/conversations", self._open),
                web.post(conversation + "/activities", self._post),
                web.put(conversation + "/activities/{id}", self._put),
                web.get(conversation + "/members/{who}", self._member),
                web.get(conversation + "/pagedmembers", self._members),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.origin = f"http://{host}:{port}"
        self.service_url = f"{self.origin}/emea/"
        self._session = aiohttp.ClientSession()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._session.close()
        await self._runner.cleanup()
        if exc[0] is None:
            assert not self.complaints, self.complaints

    @property
    def cloud(self) -> Cloud:
        return Cloud(
            issuer=ISSUER,
            metadata_url=f"{self.origin}/openid",
            login_url="https://login.microsoftonline.com/",
            scope="https://api.botframework.com",
            services=frozenset({self.origin}),
            files="sharepoint.com",
        )

    def fail_next(
        self,
        what: str,
        status: int = 0,
        code: str = "",
        *,
        retry_after: int | None = None,
        taken: bool = False,
        drop: bool = False,
    ) -> None:
        """The next call of this kind (post, put, open, member) fails; `taken`: it was done all the
        same; `drop`: the connection breaks instead of an answer."""
        self._faults.append(_Fault(what, status, code, retry_after, taken, drop))

    def count(self, what: str) -> int:
        return sum(one == what for one, _ in self.calls)

    async def until(self, found: Callable[[], T | None], seconds: float = 8.0) -> T:
        async with asyncio.timeout(seconds):
            while not (value := found()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return value

    # What people do

    def activity(self, who: str, thread: str, **given: Any) -> dict[str, Any]:
        """What Teams sends of a person in a conversation."""
        one = self.people[who]
        kind = self._kind(thread)
        return {
            "type": "message",
            "id": self._id(),
            "channelId": "msteams",
            "serviceUrl": self.service_url,
            "from": {"id": one.member, "name": one.name, "aadObjectId": one.user},
            "recipient": {"id": BOT, "name": "Ops"},
            "conversation": {"id": thread, "conversationType": kind, "tenantId": TENANT}
            | ({"isGroup": True} if kind != "personal" else {}),
            "channelData": {"tenant": {"id": TENANT}},
            "timestamp": "2026-11-30T20:00:00.000Z",
        } | given

    def said(self, who: str, thread: str, text: str, **given: Any) -> dict[str, Any]:
        """A message that mentions the bot where that is needed."""
        if self._kind(thread) != "personal":
            text = f"<at>Ops</at> {text}"
            entity = {
                "type": "mention",
                "mentioned": {"id": BOT, "name": "Ops"},
                "text": "<at>Ops</at>",
            }
            given = {"entities": [entity]} | given
        return self.activity(who, thread, text=text, textFormat="plain", **given)

    async def mention(self, who: str, text: str) -> str:
        """Begins a thread in the channel; its id."""
        root = self._id()
        thread = f"{self.channel};messageid={root}"
        answer = await self.deliver(self.said(who, thread, text, id=root))
        assert answer.status == 200, answer
        return thread

    async def say(self, who: str, thread: str, text: str) -> None:
        answer = await self.deliver(self.said(who, thread, text))
        assert answer.status == 200, answer

    def personal(self, who: str) -> str:
        return f"a:1chat-{self.people[who].user}"

    def invoked(
        self, who: str, message: Shown, title: str, inputs: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """What a client sends for a button of a card."""
        pressed = cards.button(message.card_for(who), title)
        data = pressed["data"] | ((inputs or {}) if pressed["associatedInputs"] == "auto" else {})
        action = {"type": "Action.Execute", "verb": pressed["verb"], "title": title, "data": data}
        return self.activity(
            who,
            message.thread,
            type="invoke",
            name="adaptiveCard/action",
            replyToId=message.id,
            value={"action": action, "trigger": "manual"},
        )

    async def click(
        self, who: str, message: Shown, title: str, inputs: dict[str, str] | None = None
    ) -> Stated:
        """Presses a button; what the clicker alone is shown stands in the message from then on."""
        async with asyncio.timeout(INVOKE_SECONDS):
            answer = await self.deliver(self.invoked(who, message, title, inputs))
        assert answer.status == 200, answer
        if answer.body["type"] == CARD:
            self._judge(answer.body["value"])
            message.own[who] = answer.body["value"]
        return answer

    async def submit(self, who: str, message: Shown, title: str, **inputs: str) -> Stated:
        """The same with an old client, which takes the fallback."""
        pressed = cards.button(message.card_for(who), title)["fallback"]
        sent = self.activity(
            who, message.thread, text=None, value=pressed["data"] | inputs, replyToId=message.id
        )
        return await self.deliver(sent)

    async def deliver(
        self, activity: Any, token: str | None = "", raw: bytes | None = None, **headers: str
    ) -> Stated:
        """Sends it to the bot. `token`: empty is a good one, None is none at all."""
        if token == "":
            token = signed(self.service_url)
        if token is not None:
            headers = {"Authorization": f"Bearer {token}"} | headers
        body = json.dumps(activity).encode() if raw is None else raw
        sent = {"Content-Type": "application/json"} | headers
        async with self._session.post(self.bot_url, data=body, headers=sent) as answer:
            text = await answer.text()
            told = json.loads(text) if answer.content_type == "application/json" and text else None
            return Stated(answer.status, told)

    def in_thread(self, thread: str) -> list[Shown]:
        return [one for one in self.messages if one.thread == thread]

    # The connector

    async def _openid(self, _request: web.Request) -> web.Response:
        return web.json_response({"issuer": ISSUER, "jwks_uri": f"{self.origin}/jwks"})

    async def _jwks(self, _request: web.Request) -> web.Response:
        self.key_fetches += 1
        await asyncio.sleep(self.key_delay)
        return web.json_response({"keys": self.keys})

    async def _open(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()

        def done() -> web.Response:
            if body.get("isGroup"):
                message = self._id()
                thread = f"{body['channelData']['channel']['id']};messageid={message}"
                self._show(thread, body["activity"], message)
                return web.json_response({"id": thread, "activityId": message}, status=201)
            (who,) = body["members"]
            one = next((one for one in self.people.values() if one.user == who["id"]), None)
            if one is None or body["tenantId"] != TENANT or body["bot"]["id"] != BOT:
                return _refused(403, "BotNotInConversationRoster")
            return web.json_response({"id": self.personal(one.name)}, status=201)

        return await self._answer(request, "open", done)

    async def _post(self, request: web.Request) -> web.StreamResponse:
        thread, body = request.match_info["thread"], await request.json()
        stream = next((e for e in body.get("entities", ()) if e["type"] == "streaminfo"), None)
        if stream is not None:
            return await self._answer(
                request, "stream", lambda: self._streamed(thread, body, stream)
            )
        if body["type"] == "typing":
            self.typing.append(thread)
            return web.Response(status=202)
        if request.query.get("isTargetedActivity") == "true":
            return await self._answer(request, "whisper", lambda: self._whisper(thread, body))

        def done() -> web.Response:
            if _too_big(body):
                return _refused(413, "MessageSizeTooBig")
            return web.json_response({"id": self._show(thread, body).id}, status=201)

        return await self._answer(request, "post", done)

    def _streamed(self, thread: str, body: dict[str, Any], info: dict[str, Any]) -> web.Response:
        """A piece of a stream, or its end (platforms/teams.md 2.4 and Microsoft's own pages)."""
        if self._kind(thread) != "personal":
            return _refused(403, "ContentStreamNotAllowed")
        running = self.streams.get(thread)
        if "streamId" not in info:
            if running is not None or (info["streamSequence"], body["type"]) != (1, "typing"):
                return _refused(403, "ContentStreamNotAllowed")
            self.streams[thread] = _Stream(self._id(), 1, body["text"], time.monotonic())
            return web.json_response({"id": self.streams[thread].id}, status=201)
        if running is None or info["streamId"] != running.id:
            return _refused(403, "ContentStreamNotAllowed")
        late = time.monotonic() - running.begun_at > 120
        if late or self.stops_streams or not body["text"].startswith(running.text):
            del self.streams[thread]
            if self.keeps_stopped:
                self._show(thread, {"type": "message", "text": running.text}, running.id)
            return _refused(403, "ContentStreamNotAllowed")
        if body["type"] == "typing":
            if info["streamType"] != "streaming" or info["streamSequence"] != running.sequence + 1:
                return _refused(400, "ContentStreamSequenceOrderPreConditionFailed")
            running.sequence, running.text = info["streamSequence"], body["text"]
            running.pieces += 1
            return web.Response(status=202)
        if info["streamType"] != "final" or "streamSequence" in info:
            return _refused(400, "BadArgument")
        del self.streams[thread]
        self.streamed.append(running.pieces)
        self._show(thread, body, running.id)
        return web.json_response({"id": running.id}, status=201)

    def _whisper(self, thread: str, body: dict[str, Any]) -> web.Response:
        if not self.targeted or self._kind(thread) == "personal":
            return _refused(400, "BadArgument")
        if _too_big(body):
            return _refused(413, "MessageSizeTooBig")
        self._judge_all({"attachments": body.get("attachments")})
        shown = Shown(self._id(), thread, body, seen_by=body["recipient"]["id"])
        self.whispers.append(shown)
        return web.json_response({"id": shown.id}, status=201)

    async def _put(self, request: web.Request) -> web.StreamResponse:
        thread, id_ = request.match_info["thread"], request.match_info["id"]
        body = await request.json()

        def done() -> web.Response:
            one = next(
                (one for one in self.messages if (one.id, one.thread) == (id_, thread)), None
            )
            if one is None:
                return _refused(404, "ActivityNotFoundInConversation")
            if _too_big(body):
                return _refused(413, "MessageSizeTooBig")
            self._judge_all(body)
            one.activity, one.edits = body, one.edits + 1
            one.own.clear()
            return web.json_response({"id": id_})

        return await self._answer(request, "put", done)

    async def _member(self, request: web.Request) -> web.StreamResponse:
        who = request.match_info["who"]

        found = next((p for p in self.people.values() if who in (p.user, p.member)), None)
        if found is not None and found.slow:
            await asyncio.sleep(found.slow)

        def done() -> web.Response:
            if found is not None and found.failing:
                return _refused(503, "ServiceUnavailable")
            thread = request.match_info["thread"]
            alone = found is not None and self._kind(thread) == "personal"
            if found is None or found.gone or (alone and thread != self.personal(found.name)):
                return _refused(404, "MemberNotFoundInConversation")
            return web.json_response(found.told())

        return await self._answer(request, "member", done)

    async def _members(self, request: web.Request) -> web.StreamResponse:
        """A page of everybody; small ones, since a page may hold fewer than asked for."""

        def done() -> web.Response:
            names = self.rosters.get(request.match_info["thread"], [*self.people])
            everybody = [self.people[name] for name in names if not self.people[name].gone]
            start = int(request.query.get("continuationToken", "0"))
            page = everybody[start : start + 3]
            more = {"continuationToken": str(start + 3)} if everybody[start + 3 :] else {}
            return web.json_response({"members": [one.told() for one in page], **more})

        return await self._answer(request, "members", done)

    async def _answer(
        self, request: web.Request, what: str, done: Callable[[], web.Response]
    ) -> web.StreamResponse:
        self.calls.append((what, request.path))
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in Entra.given:
            self.complaints.append(f"{what} without a token of Entra's")
            return _refused(401, "Unauthorized")
        fault = next((one for one in self._faults if one.what == what), None)
        if fault is None:
            return done()
        self._faults.remove(fault)
        if fault.taken:
            done()
        if fault.drop:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
        return _refused(fault.status, fault.code, headers)

    def _show(self, thread: str, activity: dict[str, Any], id_: str = "") -> Shown:
        self._judge_all(activity)
        shown = Shown(id_ or self._id(), thread, activity)
        self.messages.append(shown)
        return shown

    def _judge_all(self, activity: dict[str, Any]) -> None:
        for one in activity.get("attachments") or ():
            if one["contentType"] == CARD:
                self._judge(one["content"])
        if activity.get("recipient"):
            self.complaints.append("a message for everybody has a recipient")

    def _judge(self, card: dict[str, Any]) -> None:
        self.complaints += cards.faults(card)

    def _kind(self, thread: str) -> str:
        if thread.startswith("a:"):
            return "personal"
        return "groupChat" if thread == self.group else "channel"

    def _id(self) -> str:
        return str(next(self._ids))


def _too_big(body: dict[str, Any]) -> bool:
    return len(json.dumps(body, ensure_ascii=False).encode("utf-16-le")) > MESSAGE_BYTES


def _refused(status: int, code: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"error": {"code": code, "message": "no"}}
    return web.json_response(body, status=status, headers=headers)
