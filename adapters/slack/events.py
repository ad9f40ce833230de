"""What Slack sends, translated: pure functions from payloads to what a person did.

Only fields that Slack itself fills in are read for who and where; of what travels through a client
only the nonce is taken, to name a question. A `Malformed` payload is refused as a whole."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from adapters.slack.actions import ACTION, SELECT
from bot.surface import Changed, FileRef, Place

SURFACE: Final = "slack"
HEARD: Final = ("app_mention", "message")
STOPPED: Final = "agent_session_stopped"
OPENED: Final = "app_home_opened"
REVOKED: Final = ("tokens_revoked", "app_uninstalled")  # a workspace does not want us any more
EVENTS: Final = (*HEARD, STOPPED, OPENED, *REVOKED)

_SAID: Final = (None, "thread_broadcast", "file_share")  # subtypes a person writes
_PROGRAMS: Final = ("bot_id", "bot_profile", "app_id")  # what only a message of an app carries
_TS: Final = re.compile(r"[0-9]{1,12}\.[0-9]{6}")
_ID: Final = re.compile(r"[A-Z][A-Z0-9_]{1,40}")
_PAGE: Final = re.compile(r"[1-9][0-9]{0,3}")
_MENTION: Final = re.compile(r"<@([UW][A-Z0-9_]+)(?:\|[^<>]*)?>|<!subteam\^[^<>]*>")
_TOKEN: Final = re.compile(r"<((?:[@#!]|[a-z][a-z0-9+.-]*:)[^<>|]*)(?:\|([^<>]*))?>")


class Malformed(ValueError):
    """A payload in a shape that Slack does not send; the text quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who we are in the workspace that installed us (auth.test), and its address. An Enterprise
    Grid that installed us as a whole is one to us (`whole`), and `team` is its own id: a click in
    one of its channels names the person's team or none, never for sure the channel's."""

    team: str
    user: str
    bot: str
    url: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Person:
    """A person as Slack authenticated them; `team` is empty where Slack does not say it."""

    user: str
    team: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """Something a person said to the bot or in a thread that may be one of its chats. `named`:
    it mentions the bot. `direct`: it is a direct message. `lean`: it is the event of a mention that
    may lack the files."""

    keys: tuple[str, ...]
    place: Place
    person: Person
    text: str
    starts: bool
    source: str
    named: bool
    direct: bool = False
    files: tuple[FileRef, ...] = ()
    lean: bool = False

    @property
    def at_root(self) -> bool:
        """It stands in the channel itself and not in a thread."""
        return self.source == self.place.root


@dataclass(frozen=True, slots=True)
class Click:
    """A button that was pressed: in a message (`place`) or in a modal (`view` is its id, `about`
    what we wrote into it). `nonce` is the button's value. `at_root`: that message stands in the
    channel itself, as in a direct message, and not in a thread. `selected` are the nonces of the
    calls that were selected in the message before. `home`: the number of the home page that the
    button is on, if it is on one."""

    action: str
    nonce: str
    person: Person
    place: Place | None
    trigger: str
    response_url: str
    view: str = ""
    about: str = ""
    at_root: bool = False
    selected: tuple[str, ...] = ()
    home: int | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """A modal that was sent."""

    callback: str
    nonce: str
    person: Person
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Typed:
    """A slash command. Slack does not say in which thread, so its place has no root."""

    name: str
    argument: str
    person: Person
    place: Place
    response_url: str


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A shortcut: of a message (`place` is its thread), or a global one (none). `in_thread`: the
    message is a thread's and not only the channel's."""

    callback: str
    person: Person
    place: Place | None
    in_thread: bool
    trigger: str
    response_url: str


@dataclass(frozen=True, slots=True)
class Turned:
    """A page of a list in a modal that was asked for."""

    page: int
    person: Person
    view: str


@dataclass(frozen=True, slots=True)
class Opened:
    """A person opened the app: its home, or their direct messages with it (`tab`)."""

    tab: str
    person: Person
    channel: str


def shaped(body: object) -> bool:
    """Whether the payload has the shape that Bolt takes for granted. slack_bolt 1.30 fails on any
    other before a listener sees it, in its error handler too (`to_step` in `payload_utils.py`)."""
    if not isinstance(body, Mapping):
        return False
    match body.get("type"):
        case "event_callback":
            event = body.get("event")
            return isinstance(event, Mapping) and isinstance(event.get("type"), str)
        case "block_actions":
            actions = body.get("actions")
            return isinstance(actions, list) and all(
                isinstance(action, Mapping) and isinstance(action.get("action_id"), str)
                for action in actions or [None]
            )
        case "view_submission" | "view_closed":
            view = body.get("view")
            return isinstance(view, Mapping) and isinstance(view.get("type"), str)
        case "shortcut" | "message_action":
            return isinstance(body.get("callback_id"), str)
        case _:
            return "command" not in body or isinstance(body["command"], str)


