"""Undrop: moves a dropped registration to its old name; identity, refs and properties stay.

The CLI and SQL statements call it. It is apart from `drop/recover.py`, which creates a new table
from what is left after the retention.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime

from meltline.app.catalog.commit import follow
from meltline.app.catalog.dropped import (
    DroppedNamespace,
    DroppedTable,
    dropped_namespaces,
    dropped_tables,
    require_container,
)
from meltline.app.catalog.metadata import load_concurrently
from meltline.app.catalog.new_names import require_free
from meltline.app.catalog.recovery_hints import newest
from meltline.app.catalog.resolve import catalog_of, require_changeable
from meltline.app.drop.drop import busy, unmarked
from meltline.app.safety.audit import audit
from meltline.app.safety.purge_vetoes import files_of, group_locks, snapshot_kept, veto_for
from meltline.app.services import ReadContext
from meltline.domain.drop.drops import Drop
from meltline.domain.errors import MeltlineError, UsageInvalid
from meltline.domain.iceberg.names import TableName, split_name
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.domain.units import from_millis
from meltline.ports import TableMove

_LONG_AGO = from_millis(0)


@dataclass(frozen=True)
class RestoredTable:
    """A restored table.

    Attributes:
        snapshot_id: Its current snapshot; None if it has none.
        missing: Files of the snapshot that an engine had already deleted. Checked only after an
            external drop: otherwise nothing but Meltline deletes them.
        owner: The owner by the table's property. Roles are not checked: the user who ran the undrop
            is recorded beside it (TT-51).
    """

    table: TableName
    uuid: str
    snapshot_id: int | None
    committed_at: datetime | None
    missing: tuple[str, ...] = ()
    owner: str = ""

    @property
    def whose(self) -> str:
        """Formats the owner as a suffix for the audit log."""
        return f", of {self.owner}" if self.owner else ""


@dataclass(frozen=True)
class Undropped:
    """Result of an undrop."""

    object: ObjectName
    drop: Drop
    tables: tuple[RestoredTable, ...]


def undrop(
    context: ReadContext, text: str, kind: ObjectKind | None = None, *, dry_run: bool = False
) -> Undropped:
    """Restores the last dropped object of a name (TT-42 to TT-46, TT-53).

    A container is restored with the tables that were dropped with it, and with its own properties;
    tables that were dropped one by one before stay dropped.

    Raises:
        UsageInvalid: It is not a name, or is ambiguous without `kind`.
        NotDropped: No dropped object has this name.
        OutsideRetention: Its retention has ended.
        NameConflict: The name is taken; nothing was changed.
        ContainerDropped: Its schema or database has been dropped.
        FilesClaimed: A purge has begun to delete some of its files.
        LockHeld: A run works on it.
        CommitConflict: Another process restored or changed it at the same moment.
    """
    parts = _parts(text)
    catalog = catalog_of(context, parts[0], text)
    listing = catalog.listing()
    tables = dropped_tables(context, listing)
    namespaces = dropped_namespaces(catalog.name, listing)
    now = context.clock.now()
    drops = _drops(tables, namespaces)
    name = _dropped_object(parts, kind, {drop.object for drop, _ in drops})
    require_changeable(context, name)
    fact = newest(context, listing, name, drops)
    require_container(name, listing, namespaces, now)
    require_free(name, listing)
    back = [t for t in tables if t.drop.batch == fact.batch and name.covers(_old_name(t))]
    done = Undropped(name, fact, tuple(_restored(context, table) for table in back))
    if dry_run:
        return done
    stones = [n for n in namespaces if n.drop.batch == fact.batch and not name.table]
    _bring_back(context, name, back, stones)
    _audit_undrop(context, done)
    return done


def _drops(
    tables: Iterable[DroppedTable], namespaces: Iterable[DroppedNamespace]
) -> list[tuple[Drop, datetime]]:
    """All drops, each with the time of its commit, which orders drops of one moment."""
    drops = [(table.drop, table.state.last_updated) for table in tables]
    return drops + [(namespace.drop, _LONG_AGO) for namespace in namespaces]


def _bring_back(
    context: ReadContext,
    name: ObjectName,
    tables: Sequence[DroppedTable],
    stones: Sequence[DroppedNamespace],
) -> None:
    moves = [TableMove(t.state.name, _old_name(t), unmarked(t.state)) for t in tables]
    states = [table.state for table in tables]
    with _protected(context, name, states):
        context.registrars[name.catalog].move(
            moves,
            create={stone.drop.object.namespace: stone.properties for stone in stones},
            remove=[stone.stands for stone in stones],
        )
        follow(context.control.registrations, states)


def _audit_undrop(context: ReadContext, done: Undropped) -> None:
    of_table = done.tables[0].whose if done.object.table and done.tables else ""
    detail = f"batch {done.drop.batch}: {len(done.tables)} tables{of_table}"
    audit(context, "undrop", str(done.object), detail=detail)
    for table in done.tables:
        with_it = f"batch {done.drop.batch}: with {done.object}{table.whose}"
        words = [] if done.object.table else [with_it]
        words += ["already deleted:", *table.missing[:100]] if table.missing else []
        if words:
            audit(context, "undrop", str(table.table), detail="\n".join(words))


def _parts(text: str) -> tuple[str, ...]:
    try:
        parts = split_name(text)
    except ValueError as error:
        raise _no_name(text, str(error)) from error
    if len(parts) < 2:
        raise _no_name(text, "one part")
    return parts


def _no_name(text: str, problem: str) -> UsageInvalid:
    return UsageInvalid(
        f"{text!r} is not the name of a table, schema or database",
        object=text,
        expected="catalog.namespace or catalog.namespace.table",
        found=problem,
        next="write the name in full, odd parts in backticks",
    )


def _dropped_object(
    parts: tuple[str, ...],
    kind: ObjectKind | None,
    dropped: Collection[ObjectName],
) -> ObjectName:
    """Resolves a name among the dropped objects."""
    could = [name for name in ObjectName.readings(parts) if kind in (None, name.kind)]
    if not could:
        raise _no_name(".".join(parts), f"no {kind} has a name of {len(parts)} parts")
    matches = [name for name in could if name in dropped]
    if len(matches) > 1:
        raise UsageInvalid(
            f"a table and a {matches[1].kind} {matches[0]} have been dropped",
            object=str(matches[0]),
            expected="one thing of that name, or --kind",
            found=" and ".join(str(name.kind) for name in matches),
            next="say --kind table or --kind schema",
        )
    return matches[0] if matches else could[0]


def _old_name(table: DroppedTable) -> TableName:
    return table.drop.object.table_name


def _restored(context: ReadContext, table: DroppedTable) -> RestoredTable:
    head = table.state.current_snapshot
    return RestoredTable(
        table=_old_name(table),
        uuid=table.state.uuid,
        snapshot_id=head.snapshot_id if head else None,
        committed_at=head.committed_at if head else None,
        missing=_missing(context, table.state, head) if head and table.drop.noticed else (),
        owner=table.state.properties.get("owner", ""),
    )


def _missing(context: ReadContext, state: TableMetadata, head: Snapshot) -> tuple[str, ...]:
    """Files of a commit that do not exist, as far as its own lists can be read."""
    veto = veto_for(context, state.uuid, head, "undrop")
    try:
        paths = sorted(files_of(context.store, context.manifests, veto))
    except (MeltlineError, FileNotFoundError):
        paths = [head.manifest_list] if head.manifest_list else list(head.inline_manifests)
    sizes = load_concurrently(context.store.size, paths)
    return tuple(path for path, size in zip(paths, sizes, strict=True) if size is None)


@contextmanager
def _protected(
    context: ReadContext, name: ObjectName, states: Sequence[TableMetadata]
) -> Iterator[None]:
    """Takes the locks of the sharing groups; for one table, a purge veto protects its head as well.

    The files of a dropped table are referenced all along, so the veto is only a second guard. A
    container of thousands of tables needs none.
    """
    purpose = f"undrop {name}"
    with ExitStack() as stack:
        if name.table and (head := states[0].current_snapshot):
            stack.enter_context(snapshot_kept(context, states[0].uuid, head, purpose))
        else:
            stack.enter_context(
                group_locks(context, busy(context.control.plans, name, states), purpose)
            )
        yield
