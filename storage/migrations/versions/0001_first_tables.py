"""first tables"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "chats",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("surface", sa.String(length=20), nullable=False),
        sa.Column("organisation", sa.String(length=80), nullable=False),
        sa.Column("channel", sa.String(length=200), nullable=False),
        sa.Column("root", sa.String(length=200), nullable=False),
        sa.Column("agent", sa.String(length=80), nullable=False),
        sa.Column("requester", sa.String(length=200), nullable=False),
        sa.Column("owner", sa.String(length=80), nullable=True),
        sa.Column("lease_until", sa.Double(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("stirs", sa.Integer(), nullable=False),
        sa.Column("wake_at", sa.Double(), nullable=True),
        sa.Column("cancelled_by", sa.String(length=200), nullable=True),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chats")),
        sa.UniqueConstraint(
            "surface",
            "organisation",
            "channel",
            "root",
            name=op.f("uq_chats_surface_organisation_channel_root"),
        ),
    )
    op.create_table(
        "rules",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("effect", sa.String(length=8), nullable=False),
        sa.Column("scope", sa.String(length=12), nullable=False),
        sa.Column("scope_key", sa.String(length=400), nullable=False),
        sa.Column("requester", sa.String(length=200), nullable=True),
        sa.Column("server", sa.String(length=80), nullable=False),
        sa.Column("tool", sa.String(length=200), nullable=False),
        sa.Column("schema_digest", sa.String(length=64), nullable=False),
        sa.Column("conditions", sa.Text(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_name", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("uses_left", sa.Integer(), nullable=True),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("used_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.Column("revoked_by", sa.String(length=200), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rules")),
    )
    op.create_index("ix_rules_scope_key", "rules", ["scope_key"], unique=False)

    op.create_table(
        "seen",
        sa.Column("key", sa.String(length=300), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_seen")),
    )
    op.create_index("ix_seen_created_at", "seen", ["created_at"], unique=False)

    op.create_table(
        "wakes",
        sa.Column("job", sa.String(length=20), nullable=False),
        sa.Column("key", sa.String(length=400), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.Double(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job", "key", name=op.f("pk_wakes")),
    )
    op.create_index("ix_wakes_due_at", "wakes", ["due_at"], unique=False)

    op.create_table(
        "audit",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("event", sa.String(length=40), nullable=False),
        sa.Column("chat_id", sa.String(length=80), nullable=True),
        sa.Column("call_id", sa.String(length=80), nullable=True),
        sa.Column("question_id", sa.String(length=160), nullable=True),
        sa.Column("actor", sa.String(length=200), nullable=True),
        sa.Column("via", sa.String(length=40), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("previous", sa.String(length=64), nullable=True),
        sa.Column("hash", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(["chat_id"], ["chats.id"], name=op.f("fk_audit_chat_id_chats")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index("ix_audit_chat_id", "audit", ["chat_id"], unique=False)

    op.create_table(
        "messages",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("chat_id", sa.String(length=80), nullable=False),
        sa.Column("position", sa.Integer(), nullable=True),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("author", sa.String(length=200), nullable=True),
        sa.Column("source", sa.String(length=200), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["chat_id"], ["chats.id"], name=op.f("fk_messages_chat_id_chats")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
        sa.UniqueConstraint("chat_id", "position", name=op.f("uq_messages_chat_id_position")),
    )
    op.create_index("ix_messages_chat", "messages", ["chat_id"], unique=False)

    op.create_table(
        "postings",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("subject", sa.String(length=200), nullable=False),
        sa.Column("chat_id", sa.String(length=80), nullable=True),
        sa.Column("surface", sa.String(length=20), nullable=False),
        sa.Column("organisation", sa.String(length=80), nullable=False),
        sa.Column("channel", sa.String(length=200), nullable=False),
        sa.Column("root", sa.String(length=200), nullable=False),
        sa.Column("message_id", sa.String(length=200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["chat_id"], ["chats.id"], name=op.f("fk_postings_chat_id_chats")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_postings")),
        sa.UniqueConstraint(
            "surface",
            "organisation",
            "channel",
            "message_id",
            name=op.f("uq_postings_surface_organisation_channel_message_id"),
        ),
    )
    op.create_index("ix_postings_subject", "postings", ["subject"], unique=False)

    op.create_table(
        "summaries",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("chat_id", sa.String(length=80), nullable=False),
        sa.Column("through", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["chat_id"], ["chats.id"], name=op.f("fk_summaries_chat_id_chats")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_summaries")),
    )
    op.create_index("ix_summaries_chat", "summaries", ["chat_id"], unique=False)

    op.create_table(
        "outbox",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("nonce", sa.String(length=80), nullable=False),
        sa.Column("chat_id", sa.String(length=80), nullable=True),
        sa.Column("action", sa.String(length=10), nullable=False),
        sa.Column("subject", sa.String(length=200), nullable=False),
        sa.Column("surface", sa.String(length=20), nullable=False),
        sa.Column("organisation", sa.String(length=80), nullable=False),
        sa.Column("channel", sa.String(length=200), nullable=False),
        sa.Column("root", sa.String(length=200), nullable=False),
        sa.Column("posting_id", sa.String(length=80), nullable=True),
        sa.Column("recipient", sa.String(length=200), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("call_id", sa.String(length=80), nullable=True),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.Column("lease_until", sa.Double(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("settled_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["chat_id"], ["chats.id"], name=op.f("fk_outbox_chat_id_chats")),
        sa.ForeignKeyConstraint(
            ["posting_id"], ["postings.id"], name=op.f("fk_outbox_posting_id_postings")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sa.UniqueConstraint("nonce", name=op.f("uq_outbox_nonce")),
    )
    op.create_index("ix_outbox_call", "outbox", ["call_id"], unique=False)
    op.create_index(
        "ix_outbox_channel_state",
        "outbox",
        ["surface", "organisation", "channel", "state"],
        unique=False,
    )
    op.create_index("ix_outbox_subject", "outbox", ["subject"], unique=False)

    op.create_table(
        "tool_calls",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("chat_id", sa.String(length=80), nullable=False),
        sa.Column(
            "message_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("provider_id", sa.Text(), nullable=False),
        sa.Column("server", sa.String(length=80), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("args", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("schema_digest", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("allowed_by", sa.String(length=200), nullable=True),
        sa.Column("resume", sa.Text(), nullable=True),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("wake_at", sa.Double(), nullable=True),
        sa.Column("outcome", sa.String(length=20), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("askers", sa.Text(), nullable=True),
        sa.Column("edited", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("claimed_at", sa.Double(), nullable=True),
        sa.Column("settled_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chats.id"], name=op.f("fk_tool_calls_chat_id_chats")
        ),
        sa.ForeignKeyConstraint(
            ["message_id"], ["messages.id"], name=op.f("fk_tool_calls_message_id_messages")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tool_calls")),
        sa.UniqueConstraint(
            "message_id", "position", name=op.f("uq_tool_calls_message_id_position")
        ),
    )
    op.create_index("ix_tool_calls_chat_state", "tool_calls", ["chat_id", "state"], unique=False)

    op.create_table(
        "turns",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("chat_id", sa.String(length=80), nullable=False),
        sa.Column(
            "message_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True
        ),
        sa.Column("model", sa.String(length=120), nullable=False),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("cache_read_tokens", sa.Integer(), nullable=False),
        sa.Column("cache_write_tokens", sa.Integer(), nullable=False),
        sa.Column("cost", sa.String(length=40), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["chat_id"], ["chats.id"], name=op.f("fk_turns_chat_id_chats")),
        sa.ForeignKeyConstraint(
            ["message_id"], ["messages.id"], name=op.f("fk_turns_message_id_messages")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turns")),
    )
    op.create_index("ix_turns_chat", "turns", ["chat_id"], unique=False)

    op.create_table(
        "files",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("call_id", sa.String(length=80), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("mime_type", sa.String(length=200), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["call_id"], ["tool_calls.id"], name=op.f("fk_files_call_id_tool_calls")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_files")),
    )
    op.create_index("ix_files_call_id", "files", ["call_id"], unique=False)

    op.create_table(
        "questions",
        sa.Column("id", sa.String(length=160), nullable=False),
        sa.Column("nonce", sa.String(length=80), nullable=False),
        sa.Column("chat_id", sa.String(length=80), nullable=True),
        sa.Column("call_id", sa.String(length=80), nullable=True),
        sa.Column("purpose", sa.String(length=12), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("audience", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("response", sa.Text(), nullable=True),
        sa.Column("settled_by", sa.String(length=200), nullable=True),
        sa.Column("settled_name", sa.String(length=200), nullable=True),
        sa.Column("opened_at", sa.Double(), nullable=False),
        sa.Column("remind_at", sa.Double(), nullable=True),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("settled_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["call_id"], ["tool_calls.id"], name=op.f("fk_questions_call_id_tool_calls")
        ),
        sa.ForeignKeyConstraint(["chat_id"], ["chats.id"], name=op.f("fk_questions_chat_id_chats")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_questions")),
        sa.UniqueConstraint("nonce", name=op.f("uq_questions_nonce")),
    )
    op.create_index("ix_questions_call", "questions", ["call_id"], unique=False)
    op.create_index("ix_questions_chat_state", "questions", ["chat_id", "state"], unique=False)

    op.create_table(
        "steps",
        sa.Column("call_id", sa.String(length=80), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("value", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["call_id"], ["tool_calls.id"], name=op.f("fk_steps_call_id_tool_calls")
        ),
        sa.PrimaryKeyConstraint("call_id", "key", name=op.f("pk_steps")),
    )
    op.create_table(
        "decisions",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("question_id", sa.String(length=160), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("verb", sa.String(length=12), nullable=False),
        sa.Column("response", sa.Text(), nullable=True),
        sa.Column("via", sa.String(length=40), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_decisions_question_id_questions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
        sa.UniqueConstraint("question_id", "actor", name=op.f("uq_decisions_question_id_actor")),
    )