def heard(body: Mapping[str, Any], me: Identity) -> Heard | None:
    """What was said; None for what is nobody's business: edits, joins, other bots, ourselves,
    channel talk without a mention, a reply to somebody else. Raises Malformed."""
    event = _mapping(body, "event")
    kind = event.get("type")
    if kind not in HEARD or not _for_us(body, me):
        return None
    if event.get("subtype") not in _SAID or any(
        event.get(key) for key in (*_PROGRAMS, "hidden", "edited")
    ):
        return None
    if "user" not in event or event["user"] in (me.user, "USLACKBOT"):
        return None
    user, channel, ts = _id(event, "user"), _id(event, "channel"), _ts(event, "ts")
    root = _ts(event, "thread_ts") if event.get("thread_ts") else ts
    said = event.get("text", "")
    if not isinstance(said, str):
        raise Malformed("The text of a message is no text.")
    others = {found[1] or "a group" for found in _MENTION.finditer(said)}
    named = kind == "app_mention" or me.user in others
    direct = event.get("channel_type") == "im"
    others.discard(me.user)
    if not direct and not named and (root == ts or others):
        return None
    return Heard(
        keys=(f"slack:{_text(body, 'event_id')}", f"slack:{me.team}/{channel}/{ts}"),
        place=Place(SURFACE, me.team, channel, root),
        person=Person(user, _team(event, "user_team") or _team(event, "team")),
        text=readable(said, me.user),
        starts=direct or named,
        source=ts,
        named=named,
        direct=direct,
        files=_files(event),
        lean=kind == "app_mention" and not event.get("files"),
    )


def stopped(body: Mapping[str, Any], me: Identity) -> Heard | None:
    """The stop button of an agent's session: the same as saying `stop` in its thread. None when it
    is not for us, or names no thread. Raises Malformed."""
    event = _mapping(body, "event")
    if not _for_us(body, me) or not event.get("thread_ts") or not event.get("user"):
        return None
    channel, root = _id(event, "channel"), _ts(event, "thread_ts")
    return Heard(
        keys=(f"slack:{_text(body, 'event_id')}",),
        place=Place(SURFACE, me.team, channel, root),
        person=Person(_id(event, "user"), _team(event, "user_team")),
        text="stop",
        starts=False,
        source="",
        named=True,
    )


def opened(body: Mapping[str, Any], me: Identity) -> Opened | None:
    """What a person opened of the app; None when it is not for us. Raises Malformed."""
    event = _mapping(body, "event")
    if not _for_us(body, me):
        return None
    person = Person(_id(event, "user"), _team(event, "user_team"))
    return Opened(_text(event, "tab"), person, _id(event, "channel"))


def changed(body: Mapping[str, Any], me: Identity) -> Changed | None:
    """What a person edited or deleted; None for all else: a link that unfolded in a message, its
    reactions, what apps change. Raises Malformed."""
    event = _mapping(body, "event")
    if event.get("type") != "message" or not _for_us(body, me):
        return None
    before = event.get("previous_message")
    old: Mapping[str, Any] = before if isinstance(before, Mapping) else {}
    match event.get("subtype"):
        case "message_changed":
            new = _mapping(event, "message")
            ts = _ts(new, "ts")
            # A message that has answers is not taken away but gets this in its place.
            gone = new.get("subtype") == "tombstone"
        case "message_deleted":
            new, ts, gone = {}, _ts(event, "deleted_ts"), True
        case _:
            return None
    if any(one.get(key) for one in (new, old) for key in _PROGRAMS) or old.get("user") == me.user:
        return None
    text, edit = new.get("text", ""), new.get("edited")
    if not isinstance(text, str):
        raise Malformed("The text of a message is no text.")
    if not gone and text == old.get("text"):
        return None
    channel = _id(event, "channel")
    root = next((_ts(one, "thread_ts") for one in (new, old) if one.get("thread_ts")), ts)
    at = _ts(edit if isinstance(edit, Mapping) else event, "ts")
    how = "deleted" if gone else f"edited/{at}"
    return Changed(
        keys=(f"slack:{_text(body, 'event_id')}", f"slack:{me.team}/{channel}/{ts}/{how}"),
        place=Place(SURFACE, me.team, channel, root),
        source=ts,
        text=None if gone else readable(text, me.user),
    )


