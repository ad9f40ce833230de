"""posts are paced by rows, so that replicas share the pace of a channel"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "paces",
        sa.Column("channel", sa.String(400), primary_key=True),
        sa.Column("in_hand", sa.Double(), nullable=False),
        sa.Column("as_of", sa.Double(), nullable=False),
        sa.Column("quiet_until", sa.Double(), nullable=False),
    )
