"""People using Slack: who and where they are, and what they write, delivered like Slack does."""

import asyncio
import mimetypes
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from tests.fakes.slack import chat, modals, streams
from tests.fakes.slack.delivery import EVENT_SCOPES, Deliveries, Delivery
from tests.fakes.slack.pressing import Pressing
from tests.fakes.slack.workspace import (
    BOT_USER,
    Channel,
    Json,
    User,
    Usergroup,
    Workspace,
)

T = TypeVar("T")


class People(Pressing):
    """Everything people do. The methods wait until the bot acknowledged or three seconds passed."""

    def __init__(self, world: Workspace, deliveries: Deliveries) -> None:
        super().__init__(world, deliveries)
        self.bot_events = {"message", "app_mention", "app_home_opened", "member_joined_channel"}
        self.bot_events |= {"subteam_members_changed", "tokens_revoked", "app_uninstalled"}
        self.bot_events |= {"agent_session_stopped"}

    # Who and where there is

    def add_user(self, user_id: str, name: str = "", **flags: Any) -> User:
        """Someone in the workspace; flags are fields of `User` (team, bot, deleted, guest ...)."""
        home = self.world.teams[0] if self.world.teams else self.world.team
        flags = {"team": home, "enterprise": self.world.enterprise, **flags}
        user = User(user_id, name or user_id.removeprefix("U_").lower(), **flags)
        self.world.users[user_id] = user
        return user

    def add_channel(
        self,
        channel_id: str,
        members: list[str],
        *,
        private: bool = False,
        ext_shared: bool = False,
        archived: bool = False,
        team: str = "",
    ) -> Channel:
        """A channel; the bot is a member only if it is listed."""
        name = channel_id.removeprefix("C_").lower()
        kind = "group" if private else "channel"
        channel = Channel(channel_id, name, kind, list(members), archived, ext_shared, team)
        self.world.channels[channel_id] = channel
        return channel

    def add_usergroup(
        self, group_id: str, handle: str, users: list[str], team: str = ""
    ) -> Usergroup:
        group = Usergroup(group_id, handle, list(users), team=team)
        self.world.usergroups[group_id] = group
        return group

    # Reading

    def thread(self, channel: str, ts: str) -> list[Json]:
        """The messages of a thread as they are now, root first."""
        where = self.world.channels[channel]
        root = [where.messages[ts]] if ts in where.messages else []
        return [*root, *self.world.replies(where, ts)]

    def message(self, channel: str, ts: str) -> Json:
        """One message as it is now."""
        return self.world.channels[channel].messages[ts]

    def direct_channel(self, user: str) -> str:
        """The id of the conversation between this person and the bot."""
        return self.world.direct_channel(user).id

    def ephemerals(self, user: str) -> list[Json]:
        """What only this person sees, oldest first."""
        return [e.message for e in self.world.ephemerals if e.user == user]

    async def until(self, condition: Callable[[], T | None], seconds: float = 3.0) -> T:
        """Wait (wall clock) until the condition gives something true, and return that."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not (found := condition()):
            if loop.time() > deadline:
                last = [(call.method, call.error) for call in self.world.calls[-6:]]
                raise AssertionError(f"not within {seconds} s; the last calls were {last}")
            await asyncio.sleep(0.01)
        return found

    # Messages

    async def mention(
        self, user: str, channel: str, text: str, thread_ts: str | None = None
    ) -> str:
        """Someone writes to the bot in a channel; returns the ts. `text` is as Slack sends it."""
        tag = f"<@{BOT_USER}>"
        return await self.say(user, channel, text if tag in text else f"{tag} {text}", thread_ts)

    async def say(self, user: str, channel: str, text: str, thread_ts: str | None = None) -> str:
        """Someone writes in a channel; returns the ts.

        A mention of the bot makes two events with different ids, app_mention and message.
        """
        where = self._where(user, channel)
        message = {"user": user, "text": text, "client_msg_id": self.world.number("m")}
        return await self._written(where, message, thread_ts)

    async def send_files(
        self,
        user: str,
        channel: str,
        files: list[Json],
        text: str = "",
        thread_ts: str | None = None,
    ) -> str:
        """Someone sends files (of `file`) with a text or without; returns the ts.

        The app_mention of such a message sometimes comes without them (hermes-agent#77141): here
        always."""
        where = self._where(user, channel)
        shared = [{k: v for k, v in one.items() if k != "content"} for one in files]
        message = {"user": user, "text": text, "files": shared, "subtype": "file_share"}
        return await self._written(where, message, thread_ts)

    def file(self, name: str, content: bytes, mimetype: str = "", **changed: Any) -> Json:
        """A file that a person uploaded, with its address on this server. `changed`: fields that
        are otherwise, as a size that is not its own."""
        file_id = self.world.number("F")
        base = self.world.base_url.removesuffix("/api/")
        address = f"{base}/files-pri/{file_id}/{quote(name)}"
        self.world.files[file_id] = {
            "id": file_id,
            "name": name,
            "title": name,
            "mimetype": mimetype or mimetypes.guess_type(name)[0] or "",
            "mode": "hosted",
            "is_external": False,
            "size": len(content),
            "url_private": address,
            "url_private_download": address,
            "content": content,
            **changed,
        }
        return self.world.files[file_id]

    async def react(self, user: str, channel: str, ts: str, name: str) -> None:
        """Someone reacts to a message."""
        where = self._where(user, channel)
        self.world.reactions.add((channel, ts, name))
        item = {"type": "message", "channel": channel, "ts": ts}
        author = where.messages[ts].get("user")
        reacted: Json = {"user": user, "reaction": name, "item": item, "item_user": author}
        reacted |= {"event_ts": self.world.new_ts()}
        await self._event(where, {"type": "reaction_added", **reacted})

    async def bot_message(
        self,
        channel: str,
        text: str,
        thread_ts: str | None = None,
        bot_user: str = "U_OTHER_BOT",
    ) -> str:
        """Another app's bot writes in a channel."""
        if bot_user not in self.world.users:
            self.add_user(bot_user, bot=True)
        message = {"user": bot_user, "text": text, "bot_id": "B_OTHER", "app_id": "A_OTHER"}
        return await self._written(self.world.channels[channel], message, thread_ts)

    async def direct(self, user: str, text: str, thread_ts: str | None = None) -> str:
        """Someone writes to the bot in their direct messages; returns the ts."""
        where = self.world.direct_channel(user)
        message = {"user": user, "text": text, "client_msg_id": self.world.number("m")}
        return await self._written(where, message, thread_ts)

    async def _written(self, where: Channel, message: Json, thread_ts: str | None) -> str:
        author = self.world.users[message["user"]]
        thread = {"thread_ts": thread_ts} if thread_ts else {}
        if thread_ts and thread_ts in where.messages:
            thread["parent_user_id"] = where.messages[thread_ts]["user"]
        stored = self.world.store(where, {**message, **thread, "team": author.team})
        event: Json = {**stored, "channel": where.id, "event_ts": stored["ts"]}
        if author.team not in (self.world.team, *self.world.teams):
            event |= {"user_team": author.team, "source_team": author.team}
        sending = []
        if f"<@{BOT_USER}>" in message["text"] and where.kind != "im":
            lean = {k: v for k, v in event.items() if k not in ("files", "subtype")}
            sending.append(self._event(where, {**lean, "type": "app_mention"}))
        sending.append(self._event(where, {**event, "channel_type": where.kind}))
        await asyncio.gather(*sending)
        return str(stored["ts"])

    async def edit(self, user: str, channel: str, ts: str, text: str) -> None:
        """Someone edits their message."""
        where = self.world.channels[channel]
        before = dict(self._own(where, user, ts))
        where.messages[ts] |= {"text": text, "edited": {"user": user, "ts": self.world.new_ts()}}
        changed = {"message": dict(where.messages[ts]), "previous_message": before}
        await self._hidden(where, {"subtype": "message_changed", **changed})

    async def unfurl(self, channel: str, ts: str) -> None:
        """Slack shows what is behind a link in a message: no one edited it."""
        where = self.world.channels[channel]
        before = dict(where.messages[ts])
        where.messages[ts] |= {"attachments": [{"id": 1, "title": "A page", "fallback": "A page"}]}
        changed = {"message": dict(where.messages[ts]), "previous_message": before}
        await self._hidden(where, {"subtype": "message_changed", **changed})

    async def delete(self, user: str, channel: str, ts: str) -> None:
        """Someone deletes their message. One that has answers is changed into a tombstone
        (openclaw#22035)."""
        where = self.world.channels[channel]
        before = dict(self._own(where, user, ts))
        chat.remove(self.world, where, ts)
        if ts in where.messages:
            changed = {"message": dict(where.messages[ts]), "previous_message": before}
            await self._hidden(where, {"subtype": "message_changed", **changed})
            return
        gone = {"deleted_ts": ts, "previous_message": before}
        await self._hidden(where, {"subtype": "message_deleted", **gone})

    async def join(self, user: str, channel: str) -> None:
        """Someone, or the bot itself, becomes a member of a channel."""
        where = self.world.channels[channel]
        where.members.append(user)
        kind = "C" if where.kind == "channel" else "G"
        joined: Json = {
            "user": user,
            "channel": channel,
            "channel_type": kind,
            "team": self.world.team,
        }
        joined |= {"event_ts": self.world.new_ts()}
        await self._event(where, {"type": "member_joined_channel", **joined})

    def kick(self, channel: str) -> None:
        """The bot is removed from a channel."""
        self.world.channels[channel].members.remove(BOT_USER)

    async def open_home(self, user: str, tab: str = "home") -> None:
        """Someone opens the bot's home tab (or its `messages` tab)."""
        where = self.world.direct_channel(user)
        opened: Json = {
            "user": user,
            "channel": where.id,
            "tab": tab,
            "event_ts": self.world.new_ts(),
        }
        view = self.home(user)
        if view is not None and tab == "home":
            opened["view"] = modals.shown(self.world, view)
        await self._event(where, {"type": "app_home_opened", **opened})

    async def press_stop(self, user: str, channel: str, thread: str) -> None:
        """Someone presses the stop button of the agent's session in a thread."""
        where = self._where(user, channel)
        session = self.world.sessions.get((channel, thread), {})
        assert session.get("status") == "processing", "there is no stop button to press"
        stopped = streams.stop_by_user(self.world, where, thread)
        event: Json = {"channel": channel, "thread_ts": thread, "user": user}
        event |= {"streaming_message_ts": stopped, "event_ts": self.world.new_ts()}
        await self._event(where, {"type": "agent_session_stopped", **event})

    async def send_event(self, event: Json) -> Delivery:
        """Any other event, as it is."""
        return await self.deliveries.event(event)

    async def _hidden(self, where: Channel, event: Json) -> None:
        ts = self.world.new_ts()
        outer = {"type": "message", "channel": where.id, "channel_type": where.kind}
        await self._event(where, {**outer, "hidden": True, "ts": ts, "event_ts": ts, **event})

    async def _event(self, where: Channel, event: Json) -> None:
        """Deliver what the app subscribed to and may see."""
        kind = event["type"]
        named = f"message.{where.kind}" if kind == "message" else kind
        scope = EVENT_SCOPES.get(named)
        may_see = kind == "app_home_opened" or BOT_USER in where.members
        if kind == "app_mention" and where.kind == "channel":
            may_see = True
        if kind in self.bot_events and may_see and (scope is None or scope in self.world.scopes):
            in_team = {"team_id": where.team, "context_team_id": where.team} if where.team else {}
            await self.deliveries.event(event, is_ext_shared_channel=where.ext_shared, **in_team)

    def _own(self, where: Channel, user: str, ts: str) -> Json:
        message = where.messages[ts]
        assert message.get("user") == user, f"{user} did not write {ts}"
        return message
