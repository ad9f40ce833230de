"""standing rules say why they are there"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("rules", sa.Column("note", sa.Text(), nullable=True))
