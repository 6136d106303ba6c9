"""The control ledger's tables. Columns have the names of the records' fields (`rows.py`).

A change here needs the same change in the revision under `migrations/versions`. Once 0.1.0 is
released it needs a new revision there, and a new `REVISION`.
"""

from collections.abc import Iterable
from dataclasses import astuple
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    text,
)

from meltline.adapters.sql_ledger.tables.columns import (
    Choice,
    Json,
    Name,
    count,
    instant,
    plain,
    prose,
    sequence,
)
from meltline.domain.deletion.gate import FailedExpectation, HeldExpectation
from meltline.domain.deletion.plan import PlanKind, PlanState
from meltline.ports import StatementState

REVISION = "0001"
"""The newest revision. A constant, so that asking whether a ledger is ready needs no Alembic."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
    }
)


class BatchState(StrEnum):
    """State of a purge batch: claimed before its deletes, finished after them."""

    DUE = "due"
    PURGING = "purging"
    DONE = "done"


def _dump_failed(failed: Iterable[FailedExpectation]) -> object:
    return [astuple(expectation) for expectation in failed]


def _load_failed(raw: Any) -> tuple[FailedExpectation, ...]:
    return tuple(FailedExpectation(*fields) for fields in raw)


def _dump_held(held: Iterable[HeldExpectation]) -> object:
    return [[expectation.expectation, expectation.observed] for expectation in held]


def _load_held(raw: Any) -> tuple[HeldExpectation, ...]:
    return tuple(HeldExpectation(*fields) for fields in raw)


def _list(name: str) -> "Column[Any]":
    return Column(name, Json[Any](list, tuple), nullable=False)


# One row: the time of the newest write, and the ledger's generation.
marks = Table(
    "marks",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    instant("newest", nullable=True),
    count("generation"),
)

# Ids of registrations, each used once; their facts are in `tables`.
entries = Table(
    "entries",
    metadata,
    plain("id", primary_key=True),
    plain("table_uuid"),
)

# By registration and name: a renamed registration has a row for each of its names.
tables = Table(
    "tables",
    metadata,
    plain("uuid", primary_key=True),
    Column("name", Name, primary_key=True),
    plain("metadata_location"),
    plain("location"),
    plain("status"),
    instant("observed_at"),
    prose("error"),
    Column("incomplete", Boolean, nullable=False),
    plain("table_uuid"),
    plain("newest"),
)

incidents = Table(
    "incidents",
    metadata,
    plain("id", primary_key=True),
    plain("kind"),
    prose("object"),
    plain("table"),
    plain("table_uuid"),
    instant("at"),
    prose("message"),
    prose("next"),
)

ownerships = Table(
    "ownerships",
    metadata,
    plain("prefix", primary_key=True),
    plain("table_uuid", primary_key=True),
    instant("first_seen_at"),
)

sharing = Table(
    "sharing",
    metadata,
    plain("table_uuid", primary_key=True),
    plain("other_uuid", primary_key=True),
)

sightings = Table(
    "sightings",
    metadata,
    plain("table_uuid", primary_key=True),
    count("snapshot_id", primary_key=True, autoincrement=False),
    instant("unreferenced_since", nullable=True),
    Column("was_on_branch", Boolean, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    plain("id", primary_key=True),
    plain("table_uuid"),
    count("snapshot_id"),
    instant("expires_at"),
    plain("table"),
    plain("who"),
    count("ttl_ms"),
)

statements = Table(
    "statements",
    metadata,
    plain("id", primary_key=True),
    plain("kind"),
    plain("who"),
    Column("state", Choice(StatementState), nullable=False),
    instant("started_at"),
    instant("completed_at", nullable=True),
)

policies = Table(
    "policies",
    metadata,
    plain("object", primary_key=True),
    plain("key", primary_key=True),
    prose("value"),
)

wanted_back = Table(
    "wanted_back",
    metadata,
    plain("id", primary_key=True),
    plain("table_uuid"),
    count("snapshot_id"),
    plain("manifest_list"),
    _list("inline_manifests"),
    plain("who"),
    prose("reason"),
    instant("at"),
)

# `readable_from` and `readable_until` are the validity's two ends.
archived = Table(
    "archived",
    metadata,
    plain("table_uuid", primary_key=True),
    count("snapshot_id", primary_key=True, autoincrement=False),
    Column("table", Name, nullable=False),
    instant("committed_at"),
    instant("readable_from"),
    instant("readable_until", nullable=True),
    count("files"),
    count("bytes"),
    count("rows"),
    count("files_copied"),
    count("bytes_copied"),
    plain("cold_location"),
    instant("verified_at"),
    instant("keep_until"),
    instant("deep_at", nullable=True),
    count("deep_bytes"),
)

# Proofs of single copies, by path in cold. The cost of a million of them is in this table.
copies = Table(
    "copies",
    metadata,
    plain("path", primary_key=True),
    count("bytes"),
    plain("sha256"),
    instant("modified_at"),
    plain("etag"),
    Column("from_source", Boolean, nullable=False),
)

metadata_documents = Table(
    "metadata_documents",
    metadata,
    plain("location", primary_key=True),
    count("size"),
    Column("content", LargeBinary, nullable=False),
    plain("version"),
)

plans = Table(
    "plans",
    metadata,
    sequence(),
    plain("id", unique=True),
    plain("run_id", index=True),
    Column("kind", Choice(PlanKind), nullable=False),
    Column("table", Name, nullable=False),
    plain("table_uuid", index=True),
    plain("digest"),
    instant("as_of"),
    instant("created_at"),
    plain("base_location"),
    _list("snapshots"),
    _list("refs"),
    _list("gone_snapshots"),
    Column("heads", Json[Any](dict, dict), nullable=False),
    instant("window_start", nullable=True),
    count("files"),
    count("bytes"),
    Column("state", Choice(PlanState), nullable=False, index=True),
    plain("committed_base"),
    prose("note"),
    Column("batch", Integer, nullable=False),
    Column("repeats", Integer, nullable=False),
    _list("chunks"),
    Index("ix_plans_created_at", "created_at", "seq"),
)

gate_results = Table(
    "gate_results",
    metadata,
    sequence(),
    plain("plan_id", index=True),
    plain("digest"),
    plain("suite"),
    count("evaluated"),
    Column("failed", Json(_dump_failed, _load_failed), nullable=False),
    instant("ran_at"),
    instant("valid_until"),
    prose("error"),
    plain("docs"),
    Column("held", Json(_dump_held, _load_held), nullable=False),
)

approvals = Table(
    "approvals",
    metadata,
    sequence(),
    plain("plan_id", index=True),
    plain("digest"),
    plain("who"),
    prose("reason"),
    instant("at"),
)

# `lock_key` and `token` are those of the claim's lock: tokens of two keys cannot be compared.
batches = Table(
    "batches",
    metadata,
    plain("plan_id", primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("state", Choice(BatchState), nullable=False),
    plain("lock_key"),
    count("token"),
    instant("claimed_at", nullable=True),
)

# The key is a position, not the path: a path can be longer than an index entry may be.
claimed_paths = Table(
    "claimed_paths",
    metadata,
    plain("plan_id", primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    plain("path"),
    ForeignKeyConstraint(["plan_id", "number"], ["batches.plan_id", "batches.number"]),
)

# Rows stay when a lock is free, so that its token never restarts. Real time, in milliseconds.
locks = Table(
    "locks",
    metadata,
    plain("key", primary_key=True),
    plain("holder"),
    count("token"),
    count("since"),
    count("lease_until"),
)

runs = Table(
    "runs",
    metadata,
    sequence(),
    plain("id", unique=True),
    instant("as_of"),
    instant("started_at"),
    instant("ended_at", nullable=True),
    prose("summary"),
)

# One row while an operator blocks every destructive step.
stop_switch = Table(
    "stop_switch",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    plain("who"),
    prose("reason"),
    instant("at"),
)

audit = Table(
    "audit",
    metadata,
    sequence(),
    instant("at"),
    plain("who"),
    plain("action"),
    plain("object", index=True),
    prose("reason"),
    prose("detail"),
)

storage = Table(
    "storage",
    metadata,
    plain("day", primary_key=True),
    plain("table_uuid", primary_key=True),
    Column("table", Name, nullable=False),
    count("active_bytes"),
    count("historical_bytes"),
    count("retained_for_clone_bytes"),
    count("failsafe_bytes"),
    count("deleted_bytes"),
    count("foreign_bytes"),
    Column("in_flight_bytes", BigInteger),
    instant("computed_at"),
    count("cold_bytes"),
    count("deep_bytes"),
)


def current_revision(connection: Connection) -> str | None:
    """Returns the schema's revision; None without a schema."""
    if not connection.dialect.has_table(connection, "alembic_version"):
        return None
    row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
    return None if row is None else str(row[0])
