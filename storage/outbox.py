"""The outbox: every post, edit and private word goes through a row, so that none is lost.

`waiting` is not sent; `sending` may have been sent (a crash or a dropped connection leaves it so,
and the next attempt looks for the row's nonce before it repeats); `sent` and `failed` are final.
What a row shows is drawn when it is sent: a reply from the text here, a card from its question.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import sqlalchemy as sa

from storage.database import Tx
from storage.place import Place
from storage.questions import QuestionRow
from storage.schema import outbox, postings, questions

OUT_OF_REACH = "out of reach: "  # how the error of such a row begins


class Action(StrEnum):
    POST = "post"
    EDIT = "edit"
    WHISPER = "whisper"  # to one person only
    STATUS = "status"  # what a chat is doing, shown beside its thread and not in it
    HOME = "home"  # a person's home page is drawn anew


class Priority(IntEnum):
    SETTLED = 0  # buttons that must go, refusals a person waits for
    POST = 1
    LIVE = 2  # progress: the latest wins
    STATUS = 3


@dataclass(frozen=True, slots=True)
class OutboxRow:
    id: int
    nonce: str
    chat_id: str | None
    action: str
    subject: str
    surface: str
    organisation: str
    channel: str
    root: str
    posting_id: str | None
    recipient: str | None
    text: str | None
    live: bool
    version: int
    priority: int
    call_id: str | None
    state: str
    attempts: int
    due_at: float
    lease_until: float
    error: str | None
    created_at: float

    @property
    def place(self) -> Place:
        return Place(self.surface, self.organisation, self.channel, self.root)


@dataclass(frozen=True, slots=True)
class PostingRow:
    id: str
    subject: str
    chat_id: str | None
    surface: str
    organisation: str
    channel: str
    root: str
    message_id: str
    version: int

    @property
    def place(self) -> Place:
        return Place(self.surface, self.organisation, self.channel, self.root)


def question_subject(question_id: str) -> str:
    return f"question:{question_id}"


def card_of(question: QuestionRow) -> str:
    """The subject of the card that asks it: its own, or one that it shares."""
    return question.card or question_subject(question.id)


def round_subject(message_id: int, number: int) -> str:
    """A card that asks for several calls of one response; `number` tells its cards apart."""
    return f"round:{message_id}.{number}"


def task_subject(call_id: str) -> str:
    return f"task:{call_id}"


def file_subject(file_id: str) -> str:
    return f"file:{file_id}"


def arguments_subject(call_id: str, digest: str) -> str:
    """The subject of the file with exactly these arguments of the call."""
    return f"arguments:{call_id}:{digest}"


def text_subject(subject: str, digest: str) -> str:
    """The subject of the file with a whole text, of which `subject` says the beginning."""
    return f"text:{subject}:{digest[:16]}"


async def bump(tx: Tx, subject: str) -> None:
    """What the subject shows has changed: a copy that is on its way is redrawn on arrival."""
    await tx.change(
        sa.update(outbox)
        .where(outbox.c.subject == subject, outbox.c.action == Action.POST)
        .values(version=outbox.c.version + 1)
    )


async def post(
    tx: Tx,
    place: Place,
    *,
    nonce: str,
    subject: str,
    now: float,
    chat_id: str | None = None,
    text: str | None = None,
    live: bool = False,
    call_id: str | None = None,
    priority: Priority = Priority.POST,
) -> None:
    """`live`: of a reply that still grows. `call_id`: the call that may not start while this is
    on its way (see calls.held_since)."""
    await tx.run(
        sa.insert(outbox).values(
            nonce=nonce,
            chat_id=chat_id,
            action=Action.POST,
            subject=subject,
            text=text,
            live=live,
            call_id=call_id,
            priority=priority,
            state="waiting",
            due_at=now,
            created_at=now,
            **place.columns(),
        )
    )


async def whisper(
    tx: Tx, place: Place, *, nonce: str, recipient: str, text: str, now: float, chat_id: str | None
) -> None:
    await tx.run(
        sa.insert(outbox).values(
            nonce=nonce,
            chat_id=chat_id,
            action=Action.WHISPER,
            subject=f"whisper:{nonce}",
            recipient=recipient,
            text=text,
            priority=Priority.SETTLED,
            state="waiting",
            due_at=now,
            created_at=now,
            **place.columns(),
        )
    )


async def show_status(tx: Tx, place: Place, *, nonce: str, chat_id: str, now: float) -> None:
    """Asks for what a chat is doing to be shown; it is looked up when it is sent. One row of a
    chat waits at most, and it is touched here, so that nobody sends it before this transaction
    has committed: what it would show is what was."""
    subject = f"status:{chat_id}"
    waiting = await tx.change(
        sa.update(outbox)
        .where(
            outbox.c.subject == subject,
            outbox.c.action == Action.STATUS,
            outbox.c.state == "waiting",
        )
        .values(due_at=now, attempts=0)
    )
    if waiting:
        return
    await tx.run(
        sa.insert(outbox).values(
            nonce=nonce,
            chat_id=chat_id,
            action=Action.STATUS,
            subject=subject,
            priority=Priority.STATUS,
            state="waiting",
            due_at=now,
            created_at=now,
            **place.columns(),
        )
    )


async def home(tx: Tx, place: Place, *, nonce: str, now: float) -> bool:
    """Asks for the home page of the person whose channel this is to be drawn anew. False: one that
    waits will show it. Locks nothing that another transaction holds, so that no decision waits for
    a page."""
    subject = f"home:{place.channel_key}"
    waiting = sa.select(outbox.c.id).where(
        outbox.c.subject == subject, outbox.c.action == Action.HOME, outbox.c.state == "waiting"
    )
    if await tx.value(waiting.limit(1).with_for_update(skip_locked=True)):
        return False
    await tx.run(
        sa.insert(outbox).values(
            nonce=nonce,
            action=Action.HOME,
            subject=subject,
            recipient=place.channel,
            priority=Priority.LIVE,
            state="waiting",
            due_at=now,
            created_at=now,
            **place.columns(),
        )
    )
    return True


async def drop(tx: Tx, row: OutboxRow) -> None:
    """Of a status, once it was shown or given up: nothing remains to be known of it."""
    await tx.change(sa.delete(outbox).where(outbox.c.id == row.id))


async def shows_other(tx: Tx, place: Place, message_id: str, subject: str) -> bool:
    """Whether a message is the recorded copy of another subject."""
    found = sa.select(sa.func.count()).where(
        postings.c.surface == place.surface,
        postings.c.organisation == place.organisation,
        postings.c.channel == place.channel,
        postings.c.message_id == message_id,
        postings.c.subject != subject,
    )
    return bool(await tx.value(found))


async def postings_of(tx: Tx, subject: str) -> list[PostingRow]:
    return await tx.rows(
        sa.select(postings)
        .where(postings.c.subject == subject)
        .order_by(postings.c.created_at, postings.c.id),
        PostingRow,
    )


async def posting(tx: Tx, posting_id: str) -> PostingRow | None:
    return await tx.first(sa.select(postings).where(postings.c.id == posting_id), PostingRow)


async def edit_all(
    tx: Tx, subject: str, *, priority: Priority, now: float, call_id: str | None = None
) -> list[str]:
    """Asks for every copy of a subject to be redrawn; waiting redraws of one copy become one.
    A copy that is still on its way is redrawn when it arrives (see `sent`). Returns the channel
    keys to wake."""
    channels = []
    for copy in await postings_of(tx, subject):
        await _edit(tx, copy, priority=priority, now=now, call_id=call_id)
        channels.append(copy.place.channel_key)
    return channels


async def _edit(
    tx: Tx, copy: PostingRow, *, priority: Priority, now: float, call_id: str | None
) -> None:
    merged = await tx.change(
        sa.update(outbox)
        .where(
            outbox.c.posting_id == copy.id,
            outbox.c.action == Action.EDIT,
            outbox.c.state == "waiting",
        )
        .values(
            priority=sa.case((outbox.c.priority < priority, outbox.c.priority), else_=priority),
            call_id=sa.func.coalesce(outbox.c.call_id, call_id),
            # What failed was what it showed before; a surface that asked to wait is waited for.
            due_at=sa.case((outbox.c.attempts > 0, now), else_=outbox.c.due_at),
            attempts=0,
        )
    )
    if merged:
        return
    await tx.run(
        sa.insert(outbox).values(
            nonce=f"{copy.id}.{await _count(tx, copy.id)}",
            chat_id=copy.chat_id,
            action=Action.EDIT,
            subject=copy.subject,
            posting_id=copy.id,
            priority=priority,
            call_id=call_id,
            state="waiting",
            due_at=now,
            created_at=now,
            **copy.place.columns(),
        )
    )


async def _count(tx: Tx, posting_id: str) -> int:
    found = sa.select(sa.func.count()).select_from(outbox).where(outbox.c.posting_id == posting_id)
    return int(await tx.value(found))


async def post_of(tx: Tx, subject: str) -> OutboxRow | None:
    """The row that posted (or will post) a subject: the record of a reply's text."""
    return await tx.first(
        sa.select(outbox).where(outbox.c.subject == subject, outbox.c.action == Action.POST),
        OutboxRow,
    )


