"""The chat.* methods (posting, editing, ephemerals, links) and the response URLs."""

import json
import re
from typing import Any

from tests.fakes.slack.args import Args
from tests.fakes.slack.blocks import message_error
from tests.fakes.slack.limits import limit
from tests.fakes.slack.pings import pings_in
from tests.fakes.slack.workspace import (
    APP,
    BOT_ID,
    BOT_USER,
    RESPONSE_URL_SECONDS,
    RESPONSE_URL_USES,
    Channel,
    Ephemeral,
    Json,
    SlackError,
    Workspace,
)


def _content(args: Args) -> Json:
    """The parts of a message that can be shown, refused the way Slack refuses them."""
    text = args.text("text")
    blocks = args.data("blocks", "invalid_blocks_format")
    attachments = args.data("attachments", "invalid_attachments")
    markdown = args.text("markdown_text")
    if markdown and (text or blocks):
        raise SlackError("markdown_text_conflict")
    if len(markdown) > limit("markdown.text.max_length"):
        raise SlackError("msg_too_long")
    if not (text or blocks or attachments or markdown):
        raise SlackError("no_text")
    refuse_bad_content(text, blocks, attachments)
    parts = {"blocks": blocks, "attachments": attachments, "markdown_text": markdown}
    return {"text": text or markdown, **{k: v for k, v in parts.items() if v}}


def refuse_bad_content(text: str, blocks: Any, attachments: Any) -> None:
    """Raise what Slack answers for content that is too long or not well formed."""
    refused = message_error(text, blocks, attachments)
    if refused:
        code, problems = refused
        messages = [str(problem) for problem in problems]
        raise SlackError(code, errors=messages, response_metadata={"messages": messages})


def _metadata(args: Args) -> Json:
    metadata = args.data("metadata", "invalid_metadata_format")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict) or set(metadata) - {
        "event_type",
        "event_payload",
        "entities",
    }:
        raise SlackError("invalid_metadata_format")
    if not isinstance(metadata.get("event_type"), str) or not isinstance(
        metadata.get("event_payload"), dict
    ):
        raise SlackError("invalid_metadata_schema")
    if len(json.dumps(metadata)) > 8192:
        raise SlackError("metadata_too_large")
    return {"metadata": metadata}


def _writable(world: Workspace, channel_id: str) -> Channel:
    """A conversation the bot may post in. A person's id means their direct messages."""
    if channel_id in world.users and channel_id != BOT_USER:
        if world.users[channel_id].deleted or world.users[channel_id].bot:
            raise SlackError("channel_not_found")
        channel = world.direct_channel(channel_id)
    else:
        channel = world.visible_channel(channel_id)
    if BOT_USER not in channel.members and "chat:write.public" not in world.scopes:
        raise SlackError("not_in_channel")
    if channel.archived:
        raise SlackError("is_archived")
    if channel.kind == "im" and not world.messages_tab:
        raise SlackError("messages_tab_disabled")
    return channel


def _thread(channel: Channel, args: Args) -> Json:
    """The thread to answer in: only the ts of a root message will do."""
    if not args.has("thread_ts"):
        return {}
    root = args.given["thread_ts"]
    if not isinstance(root, str) or not re.fullmatch(r"\d+\.\d{6}", root):
        raise SlackError("invalid_thread_ts")
    message = channel.messages.get(root)
    if message is None:
        raise SlackError("thread_not_found")
    if message.get("thread_ts", root) != root:
        raise SlackError("cannot_reply_to_message")
    return {"thread_ts": root}


def _own_message(world: Workspace, args: Args, refusal: str) -> tuple[Channel, Json]:
    channel = world.visible_channel(args.need("channel", "channel_not_found"))
    message = channel.messages.get(args.need("ts", "message_not_found"))
    if message is None or message.get("subtype") == "tombstone":
        raise SlackError("message_not_found")
    if message.get("bot_id") != BOT_ID:
        raise SlackError(refusal)
    return channel, message


def post_message(world: Workspace, args: Args) -> Json:
    """chat.postMessage."""
    channel = _writable(world, args.need("channel", "channel_not_found"))
    shown = {key: args.flag(key) for key in ("unfurl_links", "unfurl_media") if key in args.given}
    message = {**_content(args), **_metadata(args), **_thread(channel, args)}
    linked = args.text("parse") == "full" or args.flag("link_names")
    stored = world.store_own(channel, message, names_linked=linked)
    stored["unfurls"] = {"unfurl_links": False, "unfurl_media": True, **shown}
    return {"channel": channel.id, "ts": stored["ts"], "message": _seen(stored)}


def _seen(message: Json) -> Json:
    """A message as the API shows it, without what only this fake records."""
    return {key: value for key, value in message.items() if key not in ("unfurls", "edits")}


