"""Incidents that are not over."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table."""
    op.create_table(
        "incidents",
        sa.Column("id", sa.Text, primary_key=True),
        *(_text(name) for name in ("kind", "object", "table", "table_uuid")),
        sa.Column("at", sa.BigInteger, nullable=False),
        *(_text(name) for name in ("message", "next")),
    )


def _text(name: str) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=False)
