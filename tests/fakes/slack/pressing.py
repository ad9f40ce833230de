"""What people press, type as a command and fill in, delivered to the bot like Slack does."""

from dataclasses import dataclass, field
from typing import Any

from tests.fakes.slack import chat, modals
from tests.fakes.slack.args import Args
from tests.fakes.slack.delivery import Deliveries, Delivery
from tests.fakes.slack.forms import State, chosen, filled, initial_values
from tests.fakes.slack.visible import find_element
from tests.fakes.slack.workspace import (
    APP,
    Channel,
    Json,
    SlackError,
    Trigger,
    View,
    Workspace,
)


@dataclass(frozen=True)
class Interaction:
    """What came of something a person pressed, typed as a command, or submitted."""

    delivery: Delivery
    trigger: Trigger
    payload: Json

    @property
    def acked(self) -> bool:
        return self.delivery.acked

    @property
    def status(self) -> int | None:
        return self.delivery.status

    @property
    def elapsed(self) -> float:
        return self.delivery.elapsed

    @property
    def body(self) -> Any:
        """What the bot answered directly: JSON, text or None."""
        return self.delivery.body

    @property
    def view(self) -> View | None:
        """The modal that the bot opened or pushed with this interaction, by now."""
        return self.trigger.view


@dataclass(frozen=True)
class Submission(Interaction):
    """What the bot answered to a submitted modal, as Slack understood it."""

    action: str | None = None
    """errors, update, push, clear; None means that the modal was closed."""
    errors: dict[str, str] = field(default_factory=dict)
    """Messages under inputs, by block id."""
    trouble: str = ""
    """Why the client said "we had some trouble connecting": no answer, or one Slack refuses."""


