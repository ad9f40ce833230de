"""Commands as Slack gives them: typed after a slash, said to the bot, or picked as a shortcut.

Every answer is for the person alone. Slack takes no slash command inside a thread and says of none
where it was typed (row B95), so that `@bot status` and the message shortcut do the same there."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any, Final

from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from adapters.slack import apology, blocks, limits, modals
from adapters.slack.events import Heard, Person, Shortcut, Turned, Typed
from adapters.slack.log import quiet
from adapters.slack.people import People, Unknown
from adapters.slack.refusal import FAILURES
from adapters.slack.text import plain
from bot.background import Background
from bot.surface import Command, Entry, Listing, Place, Reply

log = logging.getLogger(__name__)

COMMAND: Final = "/interlock"
STATUS: Final = blocks.ACTION + "status"  # a message shortcut
PENDING: Final = blocks.ACTION + "pending"  # a global one
TURN: Final = blocks.ACTION + "page."  # and which button; its value is the number of the page

_UNKNOWN: Final = "Slack did not say who you are just now: please try again."


class Commands:
    """Everything people ask with a command. `organisation` is the workspace that installed us."""

    def __init__(
        self,
        entry: Entry,
        client: AsyncWebClient,
        people: People,
        background: Background,
        organisation: str,
    ) -> None:
        self._entry = entry
        self._client = client
        self._people = people
        self._background = background
        self._organisation = organisation

    async def slash(self, typed: Typed) -> dict[str, Any]:
        """What the command is acknowledged with: its answer, or nothing when the answer follows."""
        answering = self._background.start(
            self._answer(typed.person, typed.place, typed.name, typed.argument)
        )
        done, _ = await asyncio.wait({answering}, timeout=limits.ACK_SECONDS)
        if done:
            return _private(answering.result())
        self._background.start(self._respond(typed.response_url, answering))
        return {}

    def mention(self, heard: Heard, name: str, argument: str) -> None:
        """Answers what was said to the bot; at once to be acknowledged."""
        self._background.start(self._whispered(heard, name, argument))

    def shortcut(self, used: Shortcut) -> None:
        """Answers a shortcut; at once to be acknowledged."""
        if used.callback == STATUS and used.place is not None:
            answering = self._background.start(self._answer(used.person, used.place, "status"))
            thread = used.place.root if used.in_thread else ""
            self._background.start(self._respond(used.response_url, answering, thread))
        elif used.callback == PENDING and used.place is None:
            self._background.start(self._opened(used))
        else:
            log.warning("A shortcut that is none of ours was ignored.")

    def turn(self, turned: Turned) -> None:
        """Shows another page in the modal; at once to be acknowledged."""
        self._background.start(self._filled(turned.view, turned.person, turned.page))

    async def _answer(
        self,
        person: Person,
        place: Place,
        name: str,
        argument: str = "",
        keys: tuple[str, ...] = (),
    ) -> str:
        """The answer, whatever happens: nobody who asked is left without one."""
        try:
            actor = await self._people.actor(person)
            command = Command(name=name, argument=argument, actor=actor, place=place, keys=keys)
            return await self._entry.command(command)
        except Unknown as unknown:
            log.warning("A command was refused: %s", unknown)
            return _UNKNOWN
        except Exception:
            log.exception("A command failed.")
            return apology.SENTENCE

    async def _whispered(self, heard: Heard, name: str, argument: str) -> None:
        place = replace(heard.place, root="") if heard.at_root else heard.place
        answer = await self._answer(heard.person, place, name, argument, heard.keys)
        if not answer:
            return
        try:
            await self._client.chat_postEphemeral(
                channel=place.channel,
                thread_ts=place.root or None,  # a thread that only begins shows no ephemeral
                user=heard.person.user,
                **_drawn(answer, self._organisation),
            )
        except FAILURES as error:
            log.warning("An answer to a command did not go out: %s", apology.named(error))

    async def _respond(self, url: str, answering: asyncio.Task[str], thread: str = "") -> None:
        webhook = AsyncWebhookClient(
            url, session=self._client.session, logger=quiet("slack_sdk"), retry_handlers=[]
        )
        body = _private(await answering)
        try:
            answer = await webhook.send_dict(body | ({"thread_ts": thread} if thread else {}))
        except FAILURES as error:
            log.warning("An answer to a command did not go out: %s", apology.named(error))
        else:
            if answer.status_code != 200:
                log.warning("An answer to a command was refused: status %s", answer.status_code)

    async def _opened(self, used: Shortcut) -> None:
        try:
            opened = await self._client.views_open(trigger_id=used.trigger, view=modals.loading())
        except FAILURES as error:
            log.warning("A list did not open: %s", apology.named(error))
            return
        await self._filled(str(opened["view"]["id"]), used.person, 1)

    async def _filled(self, view: str, person: Person, page: int) -> None:
        try:
            actor = await self._people.actor(person)
            listing = await self._entry.inbox(actor, self._organisation, page)
        except Unknown as unknown:
            log.warning("A list was refused: %s", unknown)
            listing = Listing(_UNKNOWN)
        except Exception:
            log.exception("A list failed.")
            listing = Listing(apology.SENTENCE)
        await apology.fill(self._client, view, lambda: _modal(listing))


def _private(answer: str) -> dict[str, Any]:
    return {"response_type": "ephemeral", **_drawn(answer, "")}


def _drawn(answer: str, organisation: str) -> dict[str, Any]:
    """The answer, or the sentence that it could not be drawn."""
    try:
        return blocks.message(Reply(answer), organisation)
    except Exception:
        log.exception("An answer to a command could not be drawn.")
        return {"text": apology.SENTENCE}


def _modal(listing: Listing) -> modals.View:
    """The page, with buttons to the ones beside it."""
    turns = [("previous", "Earlier", listing.page - 1), ("next", "More", listing.page + 1)]
    buttons = [
        {"type": "button", "action_id": TURN + name, "text": plain(label), "value": str(page)}
        for name, label, page in turns
        if 1 <= page <= listing.pages
    ]
    shown = blocks.message(Reply(listing.text), "")["blocks"]
    return {
        "type": "modal",
        "callback_id": modals.SAYING,
        "title": plain("My open questions"),
        "close": plain("Close"),
        "blocks": [*shown, *([{"type": "actions", "elements": buttons}] if buttons else [])],
    }