def _files(event: Mapping[str, Any]) -> tuple[FileRef, ...]:
    """The files of a message, by what Slack tells of them. Slack gives a PDF only at the address
    that is called a download."""
    given = event.get("files") or ()
    if not isinstance(given, list | tuple) or not all(isinstance(one, Mapping) for one in given):
        raise Malformed("The files of a message are none.")
    found = []
    for one in given:
        size = one.get("size")
        url = one.get("url_private_download") or one.get("url_private")
        name, claimed = one.get("name") or one.get("title"), one.get("mimetype")
        found.append(
            FileRef(
                name=name if isinstance(name, str) else "",
                mime_type=claimed if isinstance(claimed, str) else "",
                size=size if isinstance(size, int) else 0,
                reference={
                    "id": one["id"] if isinstance(one.get("id"), str) else "",
                    "url": url if isinstance(url, str) else "",
                    "size": size if isinstance(size, int) else 0,
                },
            )
        )
    return tuple(found)


def click(body: Mapping[str, Any], me: Identity) -> Click:
    """The button that was pressed. Raises Malformed."""
    actions = body.get("actions")
    if body.get("type") != "block_actions" or not isinstance(actions, list) or not actions:
        raise Malformed("A click carries no action.")
    action = actions[0] if isinstance(actions[0], Mapping) else {}
    name = action.get("action_id")
    if not isinstance(name, str):
        raise Malformed("A click names no action.")
    nonce = action.get("value") or ""
    trigger, response_url = body.get("trigger_id") or "", body.get("response_url") or ""
    if not all(isinstance(text, str) for text in (nonce, trigger, response_url)):
        raise Malformed("A click has a value of the wrong kind.")
    view, about = _pressed_in(body)
    place = _pressed_at(body, me)
    return Click(
        action=name.removeprefix(ACTION) if name.startswith(ACTION) else "",
        nonce=nonce,
        person=_person(body),
        place=place,
        trigger=trigger,
        response_url=response_url,
        view=view,
        about=about,
        at_root=place is not None and place.root == body["container"]["message_ts"],
        selected=_selected(body),
        home=_home(body),
    )


def submission(body: Mapping[str, Any]) -> Submission:
    """The modal that was sent. Raises Malformed."""
    view = _mapping(body, "view")
    if body.get("type") != "view_submission":
        raise Malformed("A modal was not sent but something else.")
    return Submission(
        callback=_text(view, "callback_id"),
        nonce=_text(view, "private_metadata"),
        person=_person(body),
        values=_mapping(_mapping(view, "state"), "values"),
    )


def typed(body: Mapping[str, Any], me: Identity) -> Typed:
    """The slash command that was typed. Raises Malformed."""
    text, response_url = body.get("text") or "", body.get("response_url") or ""
    if not isinstance(text, str) or not isinstance(response_url, str):
        raise Malformed("A command has a value of the wrong kind.")
    name, _, argument = readable(text, me.user).partition(" ")
    return Typed(
        name=name,
        argument=argument.strip(),
        person=Person(_id(body, "user_id"), _team(body, "team_id")),
        place=Place(SURFACE, me.team, _id(body, "channel_id"), ""),
        response_url=response_url,
    )


def shortcut(body: Mapping[str, Any], me: Identity) -> Shortcut:
    """The shortcut that was used. Raises Malformed."""
    place, in_thread = None, False
    if body.get("type") == "message_action":
        message = _mapping(body, "message")
        in_thread = bool(message.get("thread_ts"))
        root = _ts(message, "thread_ts") if in_thread else _ts(body, "message_ts")
        place = Place(SURFACE, me.team, _id(_mapping(body, "channel"), "id"), root)
    trigger, response_url = body.get("trigger_id") or "", body.get("response_url") or ""
    if not isinstance(trigger, str) or not isinstance(response_url, str):
        raise Malformed("A shortcut has a value of the wrong kind.")
    return Shortcut(
        callback=_text(body, "callback_id"),
        person=_person(body),
        place=place,
        in_thread=in_thread,
        trigger=trigger,
        response_url=response_url,
    )


def turned(body: Mapping[str, Any], me: Identity) -> Turned:
    """The page that was asked for in a modal. Raises Malformed."""
    pressed, view = click(body, me), _mapping(body, "view")
    if not _PAGE.fullmatch(pressed.nonce):
        raise Malformed("A page has no number.")
    return Turned(page=int(pressed.nonce), person=pressed.person, view=_text(view, "id"))


