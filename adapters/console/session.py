"""A person at the terminal: what they type becomes messages, decisions and commands."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, assert_never

from adapters.console import answer, draw, line
from adapters.console.screen import NoCard, Screen, Shown
from bot.card import Card
from bot.field import Field
from bot.question import Kind, Verb
from bot.remember import THREAD, Remember
from bot.surface import Actor, Command, Decision, Entry, Message, Place
from storage.database import DatabaseUnavailable

Read = Callable[[str], Awaitable[str]]
"""Shows a prompt and gives the line. Raises Interrupted for Ctrl-C, EOFError for Ctrl-D."""


class Interrupted(Exception):
    """Ctrl-C: leave what is being typed."""


class Session:
    """Runs until the person leaves. Everything goes through the one entry of the product."""

    def __init__(
        self, screen: Screen, entry: Entry, read: Read, *, actor: Actor, place: Place
    ) -> None:
        self._screen = screen
        self._entry = entry
        self._read = read
        self._actor = actor
        self._place = place

    async def run(self) -> None:
        self._screen.say(
            f"You are {self._actor.label}, in thread {self._place.root}. What you type goes to "
            "the agent; `/help` lists the commands."
        )
        while True:
            try:
                typed = await self._read("> ")
            except Interrupted:
                self._screen.say("Ctrl-D or `/quit` leaves.")
                continue
            except EOFError:
                return
            action = line.parse(typed)
            if isinstance(action, line.Quit):
                return
            await self._act(action)
            self._screen.typed()

    async def _act(self, action: line.Action) -> None:
        match action:
            case line.Blank() | line.Quit():
                pass
            case line.Say():
                await self._say(action.text)
            case line.Ask():
                command = Command(
                    name=action.name,
                    argument=action.argument,
                    actor=self._actor,
                    place=self._place,
                )
                self._screen.say(await self._entry.command(command))
            case line.Help():
                self._screen.say(line.HELP)
            case line.Mistake():
                self._screen.say(action.sentence)
            case line.Cancel():
                await self._cancel(action.number)
            case line.Again():
                await self._again(action.number)
            case (
                line.Approve()
                | line.Edit()
                | line.Decline()
                | line.Answer()
                | line.Done()
                | line.Dismiss()
            ):
                try:
                    shown = self._screen.pick(action.number)
                except NoCard as error:
                    self._screen.say(str(error))
                else:
                    await self._settle(action, shown)
            case unreachable:
                assert_never(unreachable)

    async def _cancel(self, number: int | None) -> None:
        try:
            place, task = self._screen.pick_task(number)
        except NoCard as error:
            self._screen.say(str(error))
            return
        told = await self._entry.cancel_task(task.nonce, self._actor, via="console", place=place)
        self._screen.say(told.sentence)

    async def _again(self, number: int | None) -> None:
        try:
            shown = self._screen.pick_expired(number)
        except NoCard as error:
            self._screen.say(str(error))
            return
        nonce, place = shown.card.nonce, shown.place
        told = await self._entry.ask_again(nonce, self._actor, via="console", place=place)
        self._screen.say(told.sentence)

    async def _say(self, text: str) -> None:
        event = Message(
            keys=(f"console:{uuid.uuid4()}",),
            place=self._place,
            actor=self._actor,
            text=text,
            starts=True,
        )
        try:
            taken = await self._entry.message(event)
        except DatabaseUnavailable as error:
            self._screen.say(f"{error} The message was not taken.")
            return
        if not taken:
            self._screen.say("The agent does not take messages from you.")

    async def _settle(self, action: line.CardAction, shown: Shown) -> None:
        match action:
            case line.Approve() if not shown.card.complete:
                self._screen.say(
                    f"#{shown.number} cannot be approved here: not all of it could be shown."
                )
            case line.Approve(remember=remember):
                chosen = THREAD if remember else None
                await self._decide(shown, Verb.APPROVE, remember=chosen)
            case line.Edit() if shown.card.kind is Kind.APPROVAL:
                await self._edit(shown)
            case line.Decline(note=note):
                await self._decide(shown, Verb.DECLINE, response=note or None)
            case line.Dismiss():
                await self._decide(shown, Verb.DISMISS)
            case line.Done() if shown.card.kind is Kind.PAGE:
                await self._decide(shown, Verb.ANSWER)
            case line.Answer() if shown.card.kind is Kind.FORM:
                await self._answer(shown)
            case line.Done() | line.Answer() | line.Edit():
                self._screen.say(draw.typed(shown.card, shown.number))
            case unreachable:
                assert_never(unreachable)

    async def _answer(self, shown: Shown) -> None:
        """Asks for the fields one by one; nothing is sent before the last."""
        look = await self._entry.look(shown.card.nonce, Verb.ANSWER, self._actor, place=shown.place)
        if look.card is None:
            self._screen.say(look.refusal)
            return
        given = await self._fields(shown, look.card.fields, choosing=look.card.choosing)
        if given is None:
            self._screen.say(f"You left #{shown.number}; nothing was answered.")
            return
        await self._decide(shown, Verb.ANSWER, response=given)

    async def _edit(self, shown: Shown) -> None:
        """Asks for the arguments one by one; an empty line keeps one as it is."""
        form = await self._entry.editing(shown.card.nonce, self._actor, place=shown.place)
        if form.card is None:
            self._screen.say(form.refusal)
            return
        given = await self._fields(shown, form.fields)
        if given is None:
            self._screen.say(f"You left #{shown.number}; nothing was decided.")
            return
        await self._decide(shown, Verb.APPROVE, edited=given)

    async def _fields(
        self, shown: Shown, fields: Sequence[Field], *, choosing: bool = False
    ) -> dict[str, Any] | None:
        """What is typed for each that is not left out; None when the person leaves."""
        values: dict[str, Any] = {}
        try:
            for position, field in enumerate(fields, 1):
                mark = f"{position}/{len(fields)} " if len(fields) > 1 else ""
                self._screen.show(draw.field(field, mark, choosing=choosing))
                values[field.name] = await self._field(field, f"#{shown.number} > ")
        except (Interrupted, EOFError):
            return None
        return {name: value for name, value in values.items() if value is not None}

    async def _field(self, field: Field, prompt: str) -> Any:
        """The value of one field, asked for until it fits; None when it is left out."""
        while True:
            typed = await self._read(prompt)
            while field.multiline and typed.strip() and (more := await self._read(prompt)).strip():
                typed += f"\n{more}"
            try:
                return answer.read(field, typed)
            except answer.Again as error:
                self._screen.say(str(error))

    async def _decide(
        self,
        shown: Shown,
        verb: Verb,
        *,
        response: Any = None,
        remember: Remember | None = None,
        edited: Mapping[str, Any] | None = None,
    ) -> None:
        told = await self._entry.decide(
            Decision(
                nonce=shown.card.nonce,
                verb=verb,
                actor=self._actor,
                via="console",
                place=shown.place,
                response=response,
                remember=remember,
                edited=edited,
            )
        )
        if isinstance(told.card, Card):
            self._screen.card(shown.place, told.card)
        if told.card is None or not told.done:
            self._screen.say(told.sentence)
