"""The views.* methods and the stack of modals that a person has open."""

from typing import Any

from tests.fakes.slack.args import Args, invalid
from tests.fakes.slack.blocks import validate_view, view_too_large
from tests.fakes.slack.forms import initial_values
from tests.fakes.slack.limits import limit
from tests.fakes.slack.workspace import (
    APP,
    BOT_ID,
    TRIGGER_SECONDS,
    Json,
    SlackError,
    Trigger,
    View,
    Workspace,
)


def shown(world: Workspace, view: View) -> Json:
    """A view as Slack shows it to the app."""
    defaults = {
        "private_metadata": "",
        "callback_id": "",
        "external_id": "",
        "clear_on_close": False,
        "notify_on_close": False,
        "close": None,
        "submit": None,
    }
    return {
        **defaults,
        **view.body,
        "id": view.id,
        "team_id": world.team,
        "state": {"values": view.values},
        "hash": view.hash,
        "previous_view_id": view.previous,
        "root_view_id": view.root,
        "app_id": APP,
        "app_installed_team_id": world.team,
        "bot_id": BOT_ID,
    }


def _checked(world: Workspace, args: Args, kind: str) -> Json:
    view: Any = args.data("view")
    if view is None:
        raise invalid("missing required field: view")
    refuse_bad_view(view, kind)
    assert isinstance(view, dict)
    return world.with_ids(view)


def refuse_bad_view(view: Any, kind: str) -> None:
    """Raise what Slack answers for a view that is too large or not well formed."""
    if view_too_large(view):
        raise SlackError("view_too_large")
    problems = [str(problem) for problem in validate_view(view)]
    if not problems and view["type"] != kind:
        problems = [f"[ERROR] must be {kind} [json-pointer:/view/type]"]
    if problems:
        raise SlackError("invalid_arguments", response_metadata={"messages": problems})


def _distinct_external_id(world: Workspace, view: Json, own: str = "") -> None:
    external = view.get("external_id")
    if external and any(
        other.body.get("external_id") == external and other.id != own
        for other in world.views.values()
    ):
        raise SlackError("duplicate_external_id")


def _trigger(world: Workspace, args: Args) -> Trigger:
    trigger = world.triggers.get(args.need("trigger_id", "invalid_trigger_id"))
    if trigger is None:
        raise SlackError("invalid_trigger_id")
    if trigger.used:
        raise SlackError("exchanged_trigger_id")
    if world.clock.now() - trigger.made_at > TRIGGER_SECONDS:
        raise SlackError("expired_trigger_id")
    return trigger


def make_view(world: Workspace, user: str, body: Json, below: View | None) -> View:
    """Put a modal on top of a person's stack (or start a new stack)."""
    view_id = world.number("V")
    view = View(view_id, user, body, world.number("h"), view_id, None, initial_values(body, {}))
    if below is None:
        for gone in world.stacks.get(user, []):
            world.views.pop(gone, None)
        world.stacks[user] = [view_id]
    else:
        view.root, view.previous = below.root, below.id
        world.stacks[user].append(view_id)
    world.views[view_id] = view
    return view


def change_view(world: Workspace, view: View, body: Json) -> None:
    """Give a view new content. What was typed stays where block and action ids stay."""
    view.values = initial_values(body, view.values)
    view.body = body
    view.hash = world.number("h")


def open_view(world: Workspace, args: Args) -> Json:
    """views.open."""
    trigger = _trigger(world, args)
    body = _checked(world, args, "modal")
    _distinct_external_id(world, body)
    trigger.used = True
    trigger.view = make_view(world, trigger.user, body, None)
    return {"view": shown(world, trigger.view)}


def push_view(world: Workspace, args: Args) -> Json:
    """views.push: only from inside a modal, and three deep at most."""
    trigger = _trigger(world, args)
    body = _checked(world, args, "modal")
    _distinct_external_id(world, body)
    below = world.views.get(trigger.from_view or "")
    if below is None:
        raise SlackError("invalid_trigger_id")
    if len(world.stacks[trigger.user]) >= limit("view.stack.max_items"):
        raise SlackError("push_limit_reached")
    trigger.used = True
    trigger.view = make_view(world, trigger.user, body, below)
    return {"view": shown(world, trigger.view)}


def update_view(world: Workspace, args: Args) -> Json:
    """views.update, by view id or external id, guarded by the hash if one is given."""
    if args.has("view_id") == args.has("external_id"):
        raise invalid("must have exactly one of view_id and external_id")
    name, wanted = args.text("view_id"), args.text("external_id")
    found = [
        view
        for view in world.views.values()
        if (name and view.id == name) or (wanted and view.body.get("external_id") == wanted)
    ]
    if not found:
        raise SlackError("not_found")
    view = found[0]
    if args.has("hash") and args.text("hash") != view.hash:
        raise SlackError("hash_conflict")
    body = _checked(world, args, "modal")
    _distinct_external_id(world, body, view.id)
    change_view(world, view, body)
    return {"view": shown(world, view)}


def publish_view(world: Workspace, args: Args) -> Json:
    """views.publish: the home tab of one person, guarded by the hash if one is given."""
    if not world.home_tab:
        raise SlackError("not_enabled")
    user = world.user(args.need("user_id"))
    body = _checked(world, args, "home")
    view = world.homes.get(user.id)
    if args.has("hash") and (view is None or args.text("hash") != view.hash):
        raise SlackError("hash_conflict")
    if view is None:
        name = world.number("V")
        view = View(name, user.id, body, world.number("h"), name, None, initial_values(body, {}))
        world.homes[user.id] = view
    else:
        change_view(world, view, body)
    return {"view": shown(world, view)}
