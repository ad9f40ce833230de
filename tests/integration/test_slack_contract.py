"""The fake Slack against an independent one: npm `emulate` 0.11.2, which knows posts, threads and
views. The same calls, made with the real SDK client, must have the same outcomes on both.

`emulate` accepts every block and every length, so only state is compared here. It is installed once
into a cache directory; without node or without the package the tests are skipped.
"""

import asyncio
import json
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.fakes.clock import FakeClock
from tests.fakes.slack import BOT_TOKEN, FakeSlack

Json = dict[str, Any]

PACKAGE = "emulate@0.11.2"  # the newest that runs on node 20; the `latest` tag is another package
CACHE = Path.home() / ".cache" / "interlock-tests" / PACKAGE.replace("@", "-")
PERSON_TOKEN = "xoxb-person"
SEED = {
    "tokens": {
        BOT_TOKEN: {"login": "interlock", "scopes": []},
        PERSON_TOKEN: {"login": "ana", "scopes": []},
    },
    "slack": {
        "team": {"name": "T1", "domain": "t1"},
        "users": [
            {"name": "interlock", "email": "interlock@example.org"},
            {"name": "ana", "email": "ana@example.org"},
        ],
        "channels": [{"name": "ops", "topic": ""}],
    },
}


@dataclass
class Subject:
    """One of the two Slacks, with what the Web API alone cannot do."""

    client: AsyncWebClient
    channel: str
    person: str
    say: Callable[[str], Awaitable[str]]
    """Someone other than the bot writes in the channel; gives the ts."""
    trigger: Callable[[str | None], Awaitable[str]]
    """A fresh trigger id, from inside a view if one is named."""
    wait: Callable[[float], Awaitable[None]]
    """Let seconds pass."""


Script = Callable[[Subject], Awaitable[list[Any]]]