async def rewrite(tx: Tx, row_id: int, text: str, *, live: bool = False) -> bool:
    """New text for a reply; False when it says that already. That it grows no more is news too."""
    return (
        await tx.change(
            sa.update(outbox)
            .where(outbox.c.id == row_id, sa.or_(outbox.c.text != text, outbox.c.live != live))
            .values(text=text, live=live, version=outbox.c.version + 1)
        )
        == 1
    )


def _of_channel(channel_key: str) -> tuple[sa.ColumnElement[bool], ...]:
    """The rows of a channel."""
    surface, _, rest = channel_key.partition(":")
    organisation, _, channel = rest.partition("/")
    return (
        outbox.c.surface == surface,
        outbox.c.organisation == organisation,
        outbox.c.channel == channel,
    )


def _in_order() -> sa.ColumnElement[bool]:
    """What the agent says in a chat is posted in its order: one that is to be tried again is not
    overtaken by the next part of its own text."""
    earlier = outbox.alias()
    return ~sa.exists().where(
        outbox.c.action == Action.POST,
        outbox.c.subject.startswith("reply:"),
        earlier.c.subject.startswith("reply:"),
        earlier.c.action == Action.POST,
        earlier.c.chat_id == outbox.c.chat_id,
        *(earlier.c[name] == outbox.c[name] for name in ("surface", "organisation", "channel")),
        earlier.c.state.in_(("waiting", "sending")),  # all of it in one index
        earlier.c.id < outbox.c.id,
    )


