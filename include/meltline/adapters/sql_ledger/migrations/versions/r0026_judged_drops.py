"""Drops of chunks: at which head of main it was recorded last which of them are in force."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column. What was recorded so far was true where chunks are stamped."""
    op.add_column("chunked_tables", sa.Column("judged", sa.BigInteger))
    op.execute("UPDATE chunked_tables SET judged = walked_snapshot")
