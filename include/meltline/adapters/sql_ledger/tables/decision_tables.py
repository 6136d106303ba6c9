"""Tables of the control ledger for operators' decisions, and for the epochs that they start."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Table

from meltline.adapters.sql_ledger.tables.columns import (
    Choice,
    Name,
    count,
    instant,
    plain,
    prose,
    sequence,
)
from meltline.adapters.sql_ledger.tables.schema import metadata
from meltline.ports import GuardKind

# Epochs that were set in the catalog; an unconfirmed one may never have arrived there.
epochs = Table(
    "epochs",
    metadata,
    count("number"),
    plain("nonce", primary_key=True),
    plain("why", index=True),
    plain("who"),
    instant("at"),
    Column("confirmed", Boolean, nullable=False),
    Index("ix_epochs_number", "number"),
)

vouched = Table(
    "vouched",
    metadata,
    Column("table", Name, primary_key=True),
    plain("location"),
    Column("size", BigInteger, nullable=True),
    plain("sha256"),
    plain("who"),
    prose("reason"),
    instant("at"),
)

# One row at most: the catalog that may be written to.
arming = Table(
    "arming",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    plain("catalog"),
    plain("warehouse"),
    plain("nonce"),
    plain("who"),
    prose("reason"),
    instant("at"),
)

disowned_times = Table(
    "disowned_times",
    metadata,
    sequence(),
    instant("recorded"),
    plain("who"),
    prose("reason"),
    instant("at"),
)

rejections = Table(
    "rejections",
    metadata,
    sequence(),
    plain("plan_id"),
    plain("digest", index=True),
    plain("who"),
    prose("reason"),
    instant("at"),
)

# Events of the gc.enabled of registrations, by Meltline or by an operator's decision.
guards = Table(
    "guards",
    metadata,
    plain("table_uuid", primary_key=True),
    Column("kind", Choice(GuardKind), primary_key=True),
    plain("who"),
    prose("reason"),
    instant("at"),
)
