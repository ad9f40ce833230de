"""questions are reminded of, escalated and asked again"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "questions", sa.Column("reminders", sa.Integer(), server_default="0", nullable=False)
    )
    op.add_column("questions", sa.Column("escalate_at", sa.Double(), nullable=True))
    op.add_column("questions", sa.Column("escalated_at", sa.Double(), nullable=True))
    op.add_column("messages", sa.Column("on_behalf", sa.Text(), nullable=True))
    op.create_index("ix_questions_state", "questions", ["state"])
