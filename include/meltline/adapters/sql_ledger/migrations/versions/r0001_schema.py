"""The schema of version 0.1.0, in plain types, so that later changes of the code do not alter it.

There is no downgrade: it would delete the ledger's records.
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
    _create_tables()
    _create_snapshots()
    _create_plans()
    _create_verdicts()
    _create_batches_and_locks()
    _create_journal()
    _create_decisions()
    _create_permissions()
    _create_places()
    _create_cold()
    _create_chunks()
    _create_replication()
    _create_rollups()
    marks = op.create_table(
        "marks",
        *_integers("id", primary_key=True),
        *_wholes("newest", nullable=True),
        *_wholes("generation"),
    )
    op.bulk_insert(marks, [{"id": 1, "newest": None, "generation": 0}])


def _create_tables() -> None:
    op.create_table("entries", *_texts("id", primary_key=True), *_texts("table_uuid"))
    op.create_table(
        "tables",
        *_texts("uuid", "name", primary_key=True),
        *_texts("metadata_location", "location", "status"),
        *_wholes("observed_at"),
        *_texts("error"),
        _flag("incomplete"),
        *_texts("table_uuid", "newest", server_default=sa.text("''")),
    )
    op.create_table(
        "ownerships", *_texts("prefix", "table_uuid", primary_key=True), *_wholes("first_seen_at")
    )
    op.create_table("sharing", *_texts("table_uuid", "other_uuid", primary_key=True))
    op.create_table(
        "metadata_documents",
        *_texts("location", primary_key=True),
        *_wholes("size"),
        sa.Column("content", sa.LargeBinary, nullable=False),
        *_texts("version", server_default=sa.text("''")),
    )


def _create_snapshots() -> None:
    op.create_table(
        "sightings",
        *_texts("table_uuid", primary_key=True),
        *_wholes("snapshot_id", primary_key=True),
        *_wholes("unreferenced_since", nullable=True),
        _flag("was_on_branch"),
    )
    op.create_table(
        "leases",
        *_texts("id", primary_key=True),
        *_texts("table_uuid"),
        *_wholes("snapshot_id", "expires_at"),
        *_texts("table", "who", server_default=sa.text("''")),
        *_wholes("ttl_ms", server_default=sa.text("0")),
    )
    op.create_table(
        "wanted_back",
        *_texts("id", primary_key=True),
        *_texts("table_uuid"),
        *_wholes("snapshot_id"),
        *_texts("manifest_list", "inline_manifests", "who", "reason"),
        *_wholes("at"),
    )
    op.create_table(
        "statements",
        *_texts("id", primary_key=True),
        *_texts("kind", "who", "state"),
        *_wholes("started_at"),
        *_wholes("completed_at", nullable=True),
    )


def _create_plans() -> None:
    op.create_table(
        "plans",
        _sequence(),
        *_texts("id", "run_id", "kind", "table", "table_uuid", "digest"),
        *_wholes("as_of", "created_at"),
        *_texts("base_location", "snapshots", "refs", "gone_snapshots", "heads"),
        *_wholes("window_start", nullable=True),
        *_wholes("files", "bytes"),
        *_texts("state", "committed_base", "note"),
        *_integers("batch", server_default=sa.text("1")),
        *_integers("repeats", server_default=sa.text("0")),
        *_texts("chunks", server_default=sa.text("'[]'")),
        sa.UniqueConstraint("id", name="uq_plans_id"),
    )
    op.create_index("ix_plans_created_at", "plans", ["created_at", "seq"])
    op.create_index("ix_plans_run_id", "plans", ["run_id"])
    op.create_index("ix_plans_state", "plans", ["state"])
    op.create_index("ix_plans_table_uuid", "plans", ["table_uuid"])


def _create_verdicts() -> None:
    op.create_table(
        "gate_results",
        _sequence(),
        *_texts("plan_id", "digest", "suite", "failed"),
        *_wholes("evaluated", "ran_at", "valid_until"),
        *_texts("error", "docs"),
        *_texts("held", server_default=sa.text("'[]'")),
    )
    op.create_index("ix_gate_results_plan_id", "gate_results", ["plan_id"])
    op.create_table(
        "approvals", _sequence(), *_texts("plan_id", "digest", "who", "reason"), *_wholes("at")
    )
    op.create_index("ix_approvals_plan_id", "approvals", ["plan_id"])
    op.create_table(
        "rejections", _sequence(), *_texts("plan_id", "digest", "who", "reason"), *_wholes("at")
    )
    op.create_index("ix_rejections_digest", "rejections", ["digest"])


def _create_batches_and_locks() -> None:
    op.create_table(
        "batches",
        *_texts("plan_id", primary_key=True),
        *_integers("number", primary_key=True),
        *_texts("state", "lock_key"),
        *_wholes("token"),
        *_wholes("claimed_at", nullable=True),
    )
    op.create_table(
        "claimed_paths",
        *_texts("plan_id", primary_key=True),
        *_integers("number", "position", primary_key=True),
        *_texts("path"),
        sa.ForeignKeyConstraint(
            ["plan_id", "number"],
            ["batches.plan_id", "batches.number"],
            name="fk_claimed_paths_batches",
        ),
    )
    op.create_table(
        "locks",
        *_texts("key", primary_key=True),
        *_texts("holder"),
        *_wholes("token", "since", "lease_until"),
    )


def _create_journal() -> None:
    op.create_table(
        "runs",
        _sequence(),
        *_texts("id"),
        *_wholes("as_of", "started_at"),
        *_wholes("ended_at", nullable=True),
        *_texts("summary"),
        sa.UniqueConstraint("id", name="uq_runs_id"),
    )
    op.create_table(
        "incidents",
        *_texts("id", primary_key=True),
        *_texts("kind", "object", "table", "table_uuid"),
        *_wholes("at"),
        *_texts("message", "next"),
    )
    op.create_table(
        "audit", _sequence(), *_wholes("at"), *_texts("who", "action", "object", "reason", "detail")
    )
    op.create_index("ix_audit_object", "audit", ["object"])
    op.create_table(
        "storage",
        *_texts("day", "table_uuid", primary_key=True),
        *_texts("table"),
        *_wholes("active_bytes", "historical_bytes", "retained_for_clone_bytes"),
        *_wholes("failsafe_bytes", "deleted_bytes", "foreign_bytes"),
        *_wholes("in_flight_bytes", nullable=True),
        *_wholes("computed_at"),
        *_wholes("cold_bytes", "deep_bytes", server_default=sa.text("0")),
    )


def _create_decisions() -> None:
    op.create_table(
        "stop_switch", *_integers("id", primary_key=True), *_texts("who", "reason"), *_wholes("at")
    )
    op.create_table(
        "arming",
        *_integers("id", primary_key=True),
        *_texts("catalog", "warehouse", "nonce", "who", "reason"),
        *_wholes("at"),
    )
    op.create_table(
        "epochs",
        *_wholes("number"),
        *_texts("nonce", primary_key=True),
        *_texts("why", "who"),
        *_wholes("at"),
        _flag("confirmed"),
    )
    op.create_index("ix_epochs_number", "epochs", ["number"])
    op.create_index("ix_epochs_why", "epochs", ["why"])
    op.create_table(
        "disowned_times",
        _sequence(),
        *_wholes("recorded"),
        *_texts("who", "reason"),
        *_wholes("at"),
    )
    op.create_table("policies", *_texts("object", "key", primary_key=True), *_texts("value"))


def _create_permissions() -> None:
    op.create_table(
        "vouched",
        *_texts("table", primary_key=True),
        *_texts("location"),
        *_wholes("size", nullable=True),
        *_texts("sha256", "who", "reason"),
        *_wholes("at"),
    )
    op.create_table(
        "guards",
        *_texts("table_uuid", "kind", primary_key=True),
        *_texts("who", "reason"),
        *_wholes("at"),
    )
    op.create_table(
        "allowed_owners", *_texts("id", primary_key=True), *_texts("who", "reason"), *_wholes("at")
    )


def _create_places() -> None:
    op.create_table("places", *_texts("place", primary_key=True))
    op.create_table("half_seen", *_texts("place", primary_key=True), *_texts("catalog"))
    op.create_table(
        "withheld",
        *_texts("step", "why", "table", "place", "claimant", primary_key=True),
        *_wholes("files", "bytes"),
    )
    op.create_table(
        "foreign_signs",
        *_texts("root", "id", "kind", "path", primary_key=True),
        *_texts("folder"),
        *_wholes("seen_at"),
    )


def _create_cold() -> None:
    op.create_table(
        "archived",
        *_texts("table_uuid", primary_key=True),
        *_wholes("snapshot_id", primary_key=True),
        *_texts("table"),
        *_wholes("committed_at", "readable_from"),
        *_wholes("readable_until", nullable=True),
        *_wholes("files", "bytes", "rows", "files_copied", "bytes_copied"),
        *_texts("cold_location"),
        *_wholes("verified_at", "keep_until"),
        *_wholes("deep_at", nullable=True),
        *_wholes("deep_bytes"),
    )
    op.create_table(
        "copies",
        *_texts("path", primary_key=True),
        *_wholes("bytes"),
        *_texts("sha256"),
        *_wholes("modified_at"),
        *_texts("etag"),
        _flag("from_source"),
    )


def _create_chunks() -> None:
    op.create_table(
        "chunked_tables",
        *_texts("table_uuid", primary_key=True),
        *_texts("table", "column"),
        *_wholes("field_id"),
        *_texts("kind", "pattern", "type", "unit"),
        *_wholes(
            "walked_generation", "walked_place", "walked_snapshot", "last_run_at", nullable=True
        ),
        *_texts("last_run"),
        *_wholes("judged", nullable=True),
    )
    op.create_table(
        "chunks",
        *_texts("table_uuid", "name", primary_key=True),
        *_wholes("start", "end", nullable=True),
        *_texts("status"),
        *_wholes("rows", "bytes", "files", "spans"),
        *_wholes("last_write", "last_write_snapshot", nullable=True),
        *_wholes("generation"),
        *_wholes("tiered_at", "dropped_at", nullable=True),
        *_texts("drop_plan"),
        *_wholes("cold_base", nullable=True),
        *_wholes("dropped_rows", "dropped_bytes"),
        *_texts("drops"),
        *_wholes("cold_rows", nullable=True),
        *_texts("cold_digest", nullable=True),
    )
    sums = ["table_uuid", "status", "rows", "bytes", "last_write", "dropped_bytes"]
    op.create_index("ix_chunks_sums", "chunks", sums)


def _create_replication() -> None:
    op.create_table(
        "table_syncs",
        *_texts("table_uuid", primary_key=True),
        *_texts("table", "cold"),
        *_wholes("generation"),
        *_texts("state"),
        *_wholes("started_at"),
        *_texts("reason", "detail"),
        *_wholes("committed_generation", "committed_place", "committed_snapshot", nullable=True),
        *_wholes("cold_snapshot", "heartbeat", nullable=True),
        *_texts("allowed_deletes", "kept_deletes"),
        *_wholes("cold_compared", nullable=True),
    )
    op.create_table(
        "chunk_policies",
        _sequence(),
        *_texts("table_uuid", "type"),
        *_texts("tier_after", "drop_after", nullable=True),
        *_wholes("created_at"),
        *_texts("who"),
        *_wholes("max_lateness", nullable=True),
        *_wholes("keep_latest"),
        sa.UniqueConstraint("table_uuid", "type", name="uq_chunk_policies_table_uuid"),
        sqlite_autoincrement=True,
    )


def _create_rollups() -> None:
    op.create_table(
        "rollups",
        _sequence(),
        *_texts("name", "table", "table_uuid", "source", "source_uuid", "query", "width"),
        *_texts("bucket_column", "depends_on"),
        *_wholes("created_at"),
        *_texts("who", "invalidated", "missed"),
        *_wholes("last_refreshed_at", nullable=True),
        *_texts("problem", "realtime_view"),
        sa.UniqueConstraint("name", name="uq_rollups_name"),
        sqlite_autoincrement=True,
    )


def _texts(*names: str, **options: Any) -> "list[sa.Column[Any]]":
    return _columns(sa.Text(), names, **options)


def _wholes(*names: str, **options: Any) -> "list[sa.Column[Any]]":
    return _columns(sa.BigInteger(), names, **options)


def _integers(*names: str, **options: Any) -> "list[sa.Column[Any]]":
    return _columns(sa.Integer(), names, **options)


def _columns(
    type_: "sa.types.TypeEngine[Any]", names: tuple[str, ...], **options: Any
) -> "list[sa.Column[Any]]":
    options = {"nullable": False, "autoincrement": False, **options}
    return [sa.Column(name, type_, **options) for name in names]


def _flag(name: str) -> "sa.Column[Any]":
    return sa.Column(name, sa.Boolean, nullable=False)


def _sequence() -> "sa.Column[Any]":
    kind = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    return sa.Column("seq", kind, primary_key=True)
