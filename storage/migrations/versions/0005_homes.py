"""home pages are drawn anew when something settles"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "homes",
        sa.Column("surface", sa.String(length=20), nullable=False),
        sa.Column("organisation", sa.String(length=80), nullable=False),
        sa.Column("user", sa.String(length=200), nullable=False),
        sa.Column("page", sa.Integer(), nullable=False),
        sa.Column("opened_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("surface", "organisation", "user", name=op.f("pk_homes")),
    )
