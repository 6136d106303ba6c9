"""Tables whose current bytes are unknown to the ledgers: their figures would be wrong.

`storage/report.py` and `storage_answer.py` mark them, and the report step stores no row for them.
"""

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
    """A table whose bytes are unknown.

    Attributes:
        uuid: Its registration's id; empty if it has none yet.
        error: Why it cannot be read; empty if it was not observed yet.
        last_read_at: Its last complete observation; None if there was none.
    """

    table: TableName
    uuid: str
    error: str = ""
    last_read_at: datetime | None = None

    @property
    def state(self) -> str:
        """The mark of its row."""
        return "unreadable" if self.error else "not observed yet"

    @property
    def sentence(self) -> str:
        """States the cause and the next step."""
        if not self.error:
            return (
                f"{self.table} is not observed yet: `meltline observe`, or the next run, reads it"
            )
        last = format_instant(self.last_read_at) if self.last_read_at else "never"
        return f"{self.table} is unreadable, last read {last}: {self.error}; see `meltline doctor`"


def unread_tables(look: Lookup, rows: Sequence[KnownTable]) -> Iterator[UnreadTable]:
    """Finds the tables of a lookup that are unreadable, or were not observed yet.

    Args:
        look: The read of the catalogs.
        rows: The registrations in the control ledger.
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
    """Finds the row with the read error of the table's newest state; None if it was read."""
    heads = {SnapshotKey(state.uuid, head) for head in state.heads.values()}
    if heads <= set(indexed):
        return None
    return next((r for r in rows if r.name == state.name and r.is_skipped), None)
