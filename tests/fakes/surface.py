"""A surface that keeps what it was given: the messages of a thread as people see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from bot.card import Card
from bot.surface import Content, DeliveryError, Pace, Place, Posted, Reply

_ids = count(1)


@dataclass
class Shown:
    place: Place
    content: Content
    nonce: str
    edits: int = 0


@dataclass
class MemorySurface:
    """`failures` are raised by the next deliveries, in turn; one that `maybe_sent` is shown all
    the same, as when only the answer was lost."""

    name: str = "slack"
    pace: Pace = field(default_factory=Pace)
    shown: dict[str, Shown] = field(default_factory=dict)
    whispers: list[tuple[str, str]] = field(default_factory=list)
    failures: list[DeliveryError] = field(default_factory=list)
    posts: int = 0
    homes: list[str] = field(default_factory=list)  # whose home was drawn anew, in turn

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        error = self.failures.pop(0) if self.failures else None
        if error is not None and not error.maybe_sent:
            raise error
        self.posts += 1
        message_id = f"m{next(_ids)}"  # unique in a channel, whatever process posts
        self.shown[message_id] = Shown(place, content, nonce)
        if error is not None:
            raise error
        return Posted(place, message_id)

    async def edit(self, place: Place, message_id: str, content: Content) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.shown[message_id].content = content
        self.shown[message_id].edits += 1

    async def find(self, place: Place, nonce: str) -> Posted | None:
        found = (key for key, one in self.shown.items() if one.nonce == nonce)
        return next((Posted(place, key) for key in found), None)

    async def whisper(self, place: Place, user: str, text: str) -> None:
        self.whispers.append((user, text))

    async def show_home(self, organisation: str, user: str) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.homes.append(user)

    def split(self, text: str) -> list[str]:
        return [text]

    def link(self, place: Place) -> str | None:
        return None

    def cards(self) -> list[Card]:
        return [one.content for one in self.shown.values() if isinstance(one.content, Card)]

    def replies(self) -> list[str]:
        return [one.content.text for one in self.shown.values() if isinstance(one.content, Reply)]
