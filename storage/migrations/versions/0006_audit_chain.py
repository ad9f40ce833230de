"""audit rows carry the hash of the row before"""

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

HASHED = ("event", "chat_id", "call_id", "question_id", "actor", "via", "detail", "created_at")


def upgrade() -> None:
    """Rows that an older version wrote (also while it runs beside this one) have no hash: they are
    chained here, in their order."""
    connection = op.get_bind()
    columns = ", ".join(HASHED)
    rows = connection.execute(sa.text(f"SELECT id, {columns} FROM audit ORDER BY id")).mappings()
    previous = "0" * 64
    chain = sa.text("UPDATE audit SET previous = :previous, hash = :hash WHERE id = :id")
    for row in rows.all():
        held = [previous, *(row[name] for name in HASHED)]
        held[HASHED.index("detail") + 1] = json.loads(row["detail"])
        text = json.dumps(held, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        mark = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
        connection.execute(chain, {"previous": previous, "hash": mark, "id": row["id"]})
        previous = mark
    op.create_index("uq_audit_previous", "audit", ["previous"], unique=True)
