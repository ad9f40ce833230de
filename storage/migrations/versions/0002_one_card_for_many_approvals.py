"""one card for many approvals"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("questions", sa.Column("card", sa.String(length=200), nullable=True))
    op.create_index("ix_questions_card", "questions", ["card"], unique=False)
