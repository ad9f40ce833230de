"""Posting, editing and whispering. Every method raises DeliveryError.

Teams tells a bot nothing of what stands in a conversation, so that a post whose answer was lost is
not found again. It is sent once more, saying so: two copies of a card count as one, and none would
leave a call waiting for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from adapters.teams import cards, limits
from adapters.teams.connector import Connector
from adapters.teams.elements import TYPE
from adapters.teams.events import PERSONAL, SURFACE, WHOLE, is_person, thread_of
from adapters.teams.people import Member, People, Unknown
from adapters.teams.stream import Streams
from adapters.teams.text import message, utf16, whole
from bot.card import Card
from bot.clock import Clock
from bot.group import GroupCard
from bot.surface import Content, DeliveryError, File, Place, Posted, Reply
from storage.conversations import Conversation, Conversations
from storage.database import DatabaseUnavailable

log = logging.getLogger(__name__)

_MOST: Final = 5_000
_FILES: Final = "Teams: files cannot be sent yet"


class Delivery:
    """Speaks to Teams for the outbox."""

    def __init__(
        self, connector: Connector, conversations: Conversations, people: People, clock: Clock
    ) -> None:
        self._connector = connector
        self._conversations = conversations
        self._people = people
        self._clock = clock
        self._unsure: set[str] = set()  # nonces of which a copy may be there
        self._lost: set[str] = set()  # and of which two may
        self._edited_at: dict[tuple[Place, str], float] = {}
        self._streams = Streams(connector, clock)

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        if isinstance(content, File):
            raise DeliveryError(_FILES, permanent=True)
        conversation, place = await self._where(place)
        shown = await self._shown(content, place, conversation, nonce in self._unsure)
        try:
            if isinstance(content, Reply) and self._may_stream(content, place, conversation, nonce):
                id_ = await self._streams.begin(conversation, place, content.text)
                if id_ is not None:
                    return Posted(place, id_)
            posted = await self._post(conversation, place, shown)
        except DeliveryError as error:
            if error.maybe_sent and nonce in self._unsure:
                self._lost.add(nonce)
            raise
        self._unsure.discard(nonce)
        return posted

    async def _post(
        self, conversation: Conversation, place: Place, shown: Mapping[str, Any]
    ) -> Posted:
        if place.root:
            message = await self._connector.post(conversation.address, thread_of(place), shown)
        else:
            place, message = await self._new_thread(conversation, place, shown)
        if not message:
            raise DeliveryError("Teams post: no id", permanent=True)
        return Posted(place, message)

    async def _new_thread(
        self, conversation: Conversation, place: Place, shown: Mapping[str, Any]
    ) -> tuple[Place, str]:
        """Begins a thread in a channel: what is posted is its root."""
        thread, message = await self._connector.open(
            conversation.address,
            {
                "isGroup": True,
                "bot": {"id": conversation.bot},
                "tenantId": place.organisation,
                "channelData": {
                    "channel": {"id": place.channel},
                    "tenant": {"id": place.organisation},
                },
                "activity": shown,
            },
        )
        message = message or thread.partition(";messageid=")[2]
        return replace(place, root=message), message

    def _may_stream(
        self, reply: Reply, place: Place, conversation: Conversation, nonce: str
    ) -> bool:
        alone = conversation.kind == PERSONAL and bool(place.root)
        return reply.live and alone and nonce not in self._unsure

    async def edit(self, place: Place, message_id: str, content: Content) -> None:
        conversation, place = await self._where(place)
        if isinstance(content, Reply) and not self._may_edit(place, message_id, content.live):
            return
        if isinstance(content, Reply) and self._streams.runs(place, message_id):
            if content.live:
                await self._streams.go_on(conversation, place, content.text)
                return
            await self._streams.end(conversation, place, content.text)
        shown = await self._shown(content, place, conversation, False)
        try:
            await self._connector.edit(conversation.address, thread_of(place), message_id, shown)
        except DeliveryError as error:
            alone = conversation.kind == PERSONAL and error.permanent
            if not (alone and isinstance(content, Reply)):
                raise
            # A stream of which no message came, because nobody was there to end it in time.
            log.warning("Teams: a reply is posted once it is whole: %s", error)
            if not content.live:
                await self._connector.post(conversation.address, thread_of(place), shown)

    def _may_edit(self, place: Place, message_id: str, live: bool) -> bool:
        """Whether a text that grows is shown now: its end is, always."""
        key, now = (place, message_id), self._clock.now()
        if not live:
            self._edited_at.pop(key, None)
            return True
        if now - self._edited_at.get(key, 0.0) < limits.LIVE_SECONDS:
            return False
        if len(self._edited_at) >= _MOST:
            self._edited_at.clear()
        self._edited_at[key] = now
        return True

    async def find(self, place: Place, nonce: str) -> None:
        """Nothing can be looked for. A post that may be there twice is given up."""
        if nonce in self._lost:
            self._lost.discard(nonce)
            raise DeliveryError("Teams did not confirm it, twice", permanent=True)
        if len(self._unsure) >= _MOST:
            self._unsure.clear()
        self._unsure.add(nonce)

    async def whisper(
        self,
        place: Place,
        user: str,
        text: str,
        *,
        markdown: bool = False,
        card: Mapping[str, Any] | None = None,
    ) -> None:
        """Tells one person, by a text, a card that was drawn or both: by a message that only they
        see, else in their chat with the bot."""
        conversation, place = await self._where(place)
        told: dict[str, Any] = {"type": "message"}
        if text and markdown:
            told = message(text)
        elif text:
            told |= {"textFormat": "plain", "text": whole(text, limits.NOTE)}
        if card is not None:
            told["attachments"] = [{"contentType": TYPE, "content": card}]
        if conversation.kind != PERSONAL:
            try:
                member = await self._people.member(user, conversation)
                if member is not None:
                    shown = told | {"recipient": {"id": member.id}}
                    await self._connector.whisper(conversation.address, thread_of(place), shown)
                    return
            except (DeliveryError, Unknown) as error:
                if isinstance(error, DeliveryError) and (error.maybe_sent or error.retry_after):
                    raise
                log.warning("Teams: a message for one person goes to their chat: %s", error)
            conversation, place = await self._where(Place(SURFACE, place.organisation, user, ""))
        await self._connector.post(conversation.address, thread_of(place), told)

    async def typing(self, place: Place) -> None:
        conversation, place = await self._where(place)
        await self._connector.typing(conversation.address, thread_of(place), conversation.bot)

    async def conversation(self, place: Place) -> Conversation:
        """What is known of the conversation of a place."""
        try:
            found = await self._conversations.find(place.organisation, place.channel)
        except DatabaseUnavailable:
            raise DeliveryError("The database does not say where Teams is called.") from None
        if found is None:
            raise DeliveryError(
                "Teams: the bot was in no such conversation",
                unreachable="the bot is not in this conversation: add its app to it",
            )
        return found

    async def _names_there(self, thread: Place, keys: Iterable[str]) -> dict[str, Member]:
        """People as the conversation of another thread knows them, for show."""
        try:
            return await self._people.mentioned(keys, await self.conversation(thread))
        except DeliveryError:  # the thread is another surface's
            return {}

    async def _where(self, place: Place) -> tuple[Conversation, Place]:
        """The conversation of a place, and the place; of a person, their chat with the bot."""
        if not is_person(place):
            return await self.conversation(place), place
        try:
            known = await self._conversations.newest(place.organisation)
            if known is None:
                raise DeliveryError("Teams: nothing was heard of this tenant yet", permanent=True)
            channel, _ = await self._connector.open(
                known.address,
                {
                    "isGroup": False,
                    "bot": {"id": known.bot},
                    "members": [{"id": place.channel}],
                    "tenantId": place.organisation,
                    "channelData": {"tenant": {"id": place.organisation}},
                },
            )
            if not channel:
                raise DeliveryError("Teams open: no id", permanent=True)
            chat = replace(known, channel=channel, kind=PERSONAL)
            await self._conversations.note(chat, self._clock.now())
        except DatabaseUnavailable:
            raise DeliveryError("The database does not say where Teams is called.") from None
        return chat, replace(place, channel=channel, root=WHOLE)

    async def _shown(
        self, content: Content, place: Place, conversation: Conversation, repeated: bool
    ) -> dict[str, Any]:
        names: dict[str, Member] = {}
        if isinstance(content, Card | GroupCard) and content.open:
            names = await self._people.mentioned(content.deciders, conversation)
            if isinstance(content, Card) and content.thread is not None and content.thread != place:
                names |= await self._names_there(content.thread, content.askers)
        elif isinstance(content, Reply):
            names = await self._people.mentioned(content.mentions, conversation)
        shown = await asyncio.to_thread(cards.activity, content, place, names, repeated=repeated)
        if utf16(str(shown.get("text", ""))) > 4 * limits.TEXT_BYTES:
            raise DeliveryError("Teams: the text is too long for a message", permanent=True)
        return shown
