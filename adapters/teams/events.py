"""What Teams sends, translated: pure functions from activities to what a person did.

An activity is the connector's own word, once its token is checked: who and where are read from it.
What travels through a client (`value`: the data of a button and its inputs) names a question by its
nonce and is believed in nothing else. A `Malformed` activity is refused as a whole."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from bot.surface import Changed, FileRef, Place
from storage.conversations import Conversation

SURFACE: Final = "teams"
WHOLE: Final = "chat"  # the root of a chat that has no threads
CHANNEL: Final = "channel"  # what Teams calls a conversation that has some
PERSONAL: Final = "personal"
NONCE: Final = "interlock"  # of the data of a button of ours
VERB: Final = "do"
PAGE: Final = "page"  # that a button leads to
HOME: Final = "home"  # it stands on a list of questions of many threads

_ID: Final = re.compile(r"[\w:@.=+|~-]{1,200}", re.ASCII)
_THREAD: Final = re.compile(r"([^;]+)(?:;messageid=([^;]+))?")
_OBJECT: Final = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")
_KINDS: Final = (PERSONAL, "groupChat", CHANNEL)
_AT: Final = re.compile(r"<at(?:\s[^<>]*)?>(.*?)</at>", re.DOTALL)
_FILE: Final = "application/vnd.microsoft.teams.file.download.info"
_PAGES: Final = 100_000
_URL: Final = 8_000  # characters of an address that is kept
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


class Malformed(ValueError):
    """An activity in a shape that Teams does not send; the text quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person as Teams authenticated them: `user` is their Entra object id, `member` the id under
    which this bot knows them."""

    user: str
    member: str
    tenant: str


@dataclass(frozen=True, slots=True)
class Heard:
    """Something a person said to the bot, or where it listens. `named`: it mentions the bot.
    `private`: nobody else sees it, as a slash command (platforms/teams.md 6).
    `keys`: names under which it may come again; `content`: what is the same about it then, even
    when Teams gives it another id."""

    keys: tuple[str, ...]
    content: tuple[str, ...]
    conversation: Conversation
    place: Place
    person: Person
    text: str
    named: bool
    source: str
    files: tuple[FileRef, ...] = ()
    private: bool = False

    @property
    def starts(self) -> bool:
        return self.named or self.conversation.kind == PERSONAL


@dataclass(frozen=True, slots=True)
class Edited:
    """A person edited or deleted what they wrote."""

    conversation: Conversation
    change: Changed


@dataclass(frozen=True, slots=True)
class Pressed:
    """A button of a card. `inputs` are what stood in its fields; `invoked`: Teams waits for what is
    shown instead of the card. `message` is the card's own id. `page` is the one that the button
    leads to; `home`: it stands on a list of what waits for the person anywhere."""

    verb: str
    nonce: str
    inputs: Mapping[str, Any]
    conversation: Conversation
    place: Place
    person: Person
    message: str
    invoked: bool
    page: int = 1
    home: bool = False

    @property
    def within(self) -> Place:
        """Where the question must stand: there, or for a list anywhere in the tenant."""
        if self.home:
            return Place(SURFACE, self.conversation.organisation, "", "")
        return self.place


@dataclass(frozen=True, slots=True)
class Present:
    """The bot is in a conversation (or, `gone`, not any more). `added`: it has just come there."""

    conversation: Conversation
    gone: bool = False
    added: bool = False


Event = Heard | Edited | Pressed | Present


def read(activity: Mapping[str, Any], tenant: str) -> Event | None:
    """What happened; None for what is nobody's business. `tenant` as the gate read it. Raises
    Malformed."""
    match activity.get("type"):
        case "message" if isinstance(activity.get("value"), Mapping) and not activity.get("text"):
            return _submitted(activity, tenant)
        case "message":
            return _heard(activity, tenant)
        case "invoke" if activity.get("name") == "adaptiveCard/action":
            return _invoked(activity, tenant)
        case "messageUpdate" | "messageDelete" as kind:
            return _edited(activity, tenant, deleted=kind == "messageDelete")
        case "installationUpdate":
            action = str(activity.get("action", ""))
            conversation = _conversation(activity, tenant)[0]
            return Present(conversation, action.startswith("remove"), action.startswith("add"))
        case "conversationUpdate":
            conversation = _conversation(activity, tenant)[0]
            gone, added = (
                _names(activity.get(key), conversation.bot)
                for key in ("membersRemoved", "membersAdded")
            )
            return Present(conversation, gone, added)
        case _:
            return None


def _names(members: object, bot: str) -> bool:
    return isinstance(members, list) and any(
        isinstance(one, Mapping) and one.get("id") == bot for one in members
    )


def _heard(activity: Mapping[str, Any], tenant: str) -> Heard | None:
    person = _person(activity, tenant)
    if person is None:
        return None
    conversation, root = _conversation(activity, tenant)
    text, named = said(activity, conversation.bot)
    source = _id(activity, "id")
    place = _place(conversation, root or source)
    return Heard(
        keys=(_key(conversation, source),),
        content=(
            conversation.organisation,
            conversation.channel,
            root if root != source else "",
            person.user,
            text,
        ),
        conversation=conversation,
        place=place,
        person=person,
        text=text,
        named=named,
        source=source,
        private=_targeted(activity),
        files=_files(activity, conversation.kind),
    )


def _targeted(activity: Mapping[str, Any]) -> bool:
    recipient = activity.get("recipient")
    return isinstance(recipient, Mapping) and recipient.get("isTargeted") is True


def _edited(activity: Mapping[str, Any], tenant: str, *, deleted: bool) -> Edited | None:
    if _person(activity, tenant) is None:
        return None
    conversation, root = _conversation(activity, tenant)
    source = _id(activity, "id")
    at = activity.get("timestamp")
    how = "deleted" if deleted else f"edited/{storable(at) if isinstance(at, str) else ''}"
    change = Changed(
        keys=(_key(conversation, f"{source}/{how}"),),
        place=_place(conversation, root or source),
        source=source,
        text=None if deleted else said(activity, conversation.bot)[0],
    )
    return Edited(conversation, change)


def _invoked(activity: Mapping[str, Any], tenant: str) -> Pressed:
    value = activity.get("value")
    action = value.get("action") if isinstance(value, Mapping) else None
    if not isinstance(action, Mapping):
        raise Malformed("A click has no action.")
    return _pressed(activity, tenant, action.get("data"), action.get("verb"), invoked=True)


def _submitted(activity: Mapping[str, Any], tenant: str) -> Pressed:
    return _pressed(activity, tenant, activity["value"], None, invoked=False)


def _pressed(
    activity: Mapping[str, Any], tenant: str, data: object, verb: object, *, invoked: bool
) -> Pressed:
    if not isinstance(data, Mapping):
        raise Malformed("A click has no data.")
    verb = data.get(VERB) if verb is None else verb
    nonce = data.get(NONCE)
    if not isinstance(verb, str) or not isinstance(nonce, str) or len(nonce) > 200:
        raise Malformed("A click names no question.")
    person = _person(activity, tenant)
    if person is None:
        raise Malformed("A click is nobody's.")
    conversation, root = _conversation(activity, tenant)
    message = activity.get("replyToId")
    message = message if isinstance(message, str) and _ID.fullmatch(message) else ""
    if conversation.kind == CHANNEL and not root:
        root = message  # the card itself begins the thread
    return Pressed(
        verb=verb,
        nonce=storable(nonce),
        inputs={key: storable(one) if isinstance(one, str) else one for key, one in data.items()},
        conversation=conversation,
        place=_place(conversation, root),
        person=person,
        message=message,
        invoked=invoked,
        page=page if type(page := data.get(PAGE)) is int and 1 <= page < _PAGES else 1,
        home=data.get(HOME) is True,
    )


def said(activity: Mapping[str, Any], bot: str) -> tuple[str, bool]:
    """What the person wrote without the mention that calls the bot, and whether it was mentioned.
    Only the one at the beginning is taken away: the SDK deletes the bot's name everywhere. Raises
    Malformed."""
    text = activity.get("text") or ""
    entities = activity.get("entities") or []
    if not isinstance(text, str) or not isinstance(entities, list):
        raise Malformed("The text of a message is no text.")
    named = False
    for entity in entities:
        if not isinstance(entity, Mapping) or entity.get("type") != "mention":
            continue
        mentioned, written = entity.get("mentioned"), entity.get("text")
        if not isinstance(mentioned, Mapping) or mentioned.get("id") != bot:
            continue
        begins = text.lstrip()
        if not named and isinstance(written, str) and written and begins.startswith(written):
            text = begins[len(written) :]
        named = True
    plain = html.unescape(_AT.sub(lambda found: f"@{found[1]}", text)).replace("\xa0", " ")
    return storable(plain).strip(), named


def _files(activity: Mapping[str, Any], kind_of_chat: str) -> tuple[FileRef, ...]:
    """The files of a message. Only one that is attached in a personal chat comes with an address;
    of the others the name is kept, so that it is said that they were not read."""
    given = activity.get("attachments")
    found = []
    for one in given if isinstance(given, list) else ():
        kind = one.get("contentType") if isinstance(one, Mapping) else None
        if not isinstance(kind, str) or not (kind == _FILE or kind.startswith("image/")):
            continue
        name = one.get("name")
        name = storable(name)[:200] if isinstance(name, str) and name else "a file"
        address = _address(one) if kind == _FILE and kind_of_chat == PERSONAL else ""
        reference = {"url": address} if address else {}
        found.append(FileRef(name, "" if kind == _FILE else kind[:100], 0, reference))
    return tuple(found[:20])


def _address(attachment: Mapping[str, Any]) -> str:
    """Where a file can be fetched, as its message says; judged where it is fetched (files)."""
    content = attachment.get("content")
    url = content.get("downloadUrl") if isinstance(content, Mapping) else None
    return url if isinstance(url, str) and url.isascii() and len(url) <= _URL else ""


def _conversation(activity: Mapping[str, Any], tenant: str) -> tuple[Conversation, str]:
    """The conversation, and the root of its thread where it has threads."""
    told = activity.get("conversation")
    if not isinstance(told, Mapping):
        raise Malformed("An activity has no conversation.")
    found = _THREAD.fullmatch(told["id"]) if isinstance(told.get("id"), str) else None
    if found is None or not all(_ID.fullmatch(part) for part in found.groups() if part):
        raise Malformed("An activity has no id of a conversation.")
    kind = told.get("conversationType")
    if kind not in _KINDS:
        kind = CHANNEL if found[2] else "groupChat" if told.get("isGroup") else PERSONAL
    recipient = activity.get("recipient")
    bot = _id(recipient, "id") if isinstance(recipient, Mapping) else ""
    if not bot:
        raise Malformed("An activity is sent to nobody.")
    conversation = Conversation(
        surface=SURFACE,
        organisation=tenant,
        channel=found[1],
        kind=str(kind),
        address=str(activity["serviceUrl"]),
        bot=bot,
    )
    return conversation, (found[2] or "") if kind == CHANNEL else WHOLE


def thread_of(place: Place) -> str:
    """The whole id of a thread, by which Teams is told where to post."""
    if place.root == WHOLE or not place.root:
        return place.channel
    return f"{place.channel};messageid={place.root}"


def address_of(place: Place, web: str) -> str | None:
    """Where a thread of a channel is opened; of other chats nothing is known that opens them."""
    if place.root in ("", WHOLE):
        return None
    channel, root = quote(place.channel, safe=""), quote(place.root, safe="")
    query = urlencode({"tenantId": place.organisation, "parentMessageId": place.root})
    return f"{web}/l/message/{channel}/{root}?{query}"


def is_person(place: Place) -> bool:
    """Whether the place is a person (bot.surface.Surface.direct), who has no chat yet."""
    return not place.root and _OBJECT.fullmatch(place.channel) is not None


def _place(conversation: Conversation, root: str) -> Place:
    return Place(SURFACE, conversation.organisation, conversation.channel, root)


def _person(activity: Mapping[str, Any], tenant: str) -> Person | None:
    """Who did it; None for bots and for whoever has no account in Entra."""
    sender = activity.get("from")
    if not isinstance(sender, Mapping):
        raise Malformed("An activity is sent by nobody.")
    user, member = sender.get("aadObjectId"), sender.get("id")
    if sender.get("role") in ("bot", "skill") or not isinstance(user, str):
        return None
    if not _OBJECT.fullmatch(user) or not isinstance(member, str) or not _ID.fullmatch(member):
        raise Malformed("An activity is sent by somebody without an id.")
    return None if member.startswith("28:") else Person(user.lower(), member, tenant)


def _key(conversation: Conversation, what: str) -> str:
    """A name for something that happened there, short enough to be kept whatever its ids are."""
    digest = hashlib.sha256(f"{conversation.channel}\n{what}".encode()).hexdigest()
    return f"{SURFACE}:{conversation.organisation}/{digest}"


def _id(told: Mapping[str, Any], key: str) -> str:
    value = told.get(key)
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise Malformed(f"The {key} of an activity is none.")
    return value


def storable(text: str) -> str:
    """The text as every database takes it."""
    return _UNSTORABLE.sub("\ufffd", text)
