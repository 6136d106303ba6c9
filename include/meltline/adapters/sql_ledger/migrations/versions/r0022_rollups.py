"""Rollups: aggregates of tables that are cut into chunks."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "rollups",
        sa.Column("seq", number, primary_key=True),
        *map(_text, ("name", "table", "table_uuid", "source", "source_uuid", "query", "width")),
        *map(_text, ("bucket_column", "depends_on")),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        *map(_text, ("who", "invalidated", "missed")),
        sa.Column("last_refreshed_at", sa.BigInteger),
        *map(_text, ("problem", "realtime_view")),
        sa.UniqueConstraint("name", name="uq_rollups_name"),
        sqlite_autoincrement=True,
    )


def _text(name: str) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=False)
