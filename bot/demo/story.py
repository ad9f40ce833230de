"""The story that `interlock demo` plays without a terminal: three threads, three people, and a
process that is killed between an effect and its record.

The bot runs in a process of its own; the people click in this one, as they would through another
replica. At the end the effects are counted.
"""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bot.app import App
from bot.chat import Chat
from bot.demo.effects import Effects
from bot.demo.process import open_app
from bot.question import Purpose, Question, Verb
from bot.surface import Actor, Decision, Message, Place
from storage import chats, outbox
from storage.migrate import upgrade

T = TypeVar("T")

PATIENCE_SECONDS = 20.0
EXPECTED = {"restart_service": 1, "open_ticket": 1, "roll_back": 1}
STEP_SECONDS = 0.15  # of the rollout: a tenth of its hosts

ANA, BEN, CYN = (Actor("console", "local", name, name) for name in ("ana", "ben", "cyn"))


class _Process:
    """A process of the story: the bot's, or that of its MCP server."""

    def __init__(self, module: str, *words: str) -> None:
        self._command = [sys.executable, "-m", module, *words]
        self._child: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._child = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.DEVNULL
        )

    async def kill(self) -> None:
        assert self._child is not None
        self._child.kill()
        await self._child.wait()

    async def died(self) -> int:
        assert self._child is not None
        return await asyncio.wait_for(self._child.wait(), PATIENCE_SECONDS)

    async def stop(self) -> None:
        if self._child is not None and self._child.returncode is None:
            self._child.terminate()
            await self._child.wait()


class _Thread:
    """A thread of the story, as its people see and use it."""

    def __init__(self, app: App, agent: str, root: str) -> None:
        self._app = app
        self._service = app.service(agent)
        self._place = Place("console", "local", "console", root)
        self._said = 0

    async def say(self, who: Actor, text: str) -> None:
        _tell(f"{who.label} writes: {text}")
        self._said += 1
        await self._service.message(
            Message(
                keys=(f"{self._place.root}/{self._said}",),
                place=self._place,
                actor=who,
                text=text,
                starts=True,
            )
        )

    async def question(self, purpose: Purpose) -> Question:
        """The question of this purpose, once its card is posted."""

        async def posted() -> Question | None:
            for one in await (await self._chat()).pending_questions():
                async with self._app.db.read() as tx:
                    copies = await outbox.postings_of(tx, outbox.question_subject(one.id))
                if one.purpose is purpose and copies:
                    return one
            return None

        return await _until(posted)

    async def decide(
        self, who: Actor, question: Question, verb: Verb, response: Any = None
    ) -> bool:
        said = f"{verb.value}s" + ("" if response is None else f": {response}")
        _tell(f"{who.label} {said}")
        answer = await self._service.decide(
            Decision(
                nonce=question.nonce,
                verb=verb,
                actor=who,
                via="console",
                place=self._place,
                response=response,
            )
        )
        if not answer.done:
            _tell(f"   (only {who.label} is told) {answer.sentence}")
        return answer.done

    async def task(self) -> None:
        """Waits until a background call runs and its card is posted."""

        async def running() -> bool | None:
            for one in await (await self._chat()).pending_tasks():
                async with self._app.db.read() as tx:
                    if await outbox.postings_of(tx, outbox.task_subject(one.call_id)):
                        return True
            return None

        await _until(running)

    async def answered(self, text: str) -> None:
        """Waits for the agent's last word in this thread."""

        async def said() -> bool | None:
            chat = await self._chat()
            row = None
            async with self._app.db.read() as tx:
                waiting = await outbox.channels_waiting(tx)
                row = await chats.get(tx, chat.id)
            idle = row is not None and row.owner is None and not waiting
            return True if idle and text in await chat.last_reply() else None

        await _until(said)

    async def _chat(self) -> Chat:
        async def found() -> Chat | None:
            async with self._app.db.read() as tx:
                row = await chats.at_place(tx, self._place)
            return None if row is None else Chat(row.id, self._app.core)

        return await _until(found)