def page(number: object) -> int:
    """The page that a client names; the first where it names none."""
    return int(number) if isinstance(number, str) and _PAGE.fullmatch(number) else 1


def permalink(me: Identity, place: Place) -> str | None:
    """The address of a thread's first message, or of the channel where there is no root."""
    if not me.url.startswith("https://") or not _ID.fullmatch(place.channel):
        return None
    channel = f"{me.url.rstrip('/')}/archives/{place.channel}"
    if not place.root:
        return channel
    return f"{channel}/p{place.root.replace('.', '')}" if _TS.fullmatch(place.root) else None


def readable(text: str, me: str) -> str:
    """What the person wrote: without the bot's own mention, Slack's tokens as plain text."""

    def shown(token: re.Match[str]) -> str:
        target, label = token[1], token[2] or ""
        if target == f"@{me}":
            return ""
        if target.startswith("@"):
            return f"<{target}>"
        if target.startswith("#"):
            return f"#{label or target[1:]}"
        if target.startswith("!"):
            return label or f"@{target[1:].split('^')[0]}"
        bare = target.removeprefix("mailto:")
        if label in (bare, target.removeprefix("http://")):  # Slack made a link of what was typed
            return label
        return target if label in ("", target) else f"{label} ({bare})"

    return html.unescape(_TOKEN.sub(shown, text)).strip()


def _for_us(body: Mapping[str, Any], me: Identity) -> bool:
    """Whether the event is for the workspace that we hold a token of (a shared channel's event
    names the sender's workspace outside and ours in its authorizations)."""
    granted = body.get("authorizations")
    grants = [body, *(granted if isinstance(granted, list) else ())]
    names = "enterprise_id" if me.whole else "team_id"
    return any(isinstance(one, Mapping) and one.get(names) == me.team for one in grants)


def _person(body: Mapping[str, Any]) -> Person:
    user = _mapping(body, "user")
    return Person(_id(user, "id"), _team(user, "team_id"))


def _pressed_at(body: Mapping[str, Any], me: Identity) -> Place | None:
    container = body.get("container")
    if not isinstance(container, Mapping) or container.get("type") != "message":
        return None
    channel = _id(_mapping(body, "channel"), "id")
    ts = _ts(container, "message_ts")
    root = _ts(container, "thread_ts") if container.get("thread_ts") else ts
    return Place(SURFACE, me.team, channel, root)


def _pressed_in(body: Mapping[str, Any]) -> tuple[str, str]:
    """The modal that the button is in: its id, and what we wrote into it."""
    view = body.get("view")
    if not isinstance(view, Mapping) or view.get("type") != "modal":
        return "", ""
    about = view.get("private_metadata") or ""
    if not isinstance(about, str):
        raise Malformed("A click in a modal has a value of the wrong kind.")
    return _text(view, "id"), about


def _selected(body: Mapping[str, Any]) -> tuple[str, ...]:
    """What is selected in the menu of a group's message; empty where there is no such menu."""
    if not body.get("state"):
        return ()
    values: list[str] = []
    for block in _mapping(_mapping(body, "state"), "values").values():
        if not isinstance(block, Mapping):
            raise Malformed("The state of a message has a block of the wrong kind.")
        menu = block.get(ACTION + SELECT)
        if menu is None:
            continue
        options = menu.get("selected_options") if isinstance(menu, Mapping) else None
        if not isinstance(options, list) or not all(isinstance(one, Mapping) for one in options):
            raise Malformed("What is selected in a message is of the wrong kind.")
        values += [_text(one, "value") for one in options]
    return tuple(values)


def _home(body: Mapping[str, Any]) -> int | None:
    view = body.get("view")
    if not isinstance(view, Mapping) or view.get("type") != "home":
        return None
    return page(view.get("private_metadata"))


def _mapping(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    if not isinstance(value, Mapping):
        raise Malformed(f"The payload has no {key}.")
    return value


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise Malformed(f"The payload has no {key}.")
    return value


def _id(body: Mapping[str, Any], key: str) -> str:
    value = _text(body, key)
    if not _ID.fullmatch(value):
        raise Malformed(f"The {key} of the payload is no id of Slack.")
    return value


def _team(body: Mapping[str, Any], key: str) -> str:
    return _id(body, key) if body.get(key) else ""


def _ts(body: Mapping[str, Any], key: str) -> str:
    value = _text(body, key)
    if not _TS.fullmatch(value):
        raise Malformed(f"The {key} of the payload is no time stamp of Slack.")
    return value
