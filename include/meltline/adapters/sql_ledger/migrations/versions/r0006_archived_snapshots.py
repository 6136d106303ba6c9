"""Which snapshots have a verified copy in the cold tier, and what that takes there."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table of archived snapshots, and what the days' totals say of other tiers."""
    op.create_table(
        "archived",
        sa.Column("table_uuid", sa.Text, primary_key=True),
        sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("table", sa.Text, nullable=False),
        _number("committed_at"),
        _number("readable_from"),
        sa.Column("readable_until", sa.BigInteger, nullable=True),
        _number("files"),
        _number("bytes"),
        _number("rows"),
        _number("files_copied"),
        _number("bytes_copied"),
        sa.Column("cold_location", sa.Text, nullable=False),
        _number("verified_at"),
        _number("keep_until"),
        sa.Column("deep_at", sa.BigInteger, nullable=True),
        _number("deep_bytes"),
    )
    for column in ("cold_bytes", "deep_bytes"):
        none = sa.text("0")
        op.add_column(
            "storage", sa.Column(column, sa.BigInteger, nullable=False, server_default=none)
        )


def _number(name: str) -> "sa.Column[int]":
    return sa.Column(name, sa.BigInteger, nullable=False)
