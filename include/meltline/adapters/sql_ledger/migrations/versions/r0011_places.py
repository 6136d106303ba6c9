"""Where files lie that tables refer to, and what is kept although nothing refers to it."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the two tables. The next observation fills the first, from the file ledger."""
    op.create_table("places", sa.Column("place", sa.Text, primary_key=True))
    op.create_table(
        "withheld",
        *(sa.Column(key, sa.Text, primary_key=True) for key in _KEYS),
        sa.Column("files", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )


_KEYS = ("step", "why", "table", "place", "other")
