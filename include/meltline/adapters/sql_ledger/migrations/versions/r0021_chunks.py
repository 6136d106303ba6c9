"""Chunks, their replication and their policies; plans name the chunks that leave hot."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the tables, and a column to plans: those of before have no chunks."""
    op.add_column(
        "plans", sa.Column("chunks", sa.Text, nullable=False, server_default=sa.text("'[]'"))
    )
    _add_chunks()
    _add_syncs()
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "chunk_policies",
        sa.Column("seq", number, primary_key=True),
        _text("table_uuid"),
        _text("type"),
        sa.Column("tier_after", sa.Text),
        sa.Column("drop_after", sa.Text),
        _number("created_at"),
        _text("who"),
        sa.Column("max_lateness", sa.BigInteger),
        _number("keep_latest"),
        sa.UniqueConstraint("table_uuid", "type", name="uq_chunk_policies_table_uuid"),
        sqlite_autoincrement=True,
    )


def _add_chunks() -> None:
    op.create_table(
        "chunked_tables",
        _key("table_uuid"),
        _text("table"),
        _text("column"),
        _number("field_id"),
        _text("kind"),
        _text("pattern"),
        _text("type"),
        _text("unit"),
        sa.Column("walked_generation", sa.BigInteger),
        sa.Column("walked_place", sa.BigInteger),
        sa.Column("walked_snapshot", sa.BigInteger),
        sa.Column("last_run_at", sa.BigInteger),
        _text("last_run"),
    )
    op.create_table(
        "chunks",
        _key("table_uuid"),
        _key("name"),
        sa.Column("start", sa.BigInteger),
        sa.Column("end", sa.BigInteger),
        _text("status"),
        *map(_number, ("rows", "bytes", "files", "spans")),
        sa.Column("last_write", sa.BigInteger),
        sa.Column("last_write_snapshot", sa.BigInteger),
        _number("generation"),
        sa.Column("tiered_at", sa.BigInteger),
        sa.Column("dropped_at", sa.BigInteger),
        _text("drop_plan"),
        sa.Column("cold_base", sa.BigInteger),
        *map(_number, ("dropped_rows", "dropped_bytes")),
        _text("drops"),
    )
    columns = ["table_uuid", "status", "rows", "bytes", "last_write", "dropped_bytes"]
    op.create_index("ix_chunks_sums", "chunks", columns)


def _add_syncs() -> None:
    op.create_table(
        "table_syncs",
        _key("table_uuid"),
        _text("table"),
        _text("cold"),
        _number("generation"),
        _text("state"),
        _number("started_at"),
        _text("reason"),
        _text("detail"),
        sa.Column("committed_generation", sa.BigInteger),
        sa.Column("committed_place", sa.BigInteger),
        sa.Column("committed_snapshot", sa.BigInteger),
        sa.Column("cold_snapshot", sa.BigInteger),
        sa.Column("heartbeat", sa.BigInteger),
        _text("allowed_deletes"),
        _text("kept_deletes"),
    )


def _key(name: str) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, primary_key=True)


def _text(name: str) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=False)


def _number(name: str) -> "sa.Column[int]":
    return sa.Column(name, sa.BigInteger, nullable=False)