async def run_story(directory: Path) -> int:
    """Plays it. Returns 0, or 1 when an effect happened more or less often than it should."""
    print("No terminal here, so this plays a story with a scripted model (no key is needed).")
    port = _free_port() if importlib.util.find_spec("examples") is not None else None
    app = open_app(directory, port)
    await upgrade(app.db)
    effects = Effects(directory)
    process = _Process("bot.demo", str(directory), *([] if port is None else [str(port)]))
    server = _Process(
        "examples.deploy_server",
        *("--port", str(port), "--state", str(effects.rollouts.parent)),
        *("--step", str(STEP_SECONDS)),
    )
    expected = dict(EXPECTED)
    try:
        if port is not None:
            await server.start()
        await process.start()
        await _incident(_Thread(app, "incident", "incident"))
        effects.trap.touch()
        await _release(_Thread(app, "release", "release"), process)
        if port is None:
            _tell("(the part with an MCP server needs the examples of the checkout)")
        else:
            await _deploy(_Thread(app, "deploy", "deploy"), process)
            expected["rollout"] = 1
    finally:
        await process.stop()
        await server.stop()
        await app.db.close()
    return _verdict(effects, expected)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


async def _incident(thread: _Thread) -> None:
    _chapter("Thread 1: an approval, and a form")
    await thread.say(ANA, "checkout is slow, please fix it")
    approval = await thread.question(Purpose.APPROVAL)
    await thread.decide(CYN, approval, Verb.APPROVE)
    await thread.decide(ANA, approval, Verb.APPROVE)
    await thread.decide(BEN, approval, Verb.APPROVE)
    form = await thread.question(Purpose.ASK)
    wrong = {"severity": "huge", "summary": "", "customers": "many"}
    await thread.decide(ANA, form, Verb.ANSWER, wrong)
    right = {"severity": "high", "summary": "checkout was slow", "customers": "120"}
    await thread.decide(ANA, form, Verb.ANSWER, right)
    await thread.answered("the ticket is filed")


async def _release(thread: _Thread, process: _Process) -> None:
    _chapter("Thread 2: choices, and a process that is killed")
    await thread.say(ANA, "please roll the release back")
    choices = await thread.question(Purpose.ASK)
    picked = {
        choices.fields[0].name: {"selected": ["checkout"], "other_text": "the docs site"},
        choices.fields[1].name: "Now",
    }
    await thread.decide(ANA, choices, Verb.ANSWER, picked)
    approval = await thread.question(Purpose.APPROVAL)
    await thread.decide(BEN, approval, Verb.APPROVE)
    code = await process.died()
    killed = "was killed (kill -9)" if code == -signal.SIGKILL else f"ended with {code}"
    _tell(f"*** the bot's process {killed} after roll_back had its effect and before its record")
    await process.start()
    _tell("*** a new process starts; it runs nothing again, it asks")
    lost = await thread.question(Purpose.OUTCOME)
    settled = {"outcome": "ran", "note": "v41 is live, I looked."}
    await thread.decide(BEN, lost, Verb.ANSWER, settled)
    await thread.answered("checkout runs v41 again")


async def _deploy(thread: _Thread, process: _Process) -> None:
    _chapter("Thread 3: an MCP server that asks, and a task that outlives the bot")
    await thread.say(ANA, "please roll v2 of checkout out")
    approval = await thread.question(Purpose.APPROVAL)
    await thread.decide(BEN, approval, Verb.APPROVE)
    plan = await thread.question(Purpose.ASK)
    where = {"environment": "staging", "reason": "faster checkout"}
    await thread.decide(ANA, plan, Verb.ANSWER, where)
    await thread.task()
    await process.kill()
    _tell("*** the bot's process was killed (kill -9) while the server goes on with the rollout")
    await process.start()
    _tell("*** a new process starts and looks at the task again")
    halfway = await thread.question(Purpose.ASK)
    await thread.decide(ANA, halfway, Verb.ANSWER, "go_on")
    await thread.answered("checkout runs v2")


def _verdict(effects: Effects, expected: Mapping[str, int]) -> int:
    _chapter("Effects")
    counted = effects.count()
    names = sorted({*expected, *counted})
    for name in names:
        print(f"   {name}: {counted[name]} (expected {expected.get(name, 0)})")
    right = all(counted[name] == expected.get(name, 0) for name in names)
    print("Every effect happened exactly once." if right else "AN EFFECT COUNT IS WRONG.")
    return 0 if right else 1


def _chapter(title: str) -> None:
    print(f"\n== {title} ==", flush=True)


def _tell(text: str) -> None:
    print(f">> {text}", flush=True)


async def _until(look: Callable[[], Awaitable[T | None]]) -> T:
    """What `look` finds, as soon as it finds something."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await look()
            if found is not None:
                return found
            await asyncio.sleep(0.02)
