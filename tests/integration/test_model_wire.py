"""The model against real wires: aimock (OpenAI chat, OpenAI Responses, Anthropic), and a server
of our own that speaks OpenAI's event stream where a fault is needed that aimock does not have.

aimock comes from npm into ~/.cache/interlock-tests; without node or network its tests skip.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web
from pydantic_ai.messages import ModelMessage

from bot.model import Model, ModelFailed, Settings, ToolSpec, TryLater, Turn
from bot.transcript import CallReturn, load, returns_message, user_message

AIMOCK = "@copilotkit/aimock@1.43.0"
CACHE = Path.home() / ".cache" / "interlock-tests" / "aimock"
KEY = "sk-wire-0123456789abcdef"
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "input_tokens": 11, "output_tokens": 7}
TOOLS = [
    ToolSpec(
        "look",
        "Looks an order up.",
        {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    ),
    ToolSpec("refund", "Pays money back.", {"type": "object", "properties": {}}),
]
SETTINGS = Settings("Be brief.", max_tokens=1_000)
NAMES = {
    "chat": "openai:our-own",
    "responses": "openai-responses:our-own",
    "anthropic": "anthropic:claude-sonnet-5-5",
}


class Clock:
    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


class Shown:
    def __init__(self) -> None:
        self.texts: list[str] = []

    async def __call__(self, text: str) -> None:
        self.texts.append(text)


async def ask(model: Model, history: list[ModelMessage] | str, shown: Shown | None = None) -> Turn:
    if isinstance(history, str):
        history = [user_message(history, name="Ann")]
    return await model.turn(history, TOOLS, SETTINGS, shown or Shown())


# aimock


def error(status: int, message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "server_error"}, "status": status, **more}


def fixtures() -> list[dict[str, Any]]:
    """What aimock answers; the first that matches the end of the conversation wins."""
    each = [
        ("greet", {"content": "Hello there, Ann, how are you?", "usage": USAGE}),
        (
            "look it up",
            {"toolCalls": [{"id": "c1", "name": "look", "arguments": {"order": "A1"}}]},
        ),
        ("long story", {"content": "Once upon a", "finishReason": "length"}),
        ("broken", error(500, "internal")),
        ("crowded", error(429, "slow down", retryAfter=90)),
        ("locked out", error(401, f"Incorrect API key provided: {KEY}")),
        ("odd", error(400, "no such field")),
    ]
    found: list[dict[str, Any]] = [
        {"match": {"userMessage": "look it up", "hasToolResult": True}, "response": said}
        for said in [{"content": "Order A1 is paid."}]
    ]
    for name in NAMES:
        busy = f"busy {name}"
        found += [
            {
                "match": {"userMessage": busy, "sequenceIndex": 0},
                "response": error(429, "slow down", retryAfter=3),
            },
            {"match": {"userMessage": busy}, "response": {"content": "Now I can."}},
        ]
    return found + [{"match": {"userMessage": word}, "response": said} for word, said in each]


def install() -> Path:
    node, npm = shutil.which("node"), shutil.which("npm")
    if not (node and npm):
        pytest.skip("aimock needs node and npm, which are not installed")
    entry = CACHE / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:  # test workers share the directory
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not entry.exists():
            command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(CACHE), AIMOCK]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=40)
            except subprocess.TimeoutExpired:
                pytest.skip(f"npm did not install {AIMOCK} within 40 s")
            if done.returncode or not entry.exists():
                pytest.skip(f"npm could not install {AIMOCK}: {done.stderr.strip()[-200:]}")
    return entry


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running aimock with the fixtures above."""
    entry = install()
    rules = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    rules.write_text(json.dumps({"fixtures": fixtures()}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["node", str(entry), "-p", str(port), "-f", str(rules), "--strict", "-c", "5"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        else:
            pytest.fail("aimock did not begin to listen within 10 s")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=list(NAMES))
async def model(request: pytest.FixtureRequest, aimock: str, clock: Clock) -> AsyncIterator[Model]:
    base_url = aimock if request.param == "anthropic" else f"{aimock}/v1"
    model = Model.open(
        NAMES[request.param], base_url=base_url, api_key=KEY, sleep=clock.sleep, random=Random(7)
    )
    async with model:
        yield model


async def test_text_streams_in_and_its_tokens_are_counted(model: Model) -> None:
    shown = Shown()

    turn = await ask(model, "greet", shown)

    assert turn.text == "Hello there, Ann, how are you?"
    assert shown.texts[-1] == turn.text
    assert len(shown.texts) > 2
    assert all(turn.text.startswith(text) for text in shown.texts)
    assert (turn.usage.input, turn.usage.output) == (11, 7)
    assert turn.cost is None  # nobody knows the prices of another address
    assert not turn.cut


async def test_a_call_its_return_and_the_answer_make_the_round(model: Model) -> None:
    history = [user_message("look it up", name="Ann")]

    proposed = await ask(model, history)
    outcome = CallReturn(proposed.calls[0].provider_id, "look", "paid")
    history += [load(proposed.response), returns_message([outcome], [])]
    answered = await ask(model, history)

    assert [(call.name, json.loads(call.args)) for call in proposed.calls] == [
        ("look", {"order": "A1"})
    ]
    assert answered.text == "Order A1 is paid."


async def test_a_rate_limit_is_waited_for_as_long_as_asked(model: Model, clock: Clock) -> None:
    wire = next(kind for kind, name in NAMES.items() if name == model.name)

    turn = await ask(model, f"busy {wire}")

    assert turn.text == "Now I can."
    assert len(clock.waits) == 1
    assert 3 <= clock.waits[0] < 4


async def test_a_longer_rate_limit_is_handed_to_the_loop(model: Model, clock: Clock) -> None:
    before = time.time()

    with pytest.raises(TryLater) as later:
        await ask(model, "crowded")

    assert later.value.at >= before + 90
    assert clock.waits == []


async def test_server_faults_end_after_five_attempts(model: Model, clock: Clock) -> None:
    with pytest.raises(ModelFailed, match="no answer in 5 attempts"):
        await ask(model, "broken")

    assert len(clock.waits) == 4


async def test_a_refusal_is_not_tried_again(model: Model, clock: Clock) -> None:
    with pytest.raises(ModelFailed, match="refused the request") as failed:
        await ask(model, "odd")

    assert "no such field" in failed.value.detail
    assert clock.waits == []


async def test_a_refused_key_is_told_without_the_key(model: Model) -> None:
    with pytest.raises(ModelFailed, match="check the key") as failed:
        await ask(model, "locked out")

    assert KEY not in f"{failed.value!r} {failed.value.detail}"


async def test_a_response_that_met_the_output_limit_is_cut(model: Model) -> None:
    turn = await ask(model, "long story")

    assert turn.cut
    assert turn.text == "Once upon a"


# Our own server


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Answers chat completions with one handler after the other, the last one for ever."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[str] = []
        self.keys: list[str | None] = []
        self.handlers: list[Handler] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.text())
        self.keys.append(request.headers.get("Authorization") or request.headers.get("X-Api-Key"))
        handler = self.handlers.pop(0) if len(self.handlers) > 1 else self.handlers[0]
        return await handler(request)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.answer)
    app.router.add_post("/v1/messages", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield server
    await runner.cleanup()


@pytest.fixture
async def own(server: Server, clock: Clock) -> AsyncIterator[Model]:
    model = Model.open("openai:our-own", base_url=server.url, sleep=clock.sleep, random=Random(7))
    async with model:
        yield model


def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "our-own"}
    return f"data: {json.dumps({**body, 'choices': [choice]})}\n\n"