def update(world: Workspace, args: Args) -> Json:
    """chat.update. Text without blocks takes the blocks away; metadata left out is kept."""
    channel, message = _own_message(world, args, "cant_update_message")
    if channel.archived:
        raise SlackError("is_inactive")
    if world.streaming(channel.id, message["ts"]):
        raise SlackError("streaming_state_conflict")
    given = [key for key in ("text", "blocks", "attachments", "markdown_text") if key in args.given]
    if not given and "metadata" not in args.given:
        raise SlackError("no_text")
    changed: Json = dict(_metadata(args))
    message.pop("streaming_state", None)
    if given:
        for gone in ("blocks", "attachments", "markdown_text"):
            message.pop(gone, None)
        changed |= world.with_ids(_content(args))
    changed["edited"] = {"user": BOT_USER, "ts": world.new_ts()}
    message["edits"] = [*message.get("edits", []), changed]
    message.update(changed)
    world.pings += pings_in(message, channel.id)
    text = message.get("text", "")
    return {"channel": channel.id, "ts": message["ts"], "text": text, "message": _seen(message)}


def delete(world: Workspace, args: Args) -> Json:
    """chat.delete. A root that has answers leaves a tombstone."""
    channel, message = _own_message(world, args, "cant_delete_message")
    remove(world, channel, message["ts"])
    return {"channel": channel.id, "ts": message["ts"]}


def remove(world: Workspace, channel: Channel, ts: str) -> None:
    """Take a message away, leaving a tombstone if a thread hangs on it."""
    if any(world.replies(channel, ts)):
        channel.messages[ts] = {
            "type": "message",
            "subtype": "tombstone",
            "user": "USLACKBOT",
            "text": "This message was deleted.",
            "hidden": True,
            "ts": ts,
            "thread_ts": ts,
        }
    else:
        del channel.messages[ts]


def post_ephemeral(world: Workspace, args: Args) -> Json:
    """chat.postEphemeral: only to a person who is in the channel."""
    channel = _writable(world, args.need("channel", "channel_not_found"))
    user = args.need("user", "user_not_found")
    if user not in channel.members or world.user(user).deleted:
        raise SlackError("user_not_in_channel")
    message = {**_content(args), **_thread(channel, args)}
    return {"message_ts": show_ephemeral(world, channel.id, user, message).ts}


def show_ephemeral(world: Workspace, channel: str, user: str, message: Json) -> Ephemeral:
    """Show one person something."""
    ts = world.new_ts()
    own = {"type": "message", "ts": ts, "user": BOT_USER, "bot_id": BOT_ID, "app_id": APP}
    shown = Ephemeral(ts, channel, user, world.with_ids({**own, **message}))
    world.ephemerals.append(shown)
    world.pings += pings_in(shown.message, channel)
    return shown


def get_permalink(world: Workspace, args: Args) -> Json:
    """chat.getPermalink."""
    channel = world.visible_channel(args.need("channel", "channel_not_found"))
    ts = args.need("message_ts", "message_not_found")
    if ts not in channel.messages:
        raise SlackError("message_not_found")
    link = f"https://t1.slack.test/archives/{channel.id}/p{ts.replace('.', '')}"
    root = channel.messages[ts].get("thread_ts")
    if root and root != ts:
        link += f"?thread_ts={root}&cid={channel.id}"
    return {"channel": channel.id, "permalink": link}


# Response URLs


def respond(world: Workspace, token: str, args: Args) -> None:
    """A POST to a response URL. Membership of the channel does not matter here."""
    capability = world.response_urls.get(token)
    if capability is None:
        raise SlackError("no_such_url")
    if world.clock.now() - capability.made_at > RESPONSE_URL_SECONDS:
        raise SlackError("expired_url")
    if capability.uses >= RESPONSE_URL_USES:
        raise SlackError("used_url")
    channel = world.channels[capability.channel]
    shown = [e for e in world.ephemerals if e.ts == capability.original]
    if args.flag("delete_original"):
        capability.uses += 1
        world.ephemerals = [e for e in world.ephemerals if e not in shown]
        if capability.original in channel.messages:
            remove(world, channel, capability.original or "")
        return
    content = world.with_ids(_content(args))
    capability.uses += 1
    if args.flag("replace_original") and shown:
        identity = ("type", "ts", "user", "bot_id", "app_id", "thread_ts")
        kept = {k: v for k, v in shown[0].message.items() if k in identity}
        shown[0].message = {**kept, **content}
        world.pings += pings_in(shown[0].message, channel.id)
    elif args.flag("replace_original") and capability.original in channel.messages:
        message = channel.messages[capability.original or ""]
        for gone in ("blocks", "attachments"):
            message.pop(gone, None)
        message.update(content)
        world.pings += pings_in(message, channel.id)
    elif args.text("response_type", "ephemeral") == "in_channel":
        world.store_own(channel, {**content, **_thread(channel, args)})
    else:
        show_ephemeral(world, channel.id, capability.user, {**content, **_thread(channel, args)})
