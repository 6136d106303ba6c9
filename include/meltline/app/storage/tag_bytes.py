"""Bytes that only a tag keeps: they would depart if it were removed (AR-45).

`meltline tags` shows them beside each tag. It is apart from `storage/report.py` because it needs
the references of every file, not only sums.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from meltline.app.catalog.tables import TableRetention, find_table, keep_sets, read_tables
from meltline.app.services import ReadContext
from meltline.app.storage.file_status import standing_now
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.retained_snapshots import KeepReason
from meltline.ports import SnapshotKey

_BY_TAGS = frozenset({KeepReason.TAG, KeepReason.NAMED, KeepReason.SHARE})


def bytes_held_alone(context: ReadContext, name: TableName) -> Mapping[str, int]:
    """Computes, for each tag of a table, the bytes that nothing else keeps in any table.

    Snapshots that no run has observed do not count. If two tags name one snapshot, neither keeps it
    alone.

    Raises:
        TableNotFound: There is no such table.
        CatalogUnlistable: A catalog cannot be listed.
    """
    retentions = keep_sets(context, read_tables(context), context.clock.now())
    table = find_table([target.table for target in retentions], name)
    target = next(one for one in retentions if one.table is table)
    alone = _named_alone(target)
    kept = _kept(retentions)
    sizes = Counter[str]()
    for file in standing_now(context).files.values():
        keys = file.snapshots & kept
        tag = alone.get(next(iter(keys))) if len(keys) == 1 else None
        if tag is not None:
            sizes[tag] += file.bytes
    return {ref.name: sizes[ref.name] for ref in table.state.refs.values() if not ref.is_branch}


def _kept(retentions: Sequence[TableRetention]) -> set[SnapshotKey]:
    return {
        SnapshotKey(target.state.uuid, snapshot_id)
        for target in retentions
        for snapshot_id in target.keeps.reasons
    }


def _named_alone(target: TableRetention) -> dict[SnapshotKey, str]:
    """The snapshots that exactly one tag keeps and nothing else, each with its tag."""
    names: dict[int, list[str]] = {}
    for ref in target.state.refs.values():
        names.setdefault(ref.snapshot_id, []).append(ref.name)
    return {
        SnapshotKey(target.state.uuid, snapshot_id): names[snapshot_id][0]
        for snapshot_id, reasons in target.keeps.reasons.items()
        if _BY_TAGS.issuperset(reasons) and len(names.get(snapshot_id, ())) == 1
    }
