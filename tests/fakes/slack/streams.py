"""chat.startStream, appendStream and stopStream: a message that grows, for five minutes at most."""

from typing import Any

from tests.fakes.slack.args import Args, invalid
from tests.fakes.slack.chat import _metadata, _own_message, _thread, _writable, refuse_bad_content
from tests.fakes.slack.limits import limit
from tests.fakes.slack.pings import pings_in
from tests.fakes.slack.workspace import TEAM, Channel, Json, SlackError, Workspace

STATUSES = ("active", "processing", "suspended", "closed")


def start(world: Workspace, args: Args) -> Json:
    """chat.startStream: in a thread; in a channel it must say who watches, in a direct message it
    may not. It takes no metadata. The session of the agent begins to process."""
    channel = _writable(world, args.need("channel", "channel_not_found"))
    args.need("thread_ts")
    thread = _thread(channel, args)
    if "metadata" in args.given:
        raise invalid("unsupported field: metadata")
    if channel.kind == "im":
        if args.has("recipient_user_id") or args.has("recipient_team_id"):
            raise invalid("unsupported field: recipient_user_id, recipient_team_id")
    else:
        args.need("recipient_user_id", "missing_recipient_user_id")
        args.need("recipient_team_id", "missing_recipient_team_id")
    message = {"text": "", "streaming_state": "in_progress", **thread}
    text = _streamed(args)
    stored = world.store_own(channel, message)
    _grow(world, channel, stored, text)
    world.streams[channel.id, stored["ts"]] = world.clock.now()
    _move_session(world, channel, stored, "processing")
    return {"channel": channel.id, "ts": stored["ts"]}


def append(world: Workspace, args: Args) -> Json:
    """chat.appendStream."""
    channel, message = _open(world, args)
    added = _streamed(args)
    if not added:
        raise invalid("missing required field: markdown_text")
    _grow(world, channel, message, added)
    return {"channel": channel.id, "ts": message["ts"]}


def stop(world: Workspace, args: Args) -> Json:
    """chat.stopStream. The session of the agent becomes active, or what `session_status` says."""
    channel, message = _open(world, args)
    blocks = args.data("blocks", "invalid_blocks_format")
    refuse_bad_content("", blocks, None)
    status = args.text("session_status", "active")
    if status not in STATUSES:
        raise invalid(f"must be one of {', '.join(STATUSES)}")
    shown = world.with_ids({"blocks": blocks, **_metadata(args)})
    message.update(shown, streaming_state="completed")
    _grow(world, channel, message, _streamed(args))
    world.pings += pings_in({**shown, "ts": message["ts"]}, channel.id)
    del world.streams[channel.id, message["ts"]]
    _move_session(world, channel, message, status)
    kept = {key: value for key, value in message.items() if key not in ("unfurls", "edits")}
    return {"channel": channel.id, "ts": message["ts"], "message": kept}


def stop_by_user(world: Workspace, channel: Channel, thread: str) -> list[str]:
    """A person stops the streams of a thread; returns their messages."""
    stopped = []
    for message in world.replies(channel, thread):
        if world.streaming(channel.id, message["ts"]):
            del world.streams[channel.id, message["ts"]]
            message["streaming_state"] = "stopped_by_user"
            stopped.append(str(message["ts"]))
    return stopped


def _open(world: Workspace, args: Args) -> tuple[Channel, Json]:
    channel, message = _own_message(world, args, "message_not_owned_by_app")
    if message.get("streaming_state") == "stopped_by_user":
        raise SlackError("stopped_by_user")
    if not world.streaming(channel.id, message["ts"]):
        raise SlackError("message_not_in_streaming_state")
    return channel, message


def _streamed(args: Args) -> str:
    text = args.text("markdown_text")
    chunks: Any = args.data("chunks") or []
    if text and chunks:
        raise SlackError("markdown_text_conflict")
    for chunk in chunks:
        if chunk.get("type") not in ("markdown_text", "task_update", "plan_update", "blocks"):
            raise SlackError("invalid_chunks")
        text += str(chunk.get("text", ""))
    if len(text) > limit("markdown.text.max_length"):
        raise SlackError("msg_too_long")
    return text


def _grow(world: Workspace, channel: Channel, message: Json, added: str) -> None:
    """What a person sees is the text so far. A token or a link may be complete only now, so what
    pings is looked for in the whole."""
    before = _pings(message["text"], message, channel)
    message["text"] += added
    after = _pings(message["text"], message, channel)
    world.pings += after[len(before) :] if after[: len(before)] == before else after


def _pings(text: str, message: Json, channel: Channel) -> list[Any]:
    return pings_in({"markdown_text": text, "ts": message["ts"]}, channel.id)


def _move_session(world: Workspace, channel: Channel, message: Json, status: str) -> None:
    where = (channel.id, str(message.get("thread_ts", "")))
    about = {"channel_id": channel.id, "thread_ts": where[1], "team": TEAM}
    world.sessions[where] = {**world.sessions.get(where, about), "status": status}