END = "data: [DONE]\n\n"


def stream(*lines: str, drop: bool = False, hold: asyncio.Event | None = None) -> Handler:
    """Sends these lines; then ends, breaks the connection, or holds it and tells when it went."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for line in lines:
            await response.write(line.encode())
        if drop and request.transport:
            request.transport.abort()
        while hold and request.transport and not request.transport.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # aiohttp has no event for a client that left
        if hold:
            hold.set()
        return response

    return handler


def status(code: int, **headers: str) -> Handler:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no"}}, status=code, headers=headers)

    return handler


def text(*pieces: str) -> Handler:
    return stream(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"), END)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(stream(chunk({"content": "Half"}), drop=True), id="the connection breaks"),
        pytest.param(stream(chunk({"content": "Half"})), id="it ends without a finish reason"),
        pytest.param(stream(chunk({"content": "Half"}), "data: {oops\n\n"), id="garbled"),
        pytest.param(
            stream('data: {"error": {"message": "overloaded", "code": "overloaded"}}\n\n'),
            id="an error in the stream",
        ),
        pytest.param(stream(END), id="nothing at all"),
        pytest.param(stream(chunk({}, "stop"), END), id="no content"),
        pytest.param(status(529), id="overloaded"),
        pytest.param(status(503), id="unavailable"),
        pytest.param(status(408), id="timed out"),
    ],
)
async def test_a_broken_answer_is_thrown_away_and_asked_for_again(
    own: Model, server: Server, clock: Clock, fault: Handler
) -> None:
    server.handlers = [fault, text("All", " of it.")]
    shown = Shown()

    turn = await ask(own, "hi", shown)

    assert turn.text == "All of it."
    assert shown.texts[-2:] == ["All", "All of it."]
    assert set(shown.texts) <= {"Half", "All", "All of it."}
    assert len(clock.waits) == 1


async def test_a_server_that_is_not_there_is_tried_five_times(clock: Clock) -> None:
    async with Model.open("openai:x", base_url="http://127.0.0.1:1/v1", sleep=clock.sleep) as model:
        with pytest.raises(ModelFailed, match="the connection failed"):
            await ask(model, "hi")

    assert len(clock.waits) == 4


async def test_the_providers_own_retries_are_off(own: Model, server: Server, clock: Clock) -> None:
    server.handlers = [status(500)]

    with pytest.raises(ModelFailed):
        await ask(own, "hi")

    assert len(server.bodies) == 5


@pytest.mark.row("L3")
async def test_cancelling_closes_the_connection_and_the_next_turn_works(
    own: Model, server: Server
) -> None:
    gone = asyncio.Event()
    server.handlers = [stream(chunk({"content": "Half"}), hold=gone), text("Here I am.")]
    streaming = asyncio.Event()

    async def show(_text: str) -> None:
        streaming.set()

    history = [user_message("hi", name="Ann")]
    running = asyncio.create_task(own.turn(history, TOOLS, SETTINGS, show))
    await asyncio.wait_for(streaming.wait(), 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(gone.wait(), 5)

    assert (await ask(own, history)).text == "Here I am."


async def test_each_request_begins_with_the_bytes_of_the_one_before(
    own: Model, server: Server
) -> None:
    server.handlers = [text("One.")]
    history = [user_message("hi", name="Ann")]

    first = await ask(own, history)
    history += [load(first.response), user_message("and now?", name="Bob")]
    await own.turn(history, TOOLS[::-1], SETTINGS, Shown())

    one, two = (json.loads(body) for body in server.bodies)
    start = server.bodies[0].index('"messages":[') + len('"messages":[')
    sent = server.bodies[0][start : server.bodies[0].index("]", start)]
    assert server.bodies[1][: start + len(sent)] == server.bodies[0][: start + len(sent)]
    assert json.dumps(one["tools"]) == json.dumps(two["tools"])
    assert one["messages"][0] == {"role": "system", "content": "Be brief."}
    assert [message["role"] for message in two["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]


async def test_nothing_is_sent_that_was_not_set(own: Model, server: Server) -> None:
    server.handlers = [text("ok")]

    await own.turn([user_message("hi", name="Ann")], [], Settings(), Shown())

    assert set(json.loads(server.bodies[0])) == {"messages", "model", "stream", "stream_options"}


async def test_calls_that_share_an_id_are_told_apart(own: Model, server: Server) -> None:
    calls = [
        {"index": n, "id": "call_0", "function": {"name": name, "arguments": "{}"}}
        for n, name in enumerate(("look", "refund"))
    ]
    server.handlers = [
        stream(chunk({"tool_calls": calls}), chunk({}, "tool_calls"), END),
        text("done"),
    ]
    history = [user_message("hi", name="Ann")]

    turn = await ask(own, history)
    returned = [CallReturn(call.provider_id, call.name, "ok") for call in turn.calls]
    await ask(own, [*history, load(turn.response), returns_message(returned, [])])

    messages = json.loads(server.bodies[1])["messages"]
    sent = [call["id"] for call in messages[2]["tool_calls"]]
    assert len(set(sent)) == 2
    assert [message["tool_call_id"] for message in messages[3:]] == sent


async def test_a_character_split_over_two_chunks_is_shown_and_stored_whole(
    own: Model, server: Server
) -> None:
    server.handlers = [text("a\ud83d", "\ude00b")]
    shown = Shown()

    turn = await ask(own, "hi", shown)

    assert turn.text == "a😀b"
    assert "".join(shown.texts).encode()
    assert "😀" in turn.response


async def test_a_failed_call_is_told_to_the_model_as_an_error(own: Model, server: Server) -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{}"}}
    server.handlers = [
        stream(chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), END),
        text("sorry"),
    ]
    history = [user_message("hi", name="Ann")]

    turn = await ask(own, history)
    failed = CallReturn("c1", "look", "declined by Bob", failed=True)
    await ask(own, [*history, load(turn.response), returns_message([failed], [])])

    told = json.loads(server.bodies[1])["messages"][3]
    assert json.loads(told["content"]) == {"error": "declined by Bob"}


@pytest.mark.parametrize("name", [NAMES["chat"], NAMES["anthropic"]])
async def test_a_key_of_the_environment_is_not_sent_to_another_address(
    server: Server, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    server.handlers = [status(400)]

    async with Model.open(
        name,
        base_url=server.url.removesuffix("/v1") + ("" if name.startswith("anthropic") else "/v1"),
    ) as model:
        with pytest.raises(ModelFailed):
            await ask(model, "hi")

    assert len(server.keys) == 1
    assert KEY not in (server.keys[0] or "")


async def test_anthropic_is_asked_to_cache_and_gets_a_failure_as_an_error(
    server: Server,
) -> None:
    server.handlers = [status(400)]
    base_url = server.url.removesuffix("/v1")
    response = load(
        '[{"kind":"response","parts":[{"part_kind":"tool-call","tool_name":"look",'
        '"args":"{}","tool_call_id":"c1"}]}]'
    )
    failed = CallReturn("c1", "look", "declined by Bob", failed=True)
    history = [user_message("hi", name="Ann"), response, returns_message([failed], [])]

    async with Model.open(NAMES["anthropic"], base_url=base_url) as model:
        with pytest.raises(ModelFailed):
            await ask(model, history)

    body = json.loads(server.bodies[0])
    assert "cache_control" in server.bodies[0]
    assert body["system"][0]["text"] == "Be brief."
    result = body["messages"][2]["content"][0]
    assert (result["type"], result["is_error"]) == ("tool_result", True)
    assert "declined by Bob" in json.dumps(result)