async def claim(
    tx: Tx, channel_key: str, *, now: float, until: float, quiet: bool
) -> OutboxRow | None:
    """The next row of a channel, marked `sending`. `quiet` leaves new posts for later: the pace.
    The returned row has the state before, so that `sending` means: look before repeating."""
    wanted = sa.select(outbox).where(
        *_of_channel(channel_key),
        sa.or_(
            sa.and_(outbox.c.state == "waiting", outbox.c.due_at <= now),
            sa.and_(outbox.c.state == "sending", outbox.c.lease_until <= now),
        ),
        _in_order(),
    )
    if quiet:
        wanted = wanted.where(outbox.c.action != Action.POST)
    row = await tx.first(
        wanted.order_by(outbox.c.priority, outbox.c.id).limit(1).with_for_update(skip_locked=True),
        OutboxRow,
    )
    if row is None:
        return None
    await tx.change(
        sa.update(outbox)
        .where(outbox.c.id == row.id)
        .values(state="sending", lease_until=until, attempts=outbox.c.attempts + 1)
    )
    return row


async def next_due(tx: Tx, channel_key: str, *, posts_from: float) -> float | None:
    """When the channel has something to send again; none: nothing is waiting. New posts go out
    from `posts_from` on: the pace."""
    at = sa.case((outbox.c.state == "waiting", outbox.c.due_at), else_=outbox.c.lease_until)
    paced = sa.and_(outbox.c.action == Action.POST, at < posts_from)
    due: float | None = await tx.value(
        sa.select(sa.func.min(sa.case((paced, posts_from), else_=at))).where(
            *_of_channel(channel_key),
            outbox.c.state.in_(("waiting", "sending")),
            _in_order(),
        )
    )
    return due


async def current_version(tx: Tx, subject: str) -> int:
    if subject.startswith("question:"):
        found = sa.select(questions.c.version).where(
            questions.c.id == subject.removeprefix("question:")
        )
    elif subject.startswith("round:"):  # whatever changes one of its questions changes the card
        found = sa.select(sa.func.sum(questions.c.version)).where(questions.c.card == subject)
    else:
        found = sa.select(outbox.c.version).where(
            outbox.c.subject == subject, outbox.c.action == Action.POST
        )
    return int(await tx.value(found) or 0)


async def holds(tx: Tx, row: OutboxRow) -> bool:
    """Whether what was claimed as `row` is still the claimer's: another one may have it since."""
    found = await tx.first(
        sa.select(outbox).where(outbox.c.id == row.id).with_for_update(), OutboxRow
    )
    return found is not None and (found.state, found.attempts) == ("sending", row.attempts + 1)


async def sent(
    tx: Tx,
    row: OutboxRow,
    *,
    posting_id: str,
    message_id: str,
    place: Place,
    version: int,
    now: float,
) -> None:
    """Records a delivery, at the place where it came to stand. What changed while it was
    on its way is asked to be redrawn."""
    await tx.change(
        sa.update(outbox)
        .where(outbox.c.id == row.id)
        .values(state="sent", error=None, settled_at=now)
    )
    if row.action in (Action.WHISPER, Action.HOME):
        return
    if row.action == Action.POST:
        await tx.insert_new(
            postings,
            id=posting_id,
            subject=row.subject,
            chat_id=row.chat_id,
            message_id=message_id,
            version=version,
            created_at=now,
            **place.columns(),
        )
    else:
        await tx.change(
            sa.update(postings)
            .where(postings.c.id == posting_id, postings.c.version < version)
            .values(version=version)
        )
    if await current_version(tx, row.subject) > version:
        copy = await posting(tx, posting_id)
        if copy is not None:
            await _edit(tx, copy, priority=Priority.SETTLED, now=now, call_id=row.call_id)


