"""The control ledger's tables. Columns bear the names of the records' fields (`rows.py`).

A change here needs a new revision under `migrations/versions` and a new `REVISION`.
"""

from collections.abc import Iterable, Mapping
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
    Text,
    text,
)

from meltline.adapters.sql_ledger.columns import Choice, Instant, Json, Name, Prose
from meltline.domain.gate import FailedExpectation
from meltline.domain.plan import PlanKind, PlanState
from meltline.ports import StatementState

REVISION = "0011"
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
    """Where a purge batch stands (design section 4 step 8)."""

    DUE = "due"
    PURGING = "purging"
    DONE = "done"


def _sequence() -> "Column[int]":
    # SQLite numbers rows by itself only where the key's type is spelled INTEGER.
    return Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True)


def _text(name: str, **options: Any) -> "Column[str]":
    return Column(name, Text, nullable=False, **options)


def _prose(name: str) -> "Column[str]":
    return Column(name, Prose, nullable=False)


def _count(name: str, **options: Any) -> "Column[int]":
    return Column(name, BigInteger, nullable=False, **options)


def _instant(name: str, *, nullable: bool = False) -> "Column[Any]":
    return Column(name, Instant, nullable=nullable)


def _load_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value)


def _load_heads(value: Any) -> Mapping[str, int]:
    return dict(value)


def _dump_failed(failed: Iterable[FailedExpectation]) -> object:
    return [astuple(one) for one in failed]


def _load_failed(value: Any) -> tuple[FailedExpectation, ...]:
    return tuple(FailedExpectation(*one) for one in value)


def _list(name: str) -> "Column[Any]":
    return Column(name, Json(list, _load_tuple), nullable=False)


# One row: when anything was last written, and which generation this ledger is.
marks = Table(
    "marks",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _instant("newest", nullable=True),
    _count("generation"),
)

# Ids that were given to registrations of tables, each once; what is known of them is in `tables`.
entries = Table(
    "entries",
    metadata,
    _text("id", primary_key=True),
    _text("table_uuid"),
)

# By registration and name: a registration that was renamed has been seen under both.
tables = Table(
    "tables",
    metadata,
    _text("uuid", primary_key=True),
    Column("name", Name, primary_key=True),
    _text("metadata_location"),
    _text("location"),
    _text("status"),
    _instant("observed_at"),
    _prose("error"),
    Column("incomplete", Boolean, nullable=False),
    _text("table_uuid"),
    _text("newest"),
)

incidents = Table(
    "incidents",
    metadata,
    _text("id", primary_key=True),
    _text("kind"),
    _prose("object"),
    _text("table"),
    _text("table_uuid"),
    _instant("at"),
    _prose("message"),
    _prose("next"),
)

ownerships = Table(
    "ownerships",
    metadata,
    _text("prefix", primary_key=True),
    _text("table_uuid", primary_key=True),
    _instant("first_seen_at"),
)

sharing = Table(
    "sharing",
    metadata,
    _text("table_uuid", primary_key=True),
    _text("other_uuid", primary_key=True),
)

