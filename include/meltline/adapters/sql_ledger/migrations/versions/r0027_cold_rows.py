"""Drops of chunks: how many rows of a chunk cold had when the drop was prepared."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column. Of drops that were made before, the next pass counts the rows."""
    op.add_column("chunks", sa.Column("cold_rows", sa.BigInteger))