async def again(
    tx: Tx, row: OutboxRow, *, at: float, error: str, maybe_sent: bool, attempts: int
) -> None:
    """Tries again at `at`; `maybe_sent` keeps it `sending`, so that its nonce is looked up."""
    change = sa.update(outbox).where(outbox.c.id == row.id)
    if maybe_sent:
        change = change.values(state="sending", lease_until=at)
    else:
        change = change.values(state="waiting", due_at=at)
    await tx.change(change.values(error=error[:500], attempts=attempts))


async def give_up(
    tx: Tx, row: OutboxRow, *, error: str, now: float, out_of_reach: bool = False
) -> None:
    """`out_of_reach`: nothing else got there either, so that it may be revived."""
    text = f"{OUT_OF_REACH}{error}" if out_of_reach else error
    await tx.change(
        sa.update(outbox)
        .where(outbox.c.id == row.id)
        .values(state="failed", error=text[:500], settled_at=now)
    )


async def revive(
    tx: Tx,
    *,
    now: float,
    surface: str | None = None,
    organisation: str | None = None,
    channel: str | None = None,
) -> list[str]:
    """What was given up out of reach and still counts is sent once more: the cards of questions
    that are open, and of each copy that stands the last redraw. Returns the channel keys to wake.
    """
    asked = sa.func.coalesce(questions.c.card, sa.literal("question:") + questions.c.id)
    still_open = sa.exists().where(questions.c.state == "open", asked == outbox.c.subject)
    later = outbox.alias()
    last = ~sa.exists().where(later.c.posting_id == outbox.c.posting_id, later.c.id > outbox.c.id)
    wanted = sa.select(outbox).where(
        outbox.c.state == "failed",
        outbox.c.error.startswith(OUT_OF_REACH, autoescape=True),
        sa.or_(
            sa.and_(outbox.c.action == Action.POST, still_open),
            sa.and_(outbox.c.action == Action.EDIT, last),
        ),
    )
    for column, value in (
        (outbox.c.surface, surface),
        (outbox.c.organisation, organisation),
        (outbox.c.channel, channel),
    ):
        wanted = wanted if value is None else wanted.where(column == value)
    rows = await tx.rows(wanted.with_for_update(skip_locked=True), OutboxRow)
    for row in rows:
        # `sending`: whatever did get through before is looked for.
        await tx.change(
            sa.update(outbox)
            .where(outbox.c.id == row.id)
            .values(state="sending", lease_until=now, attempts=0, error=None, settled_at=None)
        )
    return sorted({row.place.channel_key for row in rows})


async def is_arriving(tx: Tx, subject: str, place: Place) -> bool:
    """Whether a post of the subject to this place is on its way: it may stand there already."""
    return bool(
        await tx.value(
            sa.select(sa.func.count())
            .select_from(outbox)
            .where(
                outbox.c.subject == subject,
                outbox.c.action == Action.POST,
                outbox.c.state == "sending",
                outbox.c.surface == place.surface,
                outbox.c.organisation == place.organisation,
                outbox.c.channel == place.channel,
                outbox.c.root == place.root,
            )
        )
    )


async def release_all(tx: Tx) -> int:
    """At the start of an embedded process: whatever was being sent by the dead one is looked up
    and sent now, not when its lease runs out."""
    return await tx.change(
        sa.update(outbox).where(outbox.c.state == "sending").values(lease_until=0.0)
    )


async def release_from(tx: Tx, channel_key: str) -> None:
    """As `release_all`, of one channel, whose sender is dead."""
    await tx.change(
        sa.update(outbox)
        .where(
            *_of_channel(channel_key),
            outbox.c.state == "sending",
        )
        .values(lease_until=0.0)
    )


async def channels_waiting(tx: Tx) -> list[str]:
    found = await tx.run(
        sa.select(outbox.c.surface, outbox.c.organisation, outbox.c.channel)
        .where(outbox.c.state.in_(("waiting", "sending")))
        .distinct()
    )
    return [Place(row.surface, row.organisation, row.channel, "").channel_key for row in found]


async def failures(tx: Tx, chat_id: str) -> list[OutboxRow]:
    """What of a chat was given up, oldest first."""
    return await tx.rows(
        sa.select(outbox)
        .where(outbox.c.state == "failed", outbox.c.chat_id == chat_id)
        .order_by(outbox.c.id),
        OutboxRow,
    )
