"""A surface that keeps what it was given: the messages of a thread as people see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from bot.card import Card
from bot.group import GroupCard
from bot.surface import (
    Content,
    DeliveryError,
    Earlier,
    Pace,
    Place,
    Posted,
    Reply,
    Status,
    Together,
)

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
    the same, as when only the answer was lost. `directs`: people can be written to alone.

    `thread` is what stood in every thread before the agent was called, `files` what people
    attached, by the `id` of their reference; an error there is raised each time. What was read of
    both is in `looked_up`."""

    name: str = "slack"
    pace: Pace = field(default_factory=Pace)
    together: Together | None = None
    shown: dict[str, Shown] = field(default_factory=dict)
    whispers: list[tuple[str, str]] = field(default_factory=list)
    failures: list[DeliveryError] = field(default_factory=list)
    posts: int = 0
    directs: bool = False
    statuses: bool = False
    keeps_homes: bool = True
    takes_files: bool = True
    shows: list[tuple[Place, Status]] = field(default_factory=list)
    thread: Earlier | Exception = field(default_factory=lambda: Earlier(()))
    files: dict[str, bytes | Exception] = field(default_factory=dict)
    looked_up: list[str] = field(default_factory=list)
    groups_of: dict[str, frozenset[str]] = field(default_factory=dict)
    homes: list[str] = field(default_factory=list)  # whose home was drawn anew, in turn

    async def post(self, place: Place, content: Content, nonce: str) -> Posted:
        error = self.failures.pop(0) if self.failures else None
        if error is not None and not error.maybe_sent:
            raise error
        self.posts += 1
        message_id = f"m{next(_ids)}"  # unique in a channel, whatever process posts
        if self.directs and not place.root:
            place = replace(place, channel=f"D-{place.channel}", root=message_id)
        self.shown[message_id] = Shown(place, content, nonce)
        if error is not None:
            raise error
        return Posted(place, message_id)

    async def edit(self, place: Place, message_id: str, content: Content) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.shown[message_id].content = content
        self.shown[message_id].edits += 1

    async def find(self, place: Place, nonce: str, *, live: bool = False) -> Posted | None:
        found = ((key, one.place) for key, one in self.shown.items() if one.nonce == nonce)
        return next((Posted(there, key) for key, there in found), None)

    async def whisper(self, place: Place, user: str, text: str) -> None:
        self.whispers.append((user, text))

    async def status(self, place: Place, status: Status) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.shows.append((place, status))

    async def earlier(self, place: Place, before: str) -> Earlier:
        self.looked_up.append(f"before {before}")
        if isinstance(self.thread, Exception):
            raise self.thread
        return self.thread

    async def fetch(self, place: Place, reference: Mapping[str, Any], most: int) -> bytes:
        self.looked_up.append(reference["id"])
        found = self.files[reference["id"]]
        if isinstance(found, Exception):
            raise found
        if len(found) > most:
            raise DeliveryError(f"it is larger than {most} bytes", permanent=True)
        return found

    async def show_home(self, organisation: str, user: str) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.homes.append(user)

    async def members(self, organisation: str, group: str) -> frozenset[str]:
        if group not in self.groups_of:
            raise DeliveryError("no such group")
        return self.groups_of[group]

    def split(self, text: str) -> list[str]:
        return [text]

    def link(self, place: Place) -> str | None:
        return None

    def direct(self, organisation: str, user: str) -> Place | None:
        return Place(self.name, organisation, user, "") if self.directs else None

    def cards(self) -> list[Card]:
        return [one.content for one in self.shown.values() if isinstance(one.content, Card)]

    def groups(self) -> list[GroupCard]:
        return [one.content for one in self.shown.values() if isinstance(one.content, GroupCard)]

    def replies(self) -> list[str]:
        return [one.content.text for one in self.shown.values() if isinstance(one.content, Reply)]
