"""What a person is told when our own code failed on what they did.

Slack repeats no click, command or form and shows next to nothing of a 500, so that each of them is
acknowledged whatever happens, and the sentence goes out by an address that the payload carries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from adapters.slack import modals
from adapters.slack.log import quiet
from adapters.slack.refusal import FAILURES, code_of

log = logging.getLogger(__name__)

SENTENCE: Final = "Something went wrong here: please try again."

Body = Mapping[str, Any]


def acknowledgement(body: Body) -> dict[str, Any]:
    """What Slack is answered at once: for a command and a form that is the sentence itself; what
    was typed into the form stays."""
    if "command" in body:
        return private()
    if body.get("type") != "view_submission":
        return {}
    inputs = [one for one in _mapping(body, "view").get("blocks") or () if isinstance(one, Mapping)]
    for block in inputs:
        if block.get("type") == "input" and isinstance(block.get("block_id"), str):
            return {"response_action": "errors", "errors": {block["block_id"]: SENTENCE}}
    return {"response_action": "update", "view": modals.saying(SENTENCE)}


async def tell(client: AsyncWebClient, body: Body) -> None:
    """Tells the person what `acknowledgement` could not. Never raises."""
    try:
        if "command" in body or body.get("type") == "view_submission":
            return
        if isinstance(url := body.get("response_url"), str) and url:
            await _respond(client, url)
            return
        trigger, view = body.get("trigger_id"), modals.saying(SENTENCE, last=False)
        if _mapping(body, "view").get("type") == "modal":  # on top, so that what was typed stays
            await client.views_push(trigger_id=trigger, view=view)
        elif trigger:
            await client.views_open(trigger_id=trigger, view=view)
    except FAILURES as error:
        log.warning("A person could not be told that something failed: %s", named(error))
    except Exception:
        log.exception("A person could not be told that something failed.")


async def fill(client: AsyncWebClient, view_id: str, draw: Callable[[], modals.View]) -> None:
    """Fills a modal that was opened empty: with the sentence where its view cannot be drawn or
    Slack refuses it, so that nobody looks at a modal that waits for ever. Never raises."""
    try:
        view = draw()
    except Exception:
        log.exception("A modal could not be drawn.")
        view = modals.saying(SENTENCE)
    for shown in (view, modals.saying(SENTENCE)):
        try:
            await client.views_update(view_id=view_id, view=shown)
            return
        except FAILURES as error:  # closed in the meantime, or Slack is not there
            log.warning("A modal was not filled: %s", named(error))
            if not isinstance(error, SlackApiError) or code_of(error) == "not_found":
                return


def private() -> dict[str, Any]:
    """The sentence as the answer to a command."""
    return {"response_type": "ephemeral", "text": SENTENCE}


def named(error: Exception) -> str:
    """What a log line says of a failed call."""
    return code_of(error) if isinstance(error, SlackApiError) else type(error).__name__


async def _respond(client: AsyncWebClient, url: str) -> None:
    webhook = AsyncWebhookClient(
        url, session=client.session, logger=quiet("slack_sdk"), retry_handlers=[]
    )
    answer = await webhook.send_dict({**private(), "replace_original": False})
    if answer.status_code != 200:
        log.warning("A person could not be told that something failed: %s", answer.status_code)


def _mapping(body: Body, key: str) -> Mapping[str, Any]:
    value = body.get(key)
    return value if isinstance(value, Mapping) else {}
