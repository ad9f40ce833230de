"""What Slack shows of an agent beside its messages: statuses, sessions, suggested prompts."""

from typing import Any

from tests.fakes.slack.args import Args, invalid
from tests.fakes.slack.streams import STATUSES
from tests.fakes.slack.workspace import Json, SlackError, Workspace


def set_thread_status(world: Workspace, args: Args) -> Json:
    """assistant.threads.setStatus: an empty status clears it."""
    channel = world.joined_channel(args.need("channel_id", "channel_not_found"))
    thread = args.need("thread_ts")
    if thread not in channel.messages:
        raise SlackError("thread_not_found")
    if "status" not in args.given:
        raise invalid("missing required field: status")
    if len(args.data("loading_messages") or []) > 10:
        raise invalid("no more than 10 items allowed [json-pointer:/loading_messages]")
    world.statuses[channel.id, thread] = (args.text("status"), world.clock.now())
    return {}


def set_session_status(world: Workspace, args: Args) -> Json:
    """agents.sessions.setStatus."""
    channel = world.joined_channel(args.need("channel_id", "channel_not_found"))
    thread = args.need("thread_ts")
    if thread not in channel.messages:
        raise SlackError("thread_not_found")
    if args.need("status") not in STATUSES:
        raise invalid(f"must be one of {', '.join(STATUSES)}")
    if len(args.text("title")) > 200:
        raise invalid("must be less than 201 characters [json-pointer:/title]")
    world.sessions[channel.id, thread] = dict(args.given)
    return {}


def set_suggested_prompts(world: Workspace, args: Args) -> Json:
    """assistant.threads.setSuggestedPrompts: in a direct conversation, four at most."""
    channel = world.joined_channel(args.need("channel_id", "channel_not_found"))
    if channel.kind != "im":
        raise SlackError("channel_type_not_supported")
    prompts: Any = args.data("prompts")
    if not isinstance(prompts, list) or not 1 <= len(prompts) <= 4:
        raise invalid("must have between 1 and 4 items [json-pointer:/prompts]")
    for prompt in prompts:
        if not isinstance(prompt, dict) or set(prompt) != {"title", "message"}:
            raise invalid("must have a title and a message [json-pointer:/prompts]")
        if not all(isinstance(text, str) and text.strip() for text in prompt.values()):
            raise invalid("must be a non-empty string [json-pointer:/prompts]")
    world.prompts[channel.id] = prompts
    return {}