sightings = Table(
    "sightings",
    metadata,
    _text("table_uuid", primary_key=True),
    _count("snapshot_id", primary_key=True, autoincrement=False),
    _instant("unreferenced_since", nullable=True),
    Column("was_on_branch", Boolean, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    _text("id", primary_key=True),
    _text("table_uuid"),
    _count("snapshot_id"),
    _instant("expires_at"),
    _text("table"),
    _text("who"),
    _count("ttl_ms"),
)

statements = Table(
    "statements",
    metadata,
    _text("id", primary_key=True),
    _text("kind"),
    _text("who"),
    Column("state", Choice(StatementState), nullable=False),
    _instant("started_at"),
    _instant("completed_at", nullable=True),
)

policies = Table(
    "policies",
    metadata,
    _text("object", primary_key=True),
    _text("key", primary_key=True),
    _prose("value"),
)

wanted_back = Table(
    "wanted_back",
    metadata,
    _text("id", primary_key=True),
    _text("table_uuid"),
    _count("snapshot_id"),
    _text("manifest_list"),
    _list("inline_manifests"),
    _text("who"),
    _prose("reason"),
    _instant("at"),
)

vouched = Table(
    "vouched",
    metadata,
    Column("table", Name, primary_key=True),
    _text("location"),
    Column("size", BigInteger, nullable=True),
    _text("sha256"),
    _text("who"),
    _prose("reason"),
    _instant("at"),
)

lifted_guards = Table("lifted_guards", metadata, _text("table_uuid", primary_key=True))

# `readable_from` and `readable_until` are the validity's two ends.
archived = Table(
    "archived",
    metadata,
    _text("table_uuid", primary_key=True),
    _count("snapshot_id", primary_key=True, autoincrement=False),
    Column("table", Name, nullable=False),
    _instant("committed_at"),
    _instant("readable_from"),
    _instant("readable_until", nullable=True),
    _count("files"),
    _count("bytes"),
    _count("rows"),
    _count("files_copied"),
    _count("bytes_copied"),
    _text("cold_location"),
    _instant("verified_at"),
    _instant("keep_until"),
    _instant("deep_at", nullable=True),
    _count("deep_bytes"),
)

# Single files of cold, by their path there: whatever a million of them cost, it is paid here.
copies = Table(
    "copies",
    metadata,
    _text("path", primary_key=True),
    _count("bytes"),
    _text("sha256"),
    _instant("modified_at"),
    _text("etag"),
    Column("from_source", Boolean, nullable=False),
)

metadata_documents = Table(
    "metadata_documents",
    metadata,
    _text("location", primary_key=True),
    _count("size"),
    Column("content", LargeBinary, nullable=False),
)

plans = Table(
    "plans",
    metadata,
    _sequence(),
    _text("id", unique=True),
    _text("run_id", index=True),
    Column("kind", Choice(PlanKind), nullable=False),
    Column("table", Name, nullable=False),
    _text("table_uuid", index=True),
    _text("digest"),
    _instant("as_of"),
    _instant("created_at"),
    _text("base_location"),
    _list("snapshots"),
    _list("refs"),
    _list("gone_snapshots"),
    Column("heads", Json(dict, _load_heads), nullable=False),
    _instant("window_start", nullable=True),
    _count("files"),
    _count("bytes"),
    Column("state", Choice(PlanState), nullable=False, index=True),
    _text("committed_base"),
    _prose("note"),
    Column("batch", Integer, nullable=False),
    Index("ix_plans_created_at", "created_at", "seq"),
)

gate_results = Table(
    "gate_results",
    metadata,
    _sequence(),
    _text("plan_id", index=True),
    _text("digest"),
    _text("suite"),
    _count("evaluated"),
    Column("failed", Json(_dump_failed, _load_failed), nullable=False),
    _instant("ran_at"),
    _instant("valid_until"),
    _prose("error"),
    _text("docs"),
)

approvals = Table(
    "approvals",
    metadata,
    _sequence(),
    _text("plan_id", index=True),
    _text("digest"),
    _text("who"),
    _prose("reason"),
    _instant("at"),
)

# `lock_key` and `token` say under which lock a batch was claimed: tokens of two keys cannot be
# compared.
batches = Table(
    "batches",
    metadata,
    _text("plan_id", primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("state", Choice(BatchState), nullable=False),
    _text("lock_key"),
    _count("token"),
    _instant("claimed_at", nullable=True),
)

# The key is a position, not the path: a path can be longer than an index entry may be.
claimed_paths = Table(
    "claimed_paths",
    metadata,
    _text("plan_id", primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    _text("path"),
    ForeignKeyConstraint(["plan_id", "number"], ["batches.plan_id", "batches.number"]),
)

# Rows stay when a lock is free, so that its token never starts again. Real time, in milliseconds.
locks = Table(
    "locks",
    metadata,
    _text("key", primary_key=True),
    _text("holder"),
    _count("token"),
    _count("since"),
    _count("lease_until"),
)

runs = Table(
    "runs",
    metadata,
    _sequence(),
    _text("id", unique=True),
    _instant("as_of"),
    _instant("started_at"),
    _instant("ended_at", nullable=True),
    _prose("summary"),
)

# One row while somebody holds back every destructive step.
stop_switch = Table(
    "stop_switch",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _text("who"),
    _prose("reason"),
    _instant("at"),
)

audit = Table(
    "audit",
    metadata,
    _sequence(),
    _instant("at"),
    _text("who"),
    _text("action"),
    _text("object", index=True),
    _prose("reason"),
    _prose("detail"),
)

storage = Table(
    "storage",
    metadata,
    _text("day", primary_key=True),
    _text("table_uuid", primary_key=True),
    Column("table", Name, nullable=False),
    _count("active_bytes"),
    _count("historical_bytes"),
    _count("retained_for_clone_bytes"),
    _count("failsafe_bytes"),
    _count("deleted_bytes"),
    _count("foreign_bytes"),
    Column("in_flight_bytes", BigInteger),
    _instant("computed_at"),
    _count("cold_bytes"),
    _count("deep_bytes"),
)


def current_revision(connection: Connection) -> str | None:
    """The schema's revision; None where there is none."""
    if not connection.dialect.has_table(connection, "alembic_version"):
        return None
    row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
    return None if row is None else str(row[0])
