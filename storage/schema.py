"""The tables. Times are unix seconds (float) from the one injected clock; ids are text of ours.

A test holds the migrations to this file on SQLite and PostgreSQL.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table, Text, UniqueConstraint

from storage.database import Json

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Time = sa.Double
Id = String(80)
Serial = sa.BigInteger().with_variant(Integer, "sqlite")  # SQLite autoincrements INTEGER only


def _id() -> Column[str]:
    return Column("id", Id, primary_key=True)


def _serial() -> Column[int]:
    return Column("id", Serial, primary_key=True, autoincrement=True)


def _chat(nullable: bool = False) -> Column[str]:
    return Column("chat_id", Id, ForeignKey("chats.id"), nullable=nullable)


chats = Table(
    "chats",
    metadata,
    _id(),
    Column("surface", String(20), nullable=False),
    Column("organisation", String(80), nullable=False),
    Column("channel", String(200), nullable=False),
    Column("root", String(200), nullable=False),
    Column("agent", String(80), nullable=False),
    Column("requester", String(200), nullable=False),
    Column("owner", String(80)),
    Column("lease_until", Time, nullable=False, default=0.0),
    Column("epoch", Integer, nullable=False, default=0),
    Column("stirs", Integer, nullable=False, default=0),
    Column("wake_at", Time),
    Column("cancelled_by", String(200)),
    Column("rounds", Integer, nullable=False, default=0),
    Column("created_at", Time, nullable=False),
    UniqueConstraint("surface", "organisation", "channel", "root"),
)

messages = Table(
    "messages",
    metadata,
    _serial(),
    _chat(),
    Column("position", Integer),  # its place in the history; none while it is queued
    Column("kind", String(10), nullable=False),  # request | response
    Column("body", Text, nullable=False),  # a provider message (JSON), final once in the history
    Column("author", String(200)),
    Column("source", String(200)),  # the surface's id of what the person wrote
    Column("created_at", Time, nullable=False),
    Column("on_behalf", Json),  # those who count as having asked, where it is not the author
    UniqueConstraint("chat_id", "position"),
    Index("ix_messages_chat", "chat_id"),
)

summaries = Table(
    "summaries",
    metadata,
    _serial(),
    _chat(),
    Column("through", Integer, nullable=False),  # the last position it covers
    Column("text", Text, nullable=False),
    Column("created_at", Time, nullable=False),
    Index("ix_summaries_chat", "chat_id"),
)

turns = Table(
    "turns",
    metadata,
    _serial(),
    _chat(),
    Column("message_id", Serial, ForeignKey("messages.id")),
    Column("model", String(120), nullable=False),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Column("cache_read_tokens", Integer, nullable=False),
    Column("cache_write_tokens", Integer, nullable=False),
    Column("cost", String(40)),  # decimal US dollars; none: unknown
    Column("seconds", Time, nullable=False),
    Column("created_at", Time, nullable=False),
    Index("ix_turns_chat", "chat_id"),
)

tool_calls = Table(
    "tool_calls",
    metadata,
    _id(),
    _chat(),
    Column("message_id", Serial, ForeignKey("messages.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("provider_id", Text, nullable=False),
    Column("server", String(80), nullable=False, default=""),
    Column("name", String(200), nullable=False),
    Column("args", Json, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("schema_digest", String(64), nullable=False),
    Column("state", String(12), nullable=False),
    Column("attempt", Integer, nullable=False, default=0),
    Column("epoch", Integer, nullable=False, default=0),
    Column("allowed_by", String(200)),  # who or which rule let it run
    Column("resume", Json),  # what a server wants echoed when the call goes on
    Column("task", Json),  # the server's task, when the call runs in the background
    Column("wake_at", Time),
    Column("outcome", String(20)),
    Column("result", Json),
    Column("note", Json),  # what a person said when declining what the tool asked
    Column("askers", Json),  # those whose messages it came of
    Column("edited", Json),  # the arguments as the model gave them, where a person changed them
    Column("created_at", Time, nullable=False),
    Column("claimed_at", Time),
    Column("settled_at", Time),
    UniqueConstraint("message_id", "position"),
    Index("ix_tool_calls_chat_state", "chat_id", "state"),
)

questions = Table(
    "questions",
    metadata,
    Column("id", String(160), primary_key=True),
    Column("nonce", Id, nullable=False, unique=True),
    _chat(nullable=True),
    Column("call_id", Id, ForeignKey("tool_calls.id")),
    Column("purpose", String(12), nullable=False),  # approval | ask | outcome
    Column("kind", String(10), nullable=False),  # approval | form | page
    Column("ordinal", Integer, nullable=False, default=0),
    Column("fingerprint", String(64), nullable=False, default=""),
    Column("body", Json, nullable=False),
    Column("audience", Json, nullable=False),  # the policy as it was shown
    Column("digest", String(64), nullable=False, default=""),
    Column("state", String(12), nullable=False),
    Column("version", Integer, nullable=False, default=1),  # bumped by whatever redraws the card
    Column("response", Json),
    Column("settled_by", String(200)),
    Column("settled_name", String(200)),
    Column("opened_at", Time, nullable=False),
    Column("remind_at", Time),
    Column("expires_at", Time),
    Column("settled_at", Time),
    Column("card", String(200)),  # the subject of a card that asks for several; none: its own
    Column("reminders", Integer, nullable=False, server_default="0"),  # that went out
    Column("escalate_at", Time),
    Column("escalated_at", Time),  # since when the next approvers may decide too
    Index("ix_questions_chat_state", "chat_id", "state"),
    Index("ix_questions_call", "call_id"),
    Index("ix_questions_state", "state"),
    Index("ix_questions_card", "card"),
)

decisions = Table(
    "decisions",
    metadata,
    _serial(),
    Column("question_id", String(160), ForeignKey("questions.id"), nullable=False),
    Column("actor", String(200), nullable=False),
    Column("verb", String(12), nullable=False),
    Column("response", Json),
    Column("via", String(40), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created_at", Time, nullable=False),
    UniqueConstraint("question_id", "actor"),
)

steps = Table(
    "steps",
    metadata,
    Column("call_id", Id, ForeignKey("tool_calls.id"), primary_key=True),
    Column("key", String(200), primary_key=True),
    Column("value", Json),
    Column("created_at", Time, nullable=False),
)

files = Table(
    "files",
    metadata,
    _id(),
    Column("call_id", Id, ForeignKey("tool_calls.id"), nullable=False),
    Column("name", String(200), nullable=False),
    Column("mime_type", String(200), nullable=False),
    Column("data", sa.LargeBinary, nullable=False),
    Column("created_at", Time, nullable=False),
    Index("ix_files_call_id", "call_id"),
)

attachments = Table(  # what people attach to a message; what calls produce is in `files`
    "attachments",
    metadata,
    _id(),
    _chat(),
    Column("message_id", Serial, ForeignKey("messages.id"), nullable=False),
    Column("reference", Json, nullable=False),  # by which the surface fetches it
    Column("name", Text, nullable=False),
    Column("mime_type", String(200), nullable=False),  # what its content turned out to be
    Column("size", sa.BigInteger, nullable=False),
    Column("state", String(10), nullable=False),  # waiting | ready | refused
    Column("data", sa.LargeBinary),
    Column("note", Text),  # why it was refused, in a sentence
    Column("attempts", Integer, nullable=False, default=0),
    Column("created_at", Time, nullable=False),
    Index("ix_attachments_chat_state", "chat_id", "state"),
    Index("ix_attachments_message_id", "message_id"),
)

people = Table(  # by which a person of several surfaces is known to be one
    "people",
    metadata,
    Column("key", String(200), primary_key=True),
    Column("email_digest", String(64), nullable=False),  # of the address that the surface verified
    Column("seen_at", Time, nullable=False),
    Index("ix_people_email_digest", "email_digest"),
)

homes = Table(  # the home pages that people have open, to be drawn anew when something settles
    "homes",
    metadata,
    Column("surface", String(20), primary_key=True),
    Column("organisation", String(80), primary_key=True),
    Column("user", String(200), primary_key=True),
    Column("page", Integer, nullable=False),
    Column("opened_at", Time, nullable=False),
)

rules = Table(
    "rules",
    metadata,
    _id(),
    Column("effect", String(8), nullable=False),  # allow | ask | deny
    Column("scope", String(12), nullable=False),  # chat | channel | organisation | surface
    Column("scope_key", String(400), nullable=False),
    Column("requester", String(200)),
    Column("server", String(80), nullable=False, default=""),
    Column("tool", String(200), nullable=False),
    Column("schema_digest", String(64), nullable=False),
    Column("conditions", Json, nullable=False),
    Column("created_by", String(200), nullable=False),
    Column("created_name", String(200), nullable=False),
    Column("created_at", Time, nullable=False),
    Column("expires_at", Time),
    Column("uses_left", Integer),
    Column("uses", Integer, nullable=False, default=0),
    Column("used_at", Time),
    Column("revoked_at", Time),
    Column("revoked_by", String(200)),
    Column("note", Text),  # why it is there, as its maker says
    Index("ix_rules_scope_key", "scope_key"),
)

postings = Table(
    "postings",
    metadata,
    _id(),
    Column("subject", String(200), nullable=False),
    _chat(nullable=True),
    Column("surface", String(20), nullable=False),
    Column("organisation", String(80), nullable=False),
    Column("channel", String(200), nullable=False),
    Column("root", String(200), nullable=False),
    Column("message_id", String(200), nullable=False),
    Column("version", Integer, nullable=False),  # of the subject, as last drawn there
    Column("created_at", Time, nullable=False),
    UniqueConstraint("surface", "organisation", "channel", "message_id"),
    Index("ix_postings_subject", "subject"),
)

outbox = Table(
    "outbox",
    metadata,
    _serial(),
    Column("nonce", Id, nullable=False, unique=True),
    _chat(nullable=True),
    Column("action", String(10), nullable=False),  # post | edit | whisper | status | home
    Column("subject", String(200), nullable=False),
    Column("surface", String(20), nullable=False),
    Column("organisation", String(80), nullable=False),
    Column("channel", String(200), nullable=False),
    Column("root", String(200), nullable=False),
    Column("posting_id", Id, ForeignKey("postings.id")),
    Column("recipient", String(200)),
    Column("text", Text),  # of a reply or whisper; a card is drawn from its question's row
    Column("version", Integer, nullable=False, default=1),
    Column("priority", Integer, nullable=False),
    Column("call_id", Id),  # the call that may not start before this is delivered
    Column("state", String(10), nullable=False),  # waiting | sending | sent | failed
    Column("attempts", Integer, nullable=False, default=0),
    Column("due_at", Time, nullable=False),
    Column("lease_until", Time, nullable=False, default=0.0),
    Column("error", Text),
    Column("created_at", Time, nullable=False),
    Column("settled_at", Time),
    Column("live", sa.Boolean, nullable=False, server_default=sa.false()),  # of a reply: it grows
    Index("ix_outbox_channel_state", "surface", "organisation", "channel", "state"),
    Index("ix_outbox_subject", "subject"),
    Index("ix_outbox_call", "call_id"),
)

seen = Table(
    "seen",
    metadata,
    Column("key", String(300), primary_key=True),
    Column("created_at", Time, nullable=False),
    Index("ix_seen_created_at", "created_at"),
)

audit = Table(
    "audit",
    metadata,
    _serial(),
    Column("event", String(40), nullable=False),
    _chat(nullable=True),
    Column("call_id", Id),
    Column("question_id", String(160)),
    Column("actor", String(200)),
    Column("via", String(40)),
    Column("detail", Json, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("previous", String(64)),  # the hash of the row before it
    Column("hash", String(64)),
    Index("ix_audit_chat_id", "chat_id"),
    Index("uq_audit_previous", "previous", unique=True),  # one chain: it cannot fork
)

wakes = Table(
    "wakes",
    metadata,
    Column("job", String(20), primary_key=True),
    Column("key", String(400), primary_key=True),
    Column("due_at", Time, nullable=False),
    Column("seq", Integer, nullable=False),  # moves when woken: a wake during a run is seen
    Column("lease_until", Time, nullable=False),
    Column("tries", Integer, nullable=False),
    Index("ix_wakes_due_at", "due_at"),
)

paces = Table(
    "paces",
    metadata,
    Column("channel", String(400), primary_key=True),
    Column("in_hand", sa.Double, nullable=False),
    Column("as_of", Time, nullable=False),
    Column("quiet_until", Time, nullable=False),
)