def _installed() -> Path:
    """The program, installed if need be. Skips the test when that is not possible."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed, so there is no emulate to compare with")
    program = CACHE / "node_modules" / ".bin" / "emulate"
    if not program.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(CACHE), PACKAGE]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=40)
        except (subprocess.SubprocessError, OSError) as failure:
            pytest.skip(f"npm could not install {PACKAGE}: {type(failure).__name__}")
    return program


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running emulate; its process ends with the module."""
    program = _installed()
    seed = tmp_path_factory.mktemp("emulate") / "seed.yaml"
    seed.write_text(json.dumps(SEED))  # JSON is YAML
    port = _free_port()
    command = ["node", str(program), "start", "--service", "slack", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--seed", str(seed)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 15
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.skip("emulate was installed but did not start")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@asynccontextmanager
async def _shim(address: str) -> AsyncIterator[str]:
    """A way in for the Python SDK: emulate reads only POST bodies, so the query moves there."""
    async with aiohttp.ClientSession() as session:

        async def forward(request: web.Request) -> web.Response:
            body: Json = dict(request.query)
            if request.content_type == "application/json":
                body |= await request.json()
            elif request.can_read_body:
                body |= dict(await request.post())
            headers = {"Authorization": request.headers.get("Authorization", "")}
            target = f"{address}/api/{request.match_info['method']}"
            async with session.post(target, json=body, headers=headers) as answer:
                return web.json_response(await answer.json(), status=answer.status)

        app = web.Application()
        app.router.add_route("*", "/api/{method}", forward)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/api/"
        await runner.cleanup()


@asynccontextmanager
async def _theirs(address: str) -> AsyncIterator[Subject]:
    async with _shim(address) as base_url, aiohttp.ClientSession() as session:
        client = AsyncWebClient(BOT_TOKEN, base_url=base_url, session=session)
        person = AsyncWebClient(PERSON_TOKEN, base_url=base_url, session=session)
        channels = (await client.conversations_list())["channels"]
        [ops] = [channel["id"] for channel in channels if channel["name"] == "ops"]
        user = (await person.auth_test())["user_id"]

        async def say(text: str) -> str:
            return str((await person.chat_postMessage(channel=ops, text=text))["ts"])

        async def trigger(view_id: str | None) -> str:
            about = {"view_id": view_id} if view_id else {"user_id": user}
            made = await client.api_call("views.generateTriggerId", json=about)
            return str(made["trigger_id"])

        yield Subject(client, ops, user, say, trigger, asyncio.sleep)


@asynccontextmanager
async def _ours() -> AsyncIterator[Subject]:
    clock = FakeClock()
    async with FakeSlack(clock) as slack, aiohttp.ClientSession() as session:
        slack.world.scopes |= {"channels:join", "mpim:read"}
        client = AsyncWebClient(BOT_TOKEN, base_url=slack.base_url, session=session)

        async def say(text: str) -> str:
            return await slack.say("U_ANA", "C_OPS", text)

        async def trigger(view_id: str | None) -> str:
            return slack.world.new_trigger("U_ANA", from_view=view_id).id

        async def wait(seconds: float) -> None:
            clock.advance(seconds)

        yield Subject(client, "C_OPS", "U_ANA", say, trigger, wait)


async def outcome(call: Awaitable[Any]) -> str:
    """ok, or the error code."""
    try:
        await call
    except SlackApiError as failure:
        return str(failure.response["error"])
    return "ok"


def form(title: str, **more: Any) -> Json:
    text = {"type": "plain_text", "text": "Name"}
    field = {"type": "plain_text_input", "action_id": "v"}
    block = {"type": "input", "block_id": "name", "label": text, "element": field}
    parts = {"title": {"type": "plain_text", "text": title}, "submit": text, "blocks": [block]}
    return {"type": "modal", **parts, **more}


CARD = [{"type": "section", "block_id": "q", "text": {"type": "plain_text", "text": "Go?"}}]


async def posts_and_threads(on: Subject) -> list[Any]:
    """Posting, answering in a thread, reading it back."""
    client, channel = on.client, on.channel
    root = (await client.chat_postMessage(channel=channel, text="root", blocks=CARD))["ts"]
    reply = await client.chat_postMessage(channel=channel, text="one", thread_ts=root)
    await client.chat_postMessage(channel=channel, text="two", thread_ts=root)
    seen = (await client.conversations_replies(channel=channel, ts=root))["messages"]
    newest = (await client.conversations_history(channel=channel, limit=1))["messages"]
    return [
        reply["message"]["thread_ts"] == root,
        [message["text"] for message in seen],
        # Not the root: Slack gives it a thread_ts of its own once there are answers, emulate not.
        [message["thread_ts"] == root for message in seen[1:]],
        seen[0]["reply_count"],
        seen[0]["blocks"] == CARD,
        [message["text"] for message in newest],
        await outcome(client.chat_postMessage(channel="C0000000X", text="x")),
        await outcome(client.chat_getPermalink(channel=channel, message_ts=root)),
        await outcome(client.chat_getPermalink(channel=channel, message_ts="1.000001")),
    ]


async def updates_and_deletions(on: Subject) -> list[Any]:
    """Whose messages can be changed, and what is left of them."""
    client, channel = on.client, on.channel
    metadata = {"event_type": "card", "event_payload": {"nonce": "n1"}}
    ts = (await client.chat_postMessage(channel=channel, text="a", blocks=CARD, metadata=metadata))[
        "ts"
    ]
    foreign = await on.say("mine")

    async def read() -> Json:
        page = await client.conversations_replies(channel=channel, ts=ts, include_all_metadata=True)
        message: Json = page["messages"][0]
        return message

    await client.chat_update(channel=channel, ts=ts, text="b", blocks=CARD)
    with_blocks = await read()
    await client.chat_update(channel=channel, ts=ts, text="c")
    without_blocks = await read()
    return [
        (with_blocks["text"], with_blocks["blocks"] == CARD),
        (without_blocks["text"], without_blocks.get("blocks")),
        without_blocks["metadata"] == metadata,
        "edited" in without_blocks,
        await outcome(client.chat_update(channel=channel, ts=foreign, text="x")),
        await outcome(client.chat_update(channel=channel, ts="1.000001", text="x")),
        await outcome(client.chat_delete(channel=channel, ts=foreign)),
        await outcome(client.chat_delete(channel=channel, ts=ts)),
        await outcome(client.chat_delete(channel=channel, ts=ts)),
    ]


async def people_and_reactions(on: Subject) -> list[Any]:
    """Ephemerals, direct conversations, reactions and lookups."""
    client, channel = on.client, on.channel
    ts = (await client.chat_postMessage(channel=channel, text="x"))["ts"]
    react = {"channel": channel, "timestamp": ts, "name": "eyes"}
    first = await client.conversations_open(users=on.person)
    again = await client.conversations_open(users=on.person)
    return [
        await outcome(client.chat_postEphemeral(channel=channel, user=on.person, text="psst")),
        await outcome(client.reactions_add(**react)),
        await outcome(client.reactions_add(**react)),
        first["channel"]["id"] == again["channel"]["id"],
        await outcome(client.users_info(user=on.person)),
        await outcome(client.users_info(user="U0000000X")),
        await outcome(client.conversations_info(channel="C0000000X")),
        on.person in (await client.conversations_members(channel=channel))["members"],
        await outcome(AsyncWebClient(base_url=client.base_url).auth_test()),
    ]


async def triggers(on: Subject) -> list[Any]:
    """A trigger opens one modal within three seconds."""
    client = on.client
    used, late = await on.trigger(None), await on.trigger(None)
    found = [
        await outcome(client.views_open(trigger_id=used, view=form("A"))),
        await outcome(client.views_open(trigger_id=used, view=form("A"))),
        await outcome(client.views_open(trigger_id="made.up", view=form("A"))),
    ]
    await on.wait(4.1)
    return [*found, await outcome(client.views_open(trigger_id=late, view=form("A")))]


async def view_updates(on: Subject) -> list[Any]:
    """Hashes and external ids guard a modal."""
    client = on.client
    view = form("A", external_id="question-1")
    opened = (await client.views_open(trigger_id=await on.trigger(None), view=view))["view"]
    twin = client.views_open(trigger_id=await on.trigger(None), view=view)
    found = [await outcome(twin)]
    changed = await client.views_update(view_id=opened["id"], hash=opened["hash"], view=view)
    old, new = opened["hash"], changed["view"]["hash"]
    return [
        *found,
        old != new,
        changed["view"]["id"] == opened["id"],
        changed["view"]["root_view_id"] == opened["id"],
        await outcome(client.views_update(view_id=opened["id"], hash=old, view=view)),
        await outcome(client.views_update(external_id="question-1", hash=new, view=view)),
        await outcome(client.views_update(view_id="V0000000X", view=view)),
    ]


async def view_stacks(on: Subject) -> list[Any]:
    """Modals are three deep at most."""
    client = on.client
    top = (await client.views_open(trigger_id=await on.trigger(None), view=form("1")))["view"]
    root, previous = top["id"], []
    for title in ("2", "3"):
        below = top["id"]
        trigger = await on.trigger(below)
        top = (await client.views_push(trigger_id=trigger, view=form(title)))["view"]
        previous.append((top["previous_view_id"] == below, top["root_view_id"] == root))
    trigger = await on.trigger(top["id"])
    return [*previous, await outcome(client.views_push(trigger_id=trigger, view=form("4")))]


async def home_tabs(on: Subject) -> list[Any]:
    """A home tab is published again under its hash."""
    client, view = on.client, {"type": "home", "blocks": CARD}
    first = (await client.views_publish(user_id=on.person, view=view))["view"]
    second = (await client.views_publish(user_id=on.person, view=view, hash=first["hash"]))["view"]
    stale = client.views_publish(user_id=on.person, view=view, hash=first["hash"])
    return [
        first["id"] == second["id"],
        first["hash"] != second["hash"],
        await outcome(stale),
        await outcome(client.views_publish(user_id="U0000000X", view=view)),
        await outcome(client.views_publish(user_id=on.person, view=form("A"))) != "ok",
    ]


SCRIPTS: list[Script] = [
    posts_and_threads,
    updates_and_deletions,
    people_and_reactions,
    triggers,
    view_updates,
    view_stacks,
    home_tabs,
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.__name__))
async def test_the_fake_answers_like_an_independent_slack(script: Script, emulate: str) -> None:
    async with _theirs(emulate) as subject:
        theirs = await script(subject)
    async with _ours() as subject:
        ours = await script(subject)
    assert ours == theirs
