"""The one entry for everything that people do on any surface."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import structlog

from bot import commands, drawing, home, home_rules
from bot.again import ask_again
from bot.argument_form import FormAnswer
from bot.card import Card
from bot.changed import take_change
from bot.chat import queue
from bot.core import Core, Job, new_id
from bot.desk import Desk, Ruling
from bot.editing import BadEdit, fields_to_edit
from bot.field import AnswerError, Field
from bot.group import GroupCard
from bot.groups import with_groups
from bot.identity import known, learn
from bot.intake import keep_files
from bot.question import (
    NotAllowed,
    Purpose,
    QuestionError,
    UnknownQuestion,
    Verb,
    WrongVerb,
    new_nonce,
)
from bot.remember import Remember, sentence
from bot.remembering import chosen, fields_to_remember, rule_for
from bot.rulebook import preview
from bot.surface import (
    Actor,
    Changed,
    Command,
    Decision,
    Form,
    GroupDecision,
    Home,
    Listing,
    Look,
    Message,
    NewRule,
    Place,
    Response,
)
from bot.task import Tasks
from bot.together import decide_together
from storage import attachments, calls, chats, messages, outbox, questions, seen
from storage.calls import CallState
from storage.chats import ChatRow
from storage.database import DatabaseUnavailable, Tx
from storage.scope import Asked

log = structlog.get_logger(__name__)


class Service:
    """Takes in events; each is durable when the call returns. Implements bot.surface.Entry."""

    def __init__(self, core: Core, *, agent: str) -> None:
        """`agent`: who answers in a thread that a person begins."""
        self.core = core
        self.agent = agent
        self.desk = Desk(core)

    async def message(self, event: Message) -> bool:
        """Somebody said something: it begins a chat, or goes on with the one that lives there.

        False when it was taken in before, when no chat lives there, or when it came from a bot or
        from another organisation. Raises DatabaseUnavailable; then it was not taken in."""
        if event.actor.is_bot or not (event.text.strip() or event.files):
            return False
        now = self.core.now()
        if event.actor.is_external:
            return await self._refuse_external(event, now)
        async with self.core.db.transaction("take_message") as tx:
            chat = await chats.at_place(tx, event.place)
            if chat is None and not event.starts:
                return False
            if not await seen.first_time(tx, event.keys, now):
                return chat is not None and await self._late_files(tx, chat, event)
            if chat is None:
                chat = await chats.open_at(
                    tx,
                    event.place,
                    chat_id=new_id("chat"),
                    agent=self.agent,
                    requester=event.actor.key,
                    now=now,
                )
            message_id = await queue(
                self.core, tx, chat.id, event.text, by=event.actor, source=event.source or None
            )
            if event.files:
                await keep_files(self.core, tx, chat, message_id, event.files)
            await self._tell_queued(tx, chat, event.actor)
        return True

    async def _late_files(self, tx: Tx, chat: ChatRow, event: Message) -> bool:
        """Takes in the files of a message that was taken in without them: of the two events that
        Slack sends for one mention, the first may lack them. What is history already is followed by
        a message of files alone. False when there are none, or they are known."""
        if not event.files or not event.source:
            return False
        await chats.lock(tx, chat.id)
        row = await messages.by_source(tx, chat.id, event.source)
        if row is None or row.author != event.actor.key:
            return False
        if await attachments.of_source(tx, chat.id, event.source):
            return False
        message_id = row.id
        if row.position is not None:
            message_id = await queue(
                self.core, tx, chat.id, "", by=event.actor, source=event.source
            )
        await keep_files(self.core, tx, chat, message_id, event.files)
        return True

    async def changed(self, event: Changed) -> bool:
        return await take_change(self.core, event)

    async def _refuse_external(self, event: Message, now: float) -> bool:
        """Somebody of another organisation called the agent: they are told, once."""
        async with self.core.db.transaction("refuse_message") as tx:
            told = tuple(f"refused:{key}" for key in event.keys)
            if event.starts and await seen.first_time(tx, told, now):
                await outbox.whisper(
                    tx,
                    event.place,
                    nonce=new_nonce(),
                    recipient=event.actor.user,
                    text="The agent takes messages from people of this organisation only.",
                    now=now,
                    chat_id=None,
                )
                await self.core.wake(tx, Job.DELIVER, event.place.channel_key)
        return False

    async def _tell_queued(self, tx: Tx, chat: ChatRow, actor: Actor) -> None:
        """What is said while the chat waits is kept, and is never taken for an answer (row Q27)."""
        waiting = await calls.in_state(tx, chat.id, [CallState.WAITING, CallState.UNKNOWN])
        if not waiting:
            return
        names = ", ".join(dict.fromkeys(call.name for call in waiting))
        await outbox.whisper(
            tx,
            chat.place,
            nonce=new_nonce(),
            recipient=actor.user,
            text=f"The agent reads this once {names} is settled; use the card to decide.",
            now=self.core.now(),
            chat_id=chat.id,
        )
        await self.core.wake(tx, Job.DELIVER, chat.place.channel_key)

    async def decide(self, event: Decision) -> Response:
        """Somebody pressed a button or sent a form. Whatever is wrong with it comes back as the
        sentence they are told."""
        by = await with_groups(self.core, event.actor)
        try:
            remember = event.remember
            if event.rule is not None:
                try:
                    remember = await self._chosen(event)
                except NotAllowed as refused:
                    await self.desk.refuse(event.nonce, event.verb, str(refused), by, event.via)
                    raise
            ruling = await self.desk.decide(
                event.nonce,
                event.verb,
                by=by,
                via=event.via,
                response=event.response,
                lenient=event.lenient,
                remember=remember,
                arguments=None if event.edited is None else FormAnswer(event.edited),
                place=event.place,
            )
        except (AnswerError, BadEdit) as error:
            return Response(done=False, sentence=str(error), errors=error.errors)
        except QuestionError as error:
            return Response(done=False, sentence=str(error))
        except DatabaseUnavailable as error:
            log.warning("a decision could not be stored", via=event.via)
            return Response(
                done=False, sentence=f"{error} Nothing was decided, unless the card says so."
            )
        card = stands = None
        with contextlib.suppress(DatabaseUnavailable):  # it is decided, whatever comes now
            card = await self._card(event.nonce)
            stands = await self._standing(event.nonce, event.place)
        done = ruling.first or bool(ruling.recorded)
        return Response(done=done, sentence=_told(ruling, card), card=stands)

    async def decide_together(self, event: GroupDecision) -> Response:
        """Somebody approved or declined several questions of one card at once."""
        event = replace(event, actor=await with_groups(self.core, event.actor))
        response = await decide_together(self.desk, event)
        if event.place is None:
            return response
        return replace(response, card=await self.shown(event.nonce, place=event.place))

    async def shown(self, nonce: str, *, place: Place) -> Card | GroupCard | None:
        try:
            there = bool(place.channel) and await self.desk.stands(nonce, place=place)
            return await self._standing(nonce, place) if there else None
        except DatabaseUnavailable:
            return None

    async def open_cards(self, place: Place) -> list[Card]:
        """The cards that wait in a thread, oldest first."""
        async with self.core.db.read() as tx:
            chat = await chats.at_place(tx, place)
            waiting = [] if chat is None else await questions.open_in_chat(tx, chat.id)
        cards = [await self._card(one.nonce) for one in waiting]
        return [card for card in cards if card is not None]

    async def command(self, event: Command) -> str:
        try:
            if event.keys:
                async with self.core.db.transaction("take_command") as tx:
                    if not await seen.first_time(tx, event.keys, self.core.now()):
                        return ""
                    await learn(tx, event.actor, self.core.now())
            actor = await known(self.core, event.actor)
            return await commands.run(self.core, replace(event, actor=actor))
        except DatabaseUnavailable as error:
            return str(error)

    async def inbox(self, actor: Actor, organisation: str, page: int) -> Listing:
        try:
            actor = await known(self.core, actor)
            return await commands.inbox(self.core, actor, organisation, page)
        except DatabaseUnavailable as error:
            return Listing(str(error))

    async def home(self, actor: Actor, organisation: str, page: int | None = None) -> Home:
        try:
            actor = await known(self.core, actor)
            return await home.show(self.core, actor, organisation, page)
        except DatabaseUnavailable as error:
            if page is None:
                raise
            return Home(refusal=str(error))

    async def cancel_task(
        self, nonce: str, actor: Actor, *, via: str, place: Place | None = None
    ) -> Response:
        """Asks the server of a background call to stop, if this person may."""
        try:
            async with self.core.db.read() as tx:
                call = await calls.get(tx, nonce)
                chat = None if call is None else await chats.get(tx, call.chat_id)
            if chat is None or not (place is None or place.covers(chat.place)):
                return Response(done=False, sentence="There is no such task here.")
            actor = await with_groups(self.core, actor)
            return await Tasks(self.core).cancel_by(nonce, actor, via)
        except DatabaseUnavailable as error:
            return Response(done=False, sentence=str(error))

    async def ask_again(
        self, nonce: str, actor: Actor, *, via: str, place: Place | None = None
    ) -> Response:
        try:
            return await ask_again(self.desk, nonce, actor, via=via, place=place)
        except DatabaseUnavailable as error:
            return Response(done=False, sentence=f"{error} The agent was not asked again.")

    async def rule_form(self, actor: Actor, organisation: str) -> Form:
        return await home_rules.form(self.core, await with_groups(self.core, actor), organisation)

    async def new_rule(self, event: NewRule) -> Response:
        try:
            actor = await with_groups(self.core, event.actor)
            return await home_rules.take(self.core, replace(event, actor=actor))
        except DatabaseUnavailable as error:
            return Response(done=False, sentence=str(error))

    async def revoke_rule(
        self, rule_id: str, actor: Actor, organisation: str, *, via: str
    ) -> Response:
        try:
            actor = await with_groups(self.core, actor)
            return await home_rules.revoke(self.core, rule_id, actor, organisation, via=via)
        except DatabaseUnavailable as error:
            return Response(done=False, sentence=str(error))

    async def look(
        self, nonce: str, verb: Verb, actor: Actor, *, place: Place | None = None
    ) -> Look:
        """The card behind a nonce, if this person may do `verb` to it now. Changes nothing."""
        try:
            actor = await with_groups(self.core, actor)
            refusal = await self.desk.look(nonce, verb, by=actor, place=place)
            card = None if refusal else await self._card(nonce)
        except DatabaseUnavailable as error:
            return Look(card=None, refusal=str(error))
        if refusal is None and card is None:
            refusal = str(UnknownQuestion())
        return Look(card=card, refusal=refusal or "")

    async def editing(self, nonce: str, actor: Actor, *, place: Place | None = None) -> Form:
        return await self._form(nonce, actor, place, fields_to_edit)

    async def remembering(self, nonce: str, actor: Actor, *, place: Place | None = None) -> Form:
        return await self._form(nonce, actor, place, fields_to_remember)

    async def _form(
        self,
        nonce: str,
        actor: Actor,
        place: Place | None,
        fields: Callable[[Core, Asked, Actor], tuple[Field, ...]],
    ) -> Form:
        """A form beside an approval. `fields` raises QuestionError where there is none."""
        look = await self.look(nonce, Verb.APPROVE, actor, place=place)
        if look.card is None:
            return Form(card=None, refusal=look.refusal)
        try:
            return Form(card=look.card, fields=fields(self.core, await self._asked(nonce), actor))
        except (QuestionError, DatabaseUnavailable) as error:
            return Form(card=None, refusal=str(error))

    async def _asked(self, nonce: str) -> Asked:
        """What an approval is about. Raises QuestionError."""
        async with self.core.db.read() as tx:
            asked = await _rows(tx, nonce)
        if asked is None:
            raise UnknownQuestion
        if asked.question.purpose != Purpose.APPROVAL:
            raise WrongVerb(f"This is no approval of {asked.call.name}.")
        return asked

    async def preview(self, event: Decision) -> Response:
        try:
            remember = await self._chosen(event)
            asked = await self._asked(event.nonce)
            rule = rule_for(self.core, asked, event.actor, remember)
            async with self.core.db.read() as tx:
                past = await preview(tx, rule)
        except AnswerError as error:
            return Response(done=False, sentence=str(error), errors=error.errors)
        except (QuestionError, DatabaseUnavailable) as error:
            return Response(done=False, sentence=str(error))
        return Response(done=True, sentence=f"{sentence(rule)}\n{past.sentence}")

    async def _chosen(self, event: Decision) -> Remember:
        """What was chosen in the form of `remembering`. Raises QuestionError and AnswerError."""
        form = await self.remembering(event.nonce, event.actor, place=event.place)
        if form.card is None:
            raise NotAllowed(form.refusal)
        return chosen(form.fields, event.rule or {})

    async def read(self, nonce: str, actor: Actor, *, place: Place | None = None) -> Look:
        """The card behind a nonce, settled or not, if this person may read all of it."""
        try:
            actor = await with_groups(self.core, actor)
            refusal = await self.desk.read(nonce, by=actor, place=place)
            card = None if refusal else await self._card(nonce)
        except DatabaseUnavailable as error:
            return Look(card=None, refusal=str(error))
        return Look(card=card, refusal=refusal or "")

    async def _standing(self, nonce: str, place: Place | None) -> Card | GroupCard | None:
        async with self.core.db.read() as tx:
            asked = await _rows(tx, nonce)
            return None if asked is None else await drawing.standing(tx, asked, place)

    async def _card(self, nonce: str) -> Card | None:
        async with self.core.db.read() as tx:
            asked = await _rows(tx, nonce)
            if asked is None:
                return None
            return await drawing.card(tx, asked.question, asked.call, asked.chat)


async def _rows(tx: Tx, nonce: str) -> Asked | None:
    """The question behind a nonce, with its call and chat."""
    row = await questions.by_nonce(tx, nonce)
    call = None if row is None or row.call_id is None else await calls.get(tx, row.call_id)
    chat = None if call is None else await chats.get(tx, call.chat_id)
    return None if row is None or call is None or chat is None else Asked(row, call, chat)


def _told(ruling: Ruling, card: Card | None) -> str:
    """What the one who decided is told: that it counts, or who was first."""
    if ruling.recorded:
        return ruling.recorded
    outcome = "" if card is None else card.outcome
    return outcome if ruling.first else f"This was settled before. {outcome}".strip()
