"""The home pages that people have open, drawn anew by the outbox when something changed on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bot.core import Core, Job
from bot.question import new_nonce
from bot.surface import person_of
from storage import homes, outbox
from storage.database import Tx
from storage.place import Place

OPEN_SECONDS: Final = 86_400.0  # how long a page is kept up to date after it was opened


async def draw_anew(core: Core, tx: Tx, keys: Iterable[str]) -> None:
    """Has the pages of these people (`Actor.key`) drawn anew, if they are open."""
    users: dict[tuple[str, str], set[str]] = {}
    for person in filter(None, map(person_of, keys)):
        users.setdefault((person.surface, person.organisation), set()).add(person.user)
    since = core.now() - OPEN_SECONDS
    for (surface, organisation), names in sorted(users.items()):
        for user in await homes.open_since(tx, surface, organisation, names, since):
            place = Place(surface, organisation, user, "")
            if await outbox.home(tx, place, nonce=new_nonce(), now=core.now()):
                await core.wake(tx, Job.DELIVER, place.channel_key)
