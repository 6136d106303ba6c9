"""Policies that were in order, and snapshots whose files somebody wants back."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates both tables."""
    op.create_table(
        "policies",
        _text("object", primary_key=True),
        _text("key", primary_key=True),
        _text("value"),
    )
    op.create_table(
        "wanted_back",
        _text("id", primary_key=True),
        _text("table_uuid"),
        _whole("snapshot_id"),
        _text("manifest_list"),
        _text("inline_manifests"),
        _text("who"),
        _text("reason"),
        _whole("at"),
    )


def _text(name: str, **options: Any) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=False, **options)


def _whole(name: str) -> "sa.Column[int]":
    return sa.Column(name, sa.BigInteger, nullable=False)