class Pressing:
    """Buttons, modals, commands, shortcuts. Slack delivers each of them once and never retries."""

    def __init__(self, world: Workspace, deliveries: Deliveries) -> None:
        self.world = world
        self.deliveries = deliveries
        self._kept: dict[tuple[str, str, str], State] = {}  # by person and message

    def open_views(self, user: str) -> list[View]:
        """The modals this person has open, the visible one last."""
        return [self.world.views[view_id] for view_id in self.world.stacks.get(user, [])]

    def home(self, user: str) -> View | None:
        """The home tab of a person, if the bot published one."""
        return self.world.homes.get(user)

    def _where(self, user: str, channel: str) -> Channel:
        where = self.world.channels[channel]
        assert user in where.members, f"{user} is not a member of {channel}"
        return where

    def _who(self, user: str, trigger: Trigger) -> Json:
        person = self.world.users[user]
        world = self.world
        own = person.enterprise or person.team  # a Grid's people have the Grid's id here
        who = {"id": user, "username": person.name, "name": person.name, "team_id": own}
        return {
            "user": who,
            "api_app_id": APP,
            "token": "verification-token",
            "team": None if world.whole else {"id": world.team, "domain": world.team.lower()},
            "enterprise": {"id": world.enterprise, "name": "Acme"} if world.enterprise else None,
            "is_enterprise_install": world.whole,
            "trigger_id": trigger.id,
        }

    def _shown_to(self, user: str, where: Channel, ts: str) -> tuple[Json, bool]:
        for ephemeral in self.world.ephemerals:
            if ephemeral.ts == ts and ephemeral.user == user and ephemeral.channel == where.id:
                return ephemeral.message, True
        assert ts in where.messages, f"there is no message {ts} in {where.id}"
        return where.messages[ts], False

    async def click(
        self,
        user: str,
        channel: str,
        ts: str,
        name: str,
        value: Any = None,
        inputs: dict[str, Any] | None = None,
    ) -> Interaction:
        """Someone presses a button of a message, found by action id or label.

        For a button, `value` tells two of the same name apart; for a menu it is what they choose,
        by its visible text (a list of them where several can be chosen), which their client keeps
        and sends with what they press next. `inputs` fills in the inputs of the message first.
        AssertionError when there is nothing to press.
        """
        where = self._where(user, channel)
        message, ephemeral = self._shown_to(user, where, ts)
        block, element = find_element(message, name, value, user)
        trigger = self.world.new_trigger(user)
        state = initial_values(message, self._kept.get((user, channel, ts), {}))
        if inputs is not None:
            state = filled(message, state, inputs)
        action = self._action(block, element, value, state)
        self._kept[user, channel, ts] = state
        container: Json = {"type": "message", "message_ts": ts, "channel_id": channel}
        container |= {"is_ephemeral": ephemeral}
        if message.get("thread_ts"):
            container["thread_ts"] = message["thread_ts"]
        payload = {
            "type": "block_actions",
            **self._who(user, trigger),
            "container": container,
            "channel": {"id": channel, "name": where.name},
            "state": {"values": state},
            "response_url": self.world.new_response_url(channel, user, ts),
            "actions": [action],
        }
        if not ephemeral:
            hidden = ("unfurls", "edits")
            payload["message"] = {k: v for k, v in message.items() if k not in hidden}
        return Interaction(await self.deliveries.interaction(payload), trigger, payload)

    async def click_view(self, user: str, view: View, name: str, value: Any = None) -> Interaction:
        """Someone presses something in an open modal or in their home tab."""
        self._is_open(user, view)
        block, element = find_element(view.body, name, value, user)
        trigger = self.world.new_trigger(user, from_view=view.id)
        payload = {
            "type": "block_actions",
            **self._who(user, trigger),
            "container": {"type": "view", "view_id": view.id},
            "actions": [self._action(block, element, value, view.values)],
            "view": modals.shown(self.world, view),
        }
        return Interaction(await self.deliveries.interaction(payload), trigger, payload)

    def _action(self, block: Json, element: Json, value: Any, state: dict[str, Json]) -> Json:
        action: Json = {
            "type": element["type"],
            "action_id": element["action_id"],
            "block_id": block["block_id"],
            "action_ts": self.world.new_ts(),
        }
        match element["type"]:
            case "button" | "icon_button":
                named = ("text", "value", "style")
                return action | {key: element[key] for key in named if key in element}
            case "overflow":
                [option] = [o for o in element["options"] if o["text"]["text"] == value]
                return {**action, "selected_option": option}
            case _:
                entry = chosen(element, value, str(element["action_id"]))
                state.setdefault(block["block_id"], {})[element["action_id"]] = entry
                return {**action, **entry}

    # Modals

    def _is_open(self, user: str, view: View) -> None:
        seen = [self.home(user), *self.open_views(user)[-1:]]
        assert any(view is one for one in seen), f"{user} does not have {view.id} before them"

    async def submit(self, user: str, view: View, entered: dict[str, Any]) -> Submission:
        """Someone fills in a modal by label and submits it.

        Raises ClientRefused (an AssertionError) where Slack's client would not send it.
        """
        self._is_open(user, view)
        assert "submit" in view.body, "the modal has no submit button"
        view.values = filled(view.body, view.values, entered)
        trigger = self.world.new_trigger(user, from_view=view.id)
        payload = {
            "type": "view_submission",
            **self._view_team(user, trigger),
            "view": modals.shown(self.world, view),
            "response_urls": [],
        }
        delivery = await self.deliveries.interaction(payload)
        return self._answered(view, Submission(delivery, trigger, payload))

    def _view_team(self, user: str, trigger: Trigger) -> Json:
        """In a modal the team is the person's own one; the view says where the app lives."""
        team = self.world.users[user].team
        return {**self._who(user, trigger), "team": {"id": team, "domain": team.lower()}}

    def _answered(self, view: View, sent: Submission) -> Submission:
        base = (sent.delivery, sent.trigger, sent.payload)
        if not sent.acked:
            return Submission(*base, trouble=sent.delivery.reason or "not acknowledged")
        answer = sent.body if isinstance(sent.body, dict) else {}
        action = answer.get("response_action")
        try:
            errors = self._apply(view, action, answer)
        except SlackError as refused:
            return Submission(*base, action=action, trouble=f"{refused.code} {refused.extra}")
        return Submission(*base, action=action, errors=errors)

    def _apply(self, view: View, action: str | None, answer: Json) -> dict[str, str]:
        match action:
            case None:
                self._gone(view)
            case "clear":
                self._gone(self.open_views(view.user)[0])
            case "errors":
                errors: dict[str, str] = answer.get("errors") or {}
                inputs = {b["block_id"] for b in view.body["blocks"] if b["type"] == "input"}
                if not errors or not set(errors) <= inputs:
                    raise SlackError("errors must be keyed by the block ids of inputs")
                return errors
            case "update" | "push":
                body = answer.get("view")
                modals.refuse_bad_view(body, "modal")
                assert isinstance(body, dict)
                if action == "update":
                    modals.change_view(self.world, view, self.world.with_ids(body))
                elif len(self.world.stacks[view.user]) >= 3:
                    raise SlackError("push_limit_reached")
                else:
                    modals.make_view(self.world, view.user, self.world.with_ids(body), view)
            case _:
                raise SlackError(f"unknown response_action {action}")
        return {}

    def _gone(self, view: View) -> None:
        """Take a modal off the stack, with everything above it."""
        stack = self.world.stacks[view.user]
        if view.id in stack:
            for gone in stack[stack.index(view.id) :]:
                self.world.views.pop(gone, None)
            del stack[stack.index(view.id) :]

    async def close(self, user: str, view: View, *, whole_stack: bool = False) -> Delivery | None:
        """Someone closes a modal (or, with the x, the whole stack). The bot hears of it on request.

        Returns the delivery of view_closed, or None if the view did not ask for it.
        """
        self._is_open(user, view)
        cleared = whole_stack or bool(view.body.get("clear_on_close"))
        root = self.open_views(user)[0]
        closed = root if cleared else view
        about = modals.shown(self.world, closed)
        self._gone(closed)
        if not closed.body.get("notify_on_close"):
            return None
        who = self._view_team(user, self.world.new_trigger(user))
        del who["trigger_id"]
        payload = {"type": "view_closed", **who, "view": about, "is_cleared": cleared}
        return await self.deliveries.interaction(payload)

    # Commands and shortcuts

    async def slash(self, user: str, channel: str, command: str, text: str = "") -> Interaction:
        """Someone types a slash command; the direct answer is shown to them (or to the channel)."""
        where = self._where(user, channel)
        trigger = self.world.new_trigger(user)
        person = self.world.users[user]
        form = {
            "token": "verification-token",
            "team_id": where.team or self.world.team,
            "team_domain": (where.team or self.world.team).lower(),
            **({"enterprise_id": self.world.enterprise} if self.world.enterprise else {}),
            "channel_id": channel,
            "channel_name": "directmessage" if where.kind == "im" else where.name,
            "user_id": user,
            "user_name": person.name,
            "command": command,
            "text": text,
            "api_app_id": APP,
            "is_enterprise_install": str(self.world.whole).lower(),
            "response_url": self.world.new_response_url(channel, user, None),
            "trigger_id": trigger.id,
        }
        delivery = await self.deliveries.interaction(form, "slash_commands")
        self._show_answer(where, user, delivery)
        return Interaction(delivery, trigger, form)

    def _show_answer(self, where: Channel, user: str, delivery: Delivery) -> None:
        answer = delivery.body if isinstance(delivery.body, dict) else {"text": delivery.body}
        if not delivery.acked or not (answer.get("text") or answer.get("blocks")):
            return
        args = Args(answer)
        blocks = args.data("blocks")
        chat.refuse_bad_content(args.text("text"), blocks, answer.get("attachments"))
        message = {"text": args.text("text"), "blocks": blocks}
        if answer.get("response_type") == "in_channel":
            self.world.store_own(where, message)
        else:
            chat.show_ephemeral(self.world, where.id, user, message)

    async def shortcut(
        self, user: str, callback_id: str, channel: str | None = None, ts: str | None = None
    ) -> Interaction:
        """Someone uses a global shortcut, or a message shortcut if channel and ts are given."""
        trigger = self.world.new_trigger(user)
        payload: Json = {
            **self._who(user, trigger),
            "type": "shortcut",
            "callback_id": callback_id,
            "action_ts": self.world.new_ts(),
        }
        if channel and ts:
            where = self._where(user, channel)
            payload |= {
                "type": "message_action",
                "channel": {"id": channel, "name": where.name},
                "message_ts": ts,
                "message": dict(where.messages[ts]),
                "response_url": self.world.new_response_url(channel, user, ts),
            }
        return Interaction(await self.deliveries.interaction(payload), trigger, payload)
