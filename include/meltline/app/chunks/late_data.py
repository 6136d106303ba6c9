"""Rejects late data: a statement with rows for a dropped range of time fails as a whole.

Appends of the Python API and guarded SQL statements call it before their commit. It is apart from
`app/sql` because both use it (LT-30).
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from meltline.app.catalog.resolve import load_table
from meltline.app.chunks.lookups import HotTable
from meltline.app.observe.own_drops import UnrecordedDrops
from meltline.app.services import ReadContext, ReadSources
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.layout import ChunkLayout, SnapshotChange
from meltline.domain.chunks.main_history import MainLine, drops_of, with_standings
from meltline.domain.chunks.sync import DROP_PLAN, TrackedTable
from meltline.domain.deletion.plan import PlanKind
from meltline.domain.errors import CommitConflict, LateDataRejected, PlanNotFound
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.safe_text import quote
from meltline.ports import GuardedWriter

_TRIES = 8
_NAMED = 8  # windows that an error names

Dropped = tuple[ChunkLayout, Collection[str]]
"""A table's chunk layout, and the chunks whose rows are in cold alone."""


def dropped_chunks(context: ReadSources, table_uuid: str) -> Dropped | None:
    """Returns a table's dropped and reopened chunks by the ledger; None if it has none."""
    for tracked in context.control.chunks.tracked([table_uuid]):
        names = _recorded(context.control.chunks.of(table_uuid))
        return (tracked.layout, names) if names else None
    return None


def dropped_on(context: ReadSources, state: TableMetadata) -> Dropped | None:
    """Returns the chunks dropped by a given table state, including drops the ledger lacks.

    A writer that commits on this state alone cannot collide with a drop. The column has its current
    name.

    Args:
        context: Where the table and its ledger are.
        state: The table, loaded before.
    """
    for tracked in context.control.chunks.tracked([state.uuid]):
        chunks = context.control.chunks.of(state.uuid)
        names = (
            _recorded(chunks)
            | _unrecorded(context, state, tracked)
            | _left_out(context, state, tracked, chunks)
        )
        return (_by_present_name(context, state, tracked.layout), names) if names else None
    return None


def _recorded(chunks: Mapping[str, Chunk]) -> frozenset[str]:
    # A drop may be recorded before the walk that gives the chunk its status.
    return frozenset(name for name, c in chunks.items() if c.was_dropped or c.last_drop)


def _left_out(
    context: ReadSources,
    state: TableMetadata,
    tracked: TrackedTable,
    chunks: Mapping[str, Chunk],
) -> frozenset[str]:
    """Chunks dropped by commits that main no longer has, unless they are shown to be undone."""
    drops = UnrecordedDrops(context.chunk_files, context.control.plans, tracked, chunks)
    line = MainLine.of(state, tracked.judged, drops_of(chunks.values()))
    beside = drops.beside(state).items()
    return frozenset(name for name, chunk in beside if with_standings(chunk, line).last_drop)


def _unrecorded(
    context: ReadSources, state: TableMetadata, tracked: TrackedTable
) -> frozenset[str]:
    """Chunks in plans whose ids are in commits of main that no run has walked yet."""
    head, names = state.current_snapshot_id, set[str]()
    walked = tracked.walked.snapshot_id if tracked.walked else None
    for snapshot in state.ancestry(head) if head is not None else ():
        if snapshot.snapshot_id == walked:
            break
        if id := snapshot.summary.get(DROP_PLAN):
            try:
                plan = context.control.plans.current([id])[id]
            except PlanNotFound:
                continue
            if plan.kind is PlanKind.DROP_CHUNKS and plan.table_uuid == state.uuid:
                names.update(plan.chunks)
    return frozenset(names)


def _by_present_name(
    context: ReadSources, state: TableMetadata, layout: ChunkLayout
) -> ChunkLayout:
    document = HotTable(state, context.store).document
    schemas = document.get("schemas") or [document["schema"]]
    current = document.get("current-schema-id", 0)
    for schema in schemas:
        if schema.get("schema-id", 0) != current:
            continue
        for field in schema["fields"]:
            if field["id"] == layout.column.field_id:
                return replace(layout, column=replace(layout.column, name=str(field["name"])))
    return layout


