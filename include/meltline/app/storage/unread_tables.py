"""Tables of which the ledgers cannot tell what they have now: their figures would be wrong."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.app.catalog.registrations import UNOBSERVED
from meltline.app.storage.references import Lookup
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.units import format_instant
from meltline.ports import KnownTable, SnapshotKey


@dataclass(frozen=True)
class UnreadTable:
    """A table whose bytes nobody can tell.

    Attributes:
        uuid: Its registration's id; empty where it has none yet.
        error: Why it cannot be read; empty where nobody has observed it yet.
        last_read_at: When it was last seen as a whole; None where it never was.
    """

    table: TableName
    uuid: str
    error: str = ""
    last_read_at: datetime | None = None

    @property
    def state(self) -> str:
        """How its row is marked."""
        return "unreadable" if self.error else "not observed yet"

    @property
    def sentence(self) -> str:
        """What is wrong with it, and the way out."""
        if not self.error:
            return (
                f"{self.table} is not observed yet: `meltline observe`, or the next run, reads it"
            )
        last = format_instant(self.last_read_at) if self.last_read_at else "never"
        return f"{self.table} is unreadable, last read {last}: {self.error}; see `meltline doctor`"


def unread_tables(look: Lookup, rows: Sequence[KnownTable]) -> Iterator[UnreadTable]:
    """Those of a look that nobody can read, or nobody has read yet.

    Args:
        look: What the catalogs have.
        rows: What the control ledger remembers of registrations.
    """
    indexed = {snapshot.key for snapshot in look.snapshots}
    read = {key.table_uuid for key in indexed}
    for name, error in look.unloaded.items():
        under_name = [row for row in rows if row.name == name and not row.is_ended]
        row = max(under_name, key=lambda row: row.observed_at, default=None)
        uuid = row.uuid if row else ""
        why = f"{error.message} ({error.found})" if error.found else error.message
        yield UnreadTable(name, uuid, why, row.observed_at if row and uuid in read else None)
    observed: dict[str, list[KnownTable]] = {}
    for row in rows:
        if row.status != UNOBSERVED:
            observed.setdefault(row.uuid, []).append(row)
    for state in look.states:
        if state.uuid not in observed:
            yield UnreadTable(state.name, state.uuid)
        elif broken := _broken(state, observed[state.uuid], indexed):
            last_read_at = broken.observed_at if state.uuid in read else None
            yield UnreadTable(state.name, state.uuid, broken.error, last_read_at)


def _broken(
    state: TableMetadata, rows: Sequence[KnownTable], indexed: Collection[SnapshotKey]
) -> KnownTable | None:
    """The row that says that the table's newest state could not be read; None where it could."""
    heads = {SnapshotKey(state.uuid, head) for head in state.heads.values()}
    if heads <= set(indexed):
        return None
    return next((r for r in rows if r.name == state.name and r.is_skipped), None)
