"""Drops of chunks: checksums of the rows that cold had, and when they were compared last."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the columns. Of drops that were made before, the next passes add the rows up."""
    op.add_column("chunks", sa.Column("cold_digest", sa.Text))
    op.add_column("table_syncs", sa.Column("cold_compared", sa.BigInteger))
