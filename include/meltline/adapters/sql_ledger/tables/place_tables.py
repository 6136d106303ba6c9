"""Tables of the control ledger for file locations, foreign owners and withheld files."""

from sqlalchemy import BigInteger, Column, Table, Text

from meltline.adapters.sql_ledger.tables.columns import Choice, Prose, instant, plain, prose
from meltline.adapters.sql_ledger.tables.schema import metadata
from meltline.domain.deletion.foreign_owners import SignKind
from meltline.domain.deletion.withheld import Why

places = Table("places", metadata, Column("place", Prose, primary_key=True))

half_seen = Table(
    "half_seen",
    metadata,
    Column("place", Prose, primary_key=True),
    Column("catalog", Text, nullable=False),
)

foreign_signs = Table(
    "foreign_signs",
    metadata,
    Column("root", Prose, primary_key=True),
    Column("id", Prose, primary_key=True),
    Column("kind", Choice(SignKind), primary_key=True),
    Column("path", Prose, primary_key=True),
    Column("folder", Prose, nullable=False),
    instant("seen_at"),
)

allowed_owners = Table(
    "allowed_owners",
    metadata,
    Column("id", Prose, primary_key=True),
    plain("who"),
    prose("reason"),
    instant("at"),
)

withheld = Table(
    "withheld",
    metadata,
    Column("step", Text, primary_key=True),
    Column("why", Choice(Why), primary_key=True),
    Column("table", Text, primary_key=True),
    Column("place", Prose, primary_key=True),
    Column("claimant", Prose, primary_key=True),
    Column("files", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)
