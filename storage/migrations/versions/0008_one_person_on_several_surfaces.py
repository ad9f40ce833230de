"""a person of several surfaces is known by a verified address"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "people",
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("email_digest", sa.String(length=64), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_people")),
    )
    op.create_index("ix_people_email_digest", "people", ["email_digest"])