def earliest_accepted(dropped: Dropped) -> datetime | None:
    """Time from which every row is accepted; None if nothing with a time was dropped."""
    layout, names = dropped
    ends = [times.end for name in names if (times := layout.range(name))]
    return max(ends, default=None)


def late_files(change: SnapshotChange, dropped: Dropped) -> dict[str, int]:
    """Counts the rows of a commit's added files that reach into dropped chunks, by chunk.

    A file that reaches into several chunks counts for each. A file without known times counts for
    all.
    """
    layout, names = dropped
    late: dict[str, int] = {}
    for file in change.added:
        if file.kind is not FileKind.DATA or not file.rows:
            continue
        of_file = layout.names(file.times)
        for name in sorted(names) if of_file is None else of_file:
            if name in names:
                late[name] = late.get(name, 0) + file.rows
    return late


def require_accepted(context: ReadContext, table: TableMetadata, late: Mapping[str, int]) -> None:
    """Rejects rows that fall into dropped chunks.

    Args:
        context: Where the ledger is.
        table: The table written to.
        late: How many rows would lie in dropped chunks, by chunk.

    Raises:
        LateDataRejected: There are any; none of the statement is carried out.
    """
    windows = {name: rows for name, rows in sorted(late.items()) if rows}
    if not windows:
        return
    dropped = dropped_on(context, table)
    since = earliest_accepted(dropped) if dropped else None
    listed = [f"{name} ({rows} rows)" for name, rows in list(windows.items())[:_NAMED]]
    more = f" and {len(windows) - _NAMED} more" if len(windows) > _NAMED else ""
    raise LateDataRejected(
        f"rows for ranges of {table.name} that were dropped from it: nothing was written",
        object=str(table.name),
        expected=f"rows from {since:%Y-%m-%dT%H:%MZ} on" if since else "rows of resident chunks",
        found=f"{', '.join(listed)}{more}",
        next=way_to_backfill(context, table),
    )


def way_to_backfill(context: ReadContext, table: TableMetadata) -> str:
    """Names where late rows can be written: dropped rows are in cold alone."""
    cold = [str(sync.cold) for sync in context.control.syncs.all([table.uuid])]
    place = (
        f"into {cold[0]}, with the role that may write to cold" if cold else "into a table apart"
    )
    return (
        f"leave them out, or backfill {place}; `meltline chunks status {quote(table.name)}` "
        "shows what"
        " was dropped, docs/chunks.md what late data can do"
    )


def guarded_append(
    context: ReadContext, writer: GuardedWriter, name: TableName, rows: object
) -> None:
    """Appends rows, all or none: none if one of them lies in a dropped chunk (LT-30).

    A drop between check and commit moves main; the append is then checked again.

    Args:
        context: Where the table and its ledger are.
        writer: Takes rows of this kind.
        name: The table.
        rows: A DataFrame or an Arrow table.

    Raises:
        LateDataRejected: Some are late.
        CommitConflict: Others committed first each time.
        MeltlineError: Whatever `load_table` and the writer raise.
    """
    for _ in range(_TRIES):
        state = load_table(context, name)
        dropped = dropped_on(context, state)
        if dropped is not None:
            require_accepted(context, state, writer.late(rows, *dropped))
        accept = None if dropped is None else _Check(context, state, dropped)
        if writer.append(name, rows, state.current_snapshot_id, accept):
            return
    raise always_others(name)


class _Check:
    """Checks the written files before they are published.

    A query may produce other rows each time it is evaluated.
    """

    def __init__(self, context: ReadContext, state: TableMetadata, dropped: Dropped) -> None:
        self._context, self._state, self._dropped = context, state, dropped

    def __call__(self, snapshot_id: int) -> None:
        """Rejects files that lie in dropped chunks. Raises LateDataRejected."""
        context, layout = self._context, self._dropped[0]
        written = load_table(context, self._state.name).snapshots[snapshot_id]
        change = context.chunk_files.change(written, layout, 0)
        within = [f for f in change.added if len(layout.names(f.times) or ()) == 1]
        late = late_files(replace(change, added=within), self._dropped)
        require_accepted(context, self._state, late)


def always_others(name: TableName) -> CommitConflict:
    """Error for a main that moved at each try."""
    return CommitConflict(
        f"others committed to {name} first, {_TRIES} times in a row: nothing was written",
        object=str(name),
        expected="main where it was when the rows were looked at",
        found="a newer head each time",
        next="try again when the table is less busy",
    )
