"""The first schema. Plain types, so that later changes of the code leave this step as it was.

There is no way down: it would throw the ledger's memory away.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates every table, and the one row of `marks`."""
    _objects()
    _plans()
    _verdicts()
    _batches_and_locks()
    _journal()
    _storage()
    marks = op.create_table("marks", _id(), _whole("newest", nullable=True), _whole("generation"))
    op.bulk_insert(marks, [{"id": 1, "newest": None, "generation": 0}])


def _objects() -> None:
    op.create_table(
        "tables",
        *_key("uuid", "name"),
        *_texts("metadata_location", "location", "status"),
        _whole("observed_at"),
        _text("error"),
        _flag("incomplete"),
    )
    op.create_table("ownerships", *_key("prefix", "table_uuid"), _whole("first_seen_at"))
    op.create_table("sharing", *_key("table_uuid", "other_uuid"))
    op.create_table(
        "sightings",
        _text("table_uuid", primary_key=True),
        _whole("snapshot_id", primary_key=True, autoincrement=False),
        _whole("unreferenced_since", nullable=True),
        _flag("was_on_branch"),
    )
    op.create_table(
        "leases",
        _text("id", primary_key=True),
        _text("table_uuid"),
        *_wholes("snapshot_id", "expires_at"),
    )


def _plans() -> None:
    op.create_table(
        "plans",
        _sequence(),
        *_texts("id", "run_id", "kind", "table", "table_uuid", "digest"),
        *_wholes("as_of", "created_at"),
        *_texts("base_location", "snapshots", "refs", "gone_snapshots", "heads"),
        _whole("window_start", nullable=True),
        *_wholes("files", "bytes"),
        *_texts("state", "committed_base", "note"),
        sa.UniqueConstraint("id", name="uq_plans_id"),
    )
    op.create_index("ix_plans_created_at", "plans", ["created_at", "seq"])
    _index("plans", "run_id")
    _index("plans", "state")
    _index("plans", "table_uuid")


def _verdicts() -> None:
    op.create_table(
        "gate_results",
        _sequence(),
        *_texts("plan_id", "digest", "suite", "failed"),
        *_wholes("evaluated", "ran_at", "valid_until"),
        *_texts("error", "docs"),
    )
    _index("gate_results", "plan_id")
    op.create_table(
        "approvals", _sequence(), *_texts("plan_id", "digest", "who", "reason"), _whole("at")
    )
    _index("approvals", "plan_id")


def _batches_and_locks() -> None:
    op.create_table(
        "batches",
        _text("plan_id", primary_key=True),
        _position("number"),
        *_texts("state", "lock_key"),
        _whole("token"),
        _whole("claimed_at", nullable=True),
    )
    op.create_table(
        "claimed_paths",
        _text("plan_id", primary_key=True),
        _position("number"),
        _position("position"),
        _text("path"),
        sa.ForeignKeyConstraint(
            ["plan_id", "number"],
            ["batches.plan_id", "batches.number"],
            name="fk_claimed_paths_batches",
        ),
    )
    op.create_table(
        "locks",
        _text("key", primary_key=True),
        _text("holder"),
        *_wholes("token", "since", "lease_until"),
    )


def _journal() -> None:
    op.create_table(
        "runs",
        _sequence(),
        _text("id"),
        *_wholes("as_of", "started_at"),
        _whole("ended_at", nullable=True),
        _text("summary"),
        sa.UniqueConstraint("id", name="uq_runs_id"),
    )
    op.create_table("stop_switch", _id(), *_texts("who", "reason"), _whole("at"))
    op.create_table(
        "audit",
        _sequence(),
        _whole("at"),
        *_texts("who", "action", "object", "reason", "detail"),
    )
    _index("audit", "object")


def _storage() -> None:
    op.create_table(
        "storage",
        *_key("day", "table_uuid"),
        _text("table"),
        *_wholes("active_bytes", "historical_bytes", "retained_for_clone_bytes"),
        *_wholes("failsafe_bytes", "deleted_bytes", "foreign_bytes"),
        _whole("in_flight_bytes", nullable=True),
        _whole("computed_at"),
    )


def _text(name: str, **options: Any) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=False, **options)


def _texts(*names: str) -> "list[sa.Column[str]]":
    return [_text(name) for name in names]


def _key(*names: str) -> "list[sa.Column[str]]":
    return [_text(name, primary_key=True) for name in names]


def _whole(name: str, *, nullable: bool = False, **options: Any) -> "sa.Column[int]":
    return sa.Column(name, sa.BigInteger, nullable=nullable, **options)


def _wholes(*names: str) -> "list[sa.Column[int]]":
    return [_whole(name) for name in names]


def _flag(name: str) -> "sa.Column[bool]":
    return sa.Column(name, sa.Boolean, nullable=False)


def _id() -> "sa.Column[int]":
    return _position("id")


def _position(name: str) -> "sa.Column[int]":
    return sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)


def _sequence() -> "sa.Column[int]":
    kind = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    return sa.Column("seq", kind, primary_key=True)


def _index(table: str, column: str) -> None:
    op.create_index(f"ix_{table}_{column}", table, [column])
