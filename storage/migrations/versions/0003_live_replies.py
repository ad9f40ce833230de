"""a reply that still grows is known as such"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "outbox", sa.Column("live", sa.Boolean(), nullable=False, server_default=sa.false())
    )
