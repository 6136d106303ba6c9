"""Leases the snapshots from which Trino last refreshed its materialized views.

A refresh reads what came since those snapshots. Where one is gone, it has to read everything again.
Trino names them in the summary of the storage table's snapshot.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from meltline.domain.drop.drops import is_dropped_name
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import Lease, LeaseLedger

_SOURCES = "dependsOnTables"
_LASTS = timedelta(days=7)
"""How long a snapshot stays after the view was last seen to need it."""


def lease_sources(leases: LeaseLedger, states: Sequence[TableMetadata], now: datetime) -> None:
    """Renews the lease on each snapshot that a materialized view was refreshed from.

    Args:
        leases: The ledger of leases.
        states: The tables of all catalogs, the views' storage tables among them.
        now: The wall clock's time.
    """
    by_name = {state.name: state for state in states}
    for view in states:
        if is_dropped_name(view.name.namespace):
            continue
        for name, snapshot_id in _sources(view):
            source = by_name.get(name)
            if source is not None and snapshot_id in source.snapshots:
                lease = Lease(
                    id=f"view-{view.uuid}-{source.uuid}",
                    table_uuid=source.uuid,
                    snapshot_id=snapshot_id,
                    expires_at=now + _LASTS,
                    table=str(name),
                    who=f"materialized view {view.name}",
                    ttl_ms=_LASTS // timedelta(milliseconds=1),
                )
                leases.save(lease)


def _sources(view: TableMetadata) -> Iterator[tuple[TableName, int]]:
    """Yields the tables that a view was refreshed from, with the snapshot of each.

    Trino writes `schema.table=snapshot`, separated by commas; a source without a snapshot, or of
    another connector, has no number.
    """
    snapshot = view.current_snapshot
    summary: Mapping[str, str] = snapshot.summary if snapshot is not None else {}
    for pair in summary.get(_SOURCES, "").split(","):
        place, _, number = pair.strip().rpartition("=")
        *namespace, table = place.split(".")
        if namespace and number.isdecimal():
            yield TableName(view.name.catalog, tuple(namespace), table), int(number)
