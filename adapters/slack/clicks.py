"""Buttons and modals: what a person did, handed to the product within the time Slack gives.

Slack never repeats a click, so every one gets a visible answer. A decision is durable before the
acknowledgement if that takes at most two seconds; else it is finished afterwards and the person is
told what came of it. A modal is opened before anything slow, because a trigger lives three seconds.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, Final, TypeVar

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from adapters.slack import actions, apology, blocks, edits, limits, modals, pages, standing
from adapters.slack.delivery import Delivery
from adapters.slack.events import SURFACE, Click, Submission, page
from adapters.slack.homes import Homes
from adapters.slack.log import quiet
from adapters.slack.outcome import BROKEN, NO_ANSWER, Outcome, told
from adapters.slack.people import People, Unknown
from adapters.slack.refusal import FAILURES, code_of, pointers_of
from adapters.slack.text import escape
from bot.background import Background
from bot.card import Card
from bot.remember import THREAD, Remember
from bot.surface import (
    Actor,
    Decision,
    DeliveryError,
    Entry,
    Form,
    GroupDecision,
    Place,
    Verb,
)
from bot.text import visible
from storage.database import DatabaseUnavailable

log = logging.getLogger(__name__)

_OPEN_SECONDS: Final = 2.0
_UNKNOWN: Final = "Slack did not say who you are just now, so nothing was done: please try again."
_UNDECIDED: Final = "The database is not answering, so nothing was decided: please try again."
_RECORDED: Final = "It is recorded."

Draw = Callable[[Card], modals.View]
_Found = TypeVar("_Found", Card, Form)


class Clicks:
    """Everything people press and send in an organisation. What is pressed in no message is held to
    that, so that no nonce of another organisation's question works here."""

    def __init__(
        self,
        entry: Entry,
        client: AsyncWebClient,
        delivery: Delivery,
        people: People,
        background: Background,
        homes: Homes,
        organisation: str,
    ) -> None:
        self._entry = entry
        self._client = client
        self._delivery = delivery
        self._people = people
        self._background = background
        self._homes = homes
        self._anywhere = Place(SURFACE, organisation, "", "")

    async def press(self, click: Click) -> None:
        """Does what the button says; returns when the click can be acknowledged."""
        match click.action:
            case blocks.APPROVE:
                await self._decide(click, Verb.APPROVE)
            case blocks.REMEMBER:
                await self._decide(click, Verb.APPROVE, remember=THREAD)
            case actions.CHOOSE:
                await self._opened(click, self._form(click), standing.remembering)
            case actions.NEW_RULE:
                await self._opened(click, self._form(click), standing.making)
            case actions.REVOKE:
                await self._answered(click, lambda actor: self._revoked(click, actor))
            case blocks.DECLINE:
                await self._decide(click, Verb.DECLINE)
            case blocks.FINISHED:
                await self._decide(click, Verb.ANSWER)
            case blocks.ANSWER:
                await self._open(click, Verb.ANSWER, modals.form)
            case blocks.NOTE:
                await self._open(click, Verb.DECLINE, modals.note)
            case blocks.EDIT:
                await self._opened(click, self._form(click), edits.opened)
            case blocks.LINK:
                await self._open(click, Verb.ANSWER, modals.link)
            case blocks.CANCEL:
                await self._answered(click, lambda actor: self._cancelled(click, actor))
            case blocks.SHOW:
                await self._open(click, None, pages.page)
            case action if action.startswith(blocks.LEAF):
                self._background.start(self._turn(click))
            case actions.APPROVE_SELECTED:
                await self._decide_together(click, Verb.APPROVE, only=click.selected)
            case actions.DECLINE_SELECTED:
                await self._decide_together(click, Verb.DECLINE, only=click.selected)
            case actions.APPROVE_ALL:
                await self._decide_together(click, Verb.APPROVE)
            case actions.DECLINE_ALL:
                await self._decide_together(click, Verb.DECLINE)
            case actions.AGAIN:
                await self._answered(click, lambda actor: self._asked_again(click, actor))
            case actions.SELECT:
                pass  # it counts once a button is pressed
            case blocks.VISIT:
                pass  # the browser opened the page; nothing is recorded
            case action if action.startswith(blocks.HOME):
                self._homes.open(click.person, page(click.nonce))
            case action if action.startswith(blocks.PICK):
                await self._decide(click, Verb.ANSWER, pick=action.removeprefix(blocks.PICK))
            case _:
                log.warning("A click on a button that is none of ours was ignored.")

    async def send(self, submission: Submission) -> dict[str, Any]:
        """Takes a modal; returns what Slack is answered."""
        if submission.callback not in {modals.FORM, modals.NOTE, edits.EDIT, *standing.CALLBACKS}:
            log.warning("A modal that is none of ours was ignored.")
            return {}
        deciding = self._background.start(self._submitted(submission))
        done, _ = await asyncio.wait({deciding}, timeout=limits.ACK_SECONDS)
        if not done:
            # On top of the form, so that what was typed is still there if it is refused.
            view = {**modals.loading(), "external_id": secrets.token_urlsafe(16)}
            self._background.start(self._show_later(view["external_id"], deciding))
            return {"response_action": "push", "view": {**view, "clear_on_close": False}}
        outcome = deciding.result()
        if outcome.view is not None:
            return {"response_action": "push", "view": outcome.view}
        if outcome.errors:
            return {"response_action": "errors", "errors": outcome.errors}
        if outcome.sentence:
            return {"response_action": "update", "view": modals.saying(outcome.sentence)}
        return {"response_action": "clear"} if outcome.over else {}

    # Decisions

    async def _decide(
        self, click: Click, verb: Verb, *, remember: Remember | None = None, pick: str | None = None
    ) -> None:
        async def decided(actor: Actor) -> Outcome:
            response: Any = None
            refused = ""
            if pick is not None:
                look = await self._entry.look(
                    click.nonce, verb, actor, place=click.place or self._anywhere
                )
                if look.card is None:
                    refused, response = look.refusal or BROKEN, NO_ANSWER
                else:
                    response = _picked(look.card, pick)
            decision = Decision(
                nonce=click.nonce,
                verb=verb,
                actor=actor,
                via="slack modal" if click.view else "slack button",
                place=click.place or self._anywhere,
                response=response,
                remember=remember,
                lenient=response is not NO_ANSWER,
            )
            answer = await self._entry.decide(decision)
            return Outcome(refused) if refused else told(answer)

        await self._answered(click, decided)

    async def _decide_together(
        self, click: Click, verb: Verb, *, only: tuple[str, ...] | None = None
    ) -> None:
        async def decided(actor: Actor) -> Outcome:
            decision = GroupDecision(
                nonce=click.nonce,
                verb=verb,
                actor=actor,
                via="slack button",
                only=only,
                place=click.place or self._anywhere,
            )
            return told(await self._entry.decide_together(decision))

        await self._answered(click, decided)

    async def _cancelled(self, click: Click, actor: Actor) -> Outcome:
        answer = await self._entry.cancel_task(
            click.nonce, actor, via="slack button", place=click.place or self._anywhere
        )
        return Outcome(answer.sentence)

    async def _asked_again(self, click: Click, actor: Actor) -> Outcome:
        return told(
            await self._entry.ask_again(
                click.nonce, actor, via="slack button", place=click.place or self._anywhere
            )
        )

    async def _revoked(self, click: Click, actor: Actor) -> Outcome:
        answer = await self._entry.revoke_rule(
            click.nonce, actor, self._anywhere.organisation, via="slack button"
        )
        return Outcome(answer.sentence)

    async def _answered(self, click: Click, decided: Callable[[Actor], Awaitable[Outcome]]) -> None:
        """Returns when the click can be acknowledged; what came of it is told when it is known."""

        async def tell() -> None:
            outcome = await deciding
            unseen = outcome.done or _RECORDED if click.view else ""
            sentence = outcome.sentence or unseen or (_RECORDED if late else "")
            if sentence or click.home is not None:  # a home page shows what came of it
                await self._tell(click, sentence)

        late = False
        deciding = self._background.start(self._guarded(click.person, decided))
        self._background.start(tell())
        done, _ = await asyncio.wait({deciding}, timeout=limits.ACK_SECONDS)
        late = not done

    async def _submitted(self, submission: Submission) -> Outcome:
        async def decided(actor: Actor) -> Outcome:
            if submission.callback in standing.CALLBACKS:
                return await standing.sent(self._entry, submission, actor, self._anywhere)
            if submission.callback == edits.EDIT:
                return await edits.sent(self._entry, submission, actor, self._anywhere)
            verb = Verb.DECLINE if submission.callback == modals.NOTE else Verb.ANSWER
            card: Card | None = None
            refused = ""
            if verb is Verb.DECLINE:
                response: Any = modals.read_note(submission.values)
            else:
                look = await self._entry.look(submission.nonce, verb, actor, place=self._anywhere)
                card = look.card
                if card is None:
                    refused, response = look.refusal or BROKEN, NO_ANSWER
                else:
                    response = modals.read_state(card, submission.values)
            decision = Decision(
                nonce=submission.nonce,
                verb=verb,
                actor=actor,
                via="slack modal",
                place=self._anywhere,
                response=response,
                lenient=response is not NO_ANSWER,
            )
            answer = await self._entry.decide(decision)
            if refused:
                return Outcome(refused)
            if answer.errors and not answer.done and card is not None:
                return Outcome(errors=modals.errors_for(card, answer.errors))
            return told(answer)

        outcome = await self._guarded(submission.person, decided)
        kept = not outcome.final and submission.callback not in standing.SAVES
        if outcome.sentence and kept:  # the form stays, with what was typed
            placed = modals.error_everywhere(submission.callback, outcome.sentence)
            return Outcome(errors=placed)
        return outcome

    async def _guarded(
        self, person: Any, decided: Callable[[Actor], Awaitable[Outcome]]
    ) -> Outcome:
        """The outcome, whatever happens: nobody who clicked is left without an answer."""
        try:
            outcome = await decided(await self._people.actor(person))
        except Unknown as unknown:
            log.warning("A click was refused: %s", unknown)
            return Outcome(_UNKNOWN)
        except DatabaseUnavailable:
            log.warning("A click could not be recorded: the database is not answering.")
            return Outcome(_UNDECIDED)
        except modals.NotOurs as wrong:
            log.warning("A form was refused: %s", wrong)
            return Outcome(str(wrong))
        except Exception:
            log.exception("A click failed.")
            return Outcome(BROKEN)
        return outcome

    # Modals

    async def _open(self, click: Click, verb: Verb | None, draw: Draw) -> None:
        """Opens the modal for a verb, or (none) for who may read the card."""
        await self._opened(click, self._look(click, verb), draw)

    async def _opened(
        self,
        click: Click,
        look: Coroutine[Any, Any, _Found | str],
        draw: Callable[[_Found], modals.View],
    ) -> None:
        """Opens a modal for what is looked up; in the place of the one that was pressed in."""
        looking = self._background.start(look)
        if click.view:
            self._background.start(self._fill(click.view, looking, draw))
            return
        if click.home is not None:  # whoever looks at it has it drawn anew when the form is sent
            self._homes.open(click.person, click.home)
        if self._people.knows(click.person):  # else Slack is asked, and the modal goes first
            await asyncio.wait({looking}, timeout=limits.LOOK_SECONDS)
        if looking.done():
            found = looking.result()
            if isinstance(found, str):
                self._background.start(self._tell(click, found))
            else:
                await self._show(click, draw(found))
        elif view_id := await self._show(click, modals.loading()):
            self._background.start(self._fill(view_id, looking, draw))

    async def _form(self, click: Click) -> Form | str:
        """The form that a button opens, or why this person does not get it."""

        async def asked(actor: Actor) -> Form | str:
            place = click.place or self._anywhere
            match click.action:
                case actions.NEW_RULE:
                    form = await self._entry.rule_form(actor, place.organisation)
                case blocks.EDIT:
                    form = await self._entry.editing(click.nonce, actor, place=place)
                case _:
                    form = await self._entry.remembering(click.nonce, actor, place=place)
            return form if form.fields else form.refusal

        return await self._sought(click, asked)

    async def _look(self, click: Click, verb: Verb | None, nonce: str = "") -> Card | str:
        """The card, or why the person may not see it."""
        nonce = nonce or click.nonce

        async def looked(actor: Actor) -> Card | str:
            look = await (
                self._entry.read(nonce, actor, place=click.place or self._anywhere)
                if verb is None
                else self._entry.look(nonce, verb, actor, place=click.place or self._anywhere)
            )
            return look.refusal if look.card is None else look.card

        return await self._sought(click, looked)

    async def _sought(
        self, click: Click, ask: Callable[[Actor], Awaitable[_Found | str]]
    ) -> _Found | str:
        """What the product gives the person who clicked, or why it does not."""
        found: list[_Found] = []

        async def asked(actor: Actor) -> Outcome:
            answer = await ask(actor)
            if isinstance(answer, str):
                return Outcome(answer or BROKEN)
            found.append(answer)
            return Outcome()

        outcome = await self._guarded(click.person, asked)
        return found[0] if found else outcome.sentence

    async def _show(self, click: Click, view: modals.View) -> str:
        """Opens a modal; its id, or none when the person was told that it did not open."""
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                opened = await self._client.views_open(trigger_id=click.trigger, view=view)
            return str(opened["view"]["id"])
        except FAILURES as error:
            log.warning("A modal did not open: %s", _named(error))
            self._background.start(
                self._tell(click, "Slack did not open the form in time: please click again.")
            )
            return ""

    async def _fill(
        self,
        view_id: str,
        looking: Awaitable[_Found | str],
        draw: Callable[[_Found], modals.View],
    ) -> None:
        found = await looking
        await self._update(
            view_id, lambda: modals.saying(found) if isinstance(found, str) else draw(found)
        )

    async def _update(self, view_id: str, drawn: Callable[[], modals.View]) -> None:
        await apology.fill(self._client, view_id, drawn)

    async def _turn(self, click: Click) -> None:
        """Shows another page of a card in its modal."""
        number = pages.number_of(click.nonce)
        looking = self._look(click, None, click.about)
        await self._fill(click.view, looking, lambda card: pages.page(card, number))

    async def _show_later(self, external_id: str, deciding: asyncio.Task[Outcome]) -> None:
        """Shows what came of a form that took longer than Slack waits."""
        outcome = await deciding
        told = outcome.sentence or " ".join(outcome.errors.values()) or _RECORDED
        if outcome.errors:
            told += "\nClose this to go back to your form."
        view = outcome.view or modals.saying(told, last=not outcome.errors)
        view = {**view, "external_id": external_id}
        for pause in (0.2, 1.0, 3.0):  # Slack may not have put the view up yet
            try:
                await self._client.views_update(external_id=external_id, view=view)
                return
            except FAILURES as error:
                log.warning("A modal was not updated: %s", _named(error))
            await asyncio.sleep(pause)

    # Telling

    async def _tell(self, click: Click, sentence: str) -> None:
        """Tells the person alone: in the modal where they clicked, else by an ephemeral, or by the
        click's own address where that does not go."""
        if click.home is not None:
            self._homes.open(click.person, click.home, notice=sentence)
            return
        if click.view:
            await self._update(click.view, lambda: modals.saying(sentence))
            return
        try:
            if click.place is not None:
                # In a thread that nobody has begun an ephemeral would not be seen.
                place = replace(click.place, root="") if click.at_root else click.place
                await self._delivery.whisper(place, click.person.user, sentence)
                return
        except DeliveryError as error:
            log.warning("An ephemeral did not go out: %s", error)
        if not click.response_url:
            return
        webhook = AsyncWebhookClient(
            click.response_url,
            session=self._client.session,
            logger=quiet("slack_sdk"),
            retry_handlers=[],
        )
        try:
            answer = await webhook.send(
                text=escape(visible(sentence)), response_type="ephemeral", replace_original=False
            )
        except FAILURES as error:
            log.warning("A person could not be told: %s", _named(error))
        else:
            if answer.status_code != 200:
                log.warning("A person could not be told: status %s", answer.status_code)


def _picked(card: Card, index: str) -> Any:
    quick = card.quick
    if quick is None or not index.isascii() or not index.isdigit() or len(index) > 2:
        raise modals.NotOurs("This button does not belong to the question.")
    if int(index) >= len(quick.choices):
        raise modals.NotOurs("This button does not belong to the question.")
    value = quick.choices[int(index)].value
    return {quick.name: {"selected": [value]} if quick.allow_other else value}


def _named(error: Exception) -> str:
    if not isinstance(error, SlackApiError):
        return type(error).__name__
    return "; ".join([code_of(error), *pointers_of(error)])[:500]
