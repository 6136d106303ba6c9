"""Attaches tables to Meltline's management, and detaches them.

The commands `attach` and `detach` call it; observe and gates ask it which unreadable tables block
purging. A table that was never read blocks purging everywhere. Detaching it records an operator's
override: it references no file of another table, and purging may continue. The override is valid
for one metadata file, by path and content hash, and for no later one.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.app.catalog.metadata import load_if_readable, load_state, load_unmanaged
from meltline.app.catalog.registrations import load_standing
from meltline.app.safety.audit import audit
from meltline.app.safety.epochs import raise_epoch
from meltline.app.safety.owner_guards import override
from meltline.app.services import ReadContext
from meltline.domain.errors import (
    CatalogReadOnly,
    FormatUnsupported,
    MeltlineError,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.locations import Ownership, claim_prefix, location_key
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.policy import ENABLED
from meltline.ports import (
    CONTRADICTORY,
    UNREADABLE,
    Catalog,
    CatalogEditor,
    CatalogEntry,
    Decisions,
    GuardKind,
    GuardRecord,
    KnownTable,
    ObjectReader,
    VouchedFile,
    VouchedReader,
)


@dataclass(frozen=True)
class DetachedTable:
    """Result of detaching a table.

    Attributes:
        vouched: The file that the override covers from now on; None if the table was read before.
    """

    table: TableName
    vouched: VouchedFile | None


def attach(
    context: ReadContext, name: TableName, reason: str = "", *, despite_guard: bool = False
) -> None:
    """Manages a table again; an override for it ends, even if the table stays unreadable.

    Args:
        context: Has its catalog.
        name: The table.
        reason: Why `gc.enabled=false` is overridden; it is recorded.
        despite_guard: Whether Meltline deletes in spite of the owner's `gc.enabled=false`.

    Raises:
        TableNotFound: The catalog has no such table.
        MetadataUnreadable: It cannot be read, so it cannot be managed, and had no override to end.
        UsageInvalid: The owner's setting cannot be overridden, or the reason is missing.
    """
    was_detached = _end_words(context, name, GuardKind.DETACHED)
    was_vouched = context.control.decisions.forget_vouched(name)
    if was_vouched:
        raise_epoch(context, "attach")
        audit(context, "attach", str(name), detail="the word for it is taken back")
    (pointer,) = _entries(context.catalogs, [name])
    try:
        state = load_state(context.store, name, pointer.metadata_location)
    except MeltlineError:
        if was_vouched or was_detached:
            return
        raise
    if despite_guard:
        override(context, load_standing(context, name, pointer.metadata_location), reason)
    if ENABLED in state.properties:
        context.editors[name.catalog].set_table_properties(name, {}, [ENABLED])
    if not was_vouched:
        audit(context, "attach", str(name))


def detach(
    context: ReadContext, names: Sequence[TableName], reason: str, *, dry_run: bool = False
) -> list[DetachedTable]:
    """Stops managing tables; their references count as long as they can be read.

    Args:
        context: Has their catalogs.
        names: The tables; all are read before the first is changed.
        reason: Why; required for a table that was never read completely.
        dry_run: Reports what an override would cover, and changes nothing.

    Raises:
        TableNotFound: The catalog has no such table.
        CatalogReadOnly: A readable table is in a catalog in which nothing may be changed.
        UsageInvalid: A table was never read completely, and the reason is missing.
    """
    rows = context.control.registrations.all()
    entries = _entries(context.catalogs, list(dict.fromkeys(names)))
    never_read = {pointer for pointer in entries if _was_never_read(context.store, rows, pointer)}
    if never_read and not reason.strip():
        raise _reason_missing(sorted(pointer.name for pointer in never_read))
    return [
        _detach(context, pointer, reason, pointer in never_read, dry_run=dry_run)
        for pointer in entries
    ]


def _detach(
    context: ReadContext, pointer: CatalogEntry, reason: str, never_read: bool, *, dry_run: bool
) -> DetachedTable:
    at = pointer.metadata_location
    try:
        at = at if dry_run else _opted_out(context.editors, context.store, pointer)
    except CatalogReadOnly:
        if not never_read:  # else only the override was requested
            raise
    vouched = _vouch(context, pointer.name, at, reason) if never_read else None
    if not dry_run:
        # Once attached again, the owner's `gc.enabled=false` and the totals count again.
        _end_words(context, pointer.name, GuardKind.OVERRIDDEN, GuardKind.TRUSTED)
        if reason.strip():
            _record_detached(context, pointer.name, reason.strip())
        if vouched:
            raise_epoch(context, "detach")
            context.control.decisions.save_vouched([vouched])
        audit(context, "detach", str(pointer.name), reason, described(vouched) if vouched else "")
    return DetachedTable(pointer.name, vouched)


def _end_words(context: ReadContext, name: TableName, *kinds: GuardKind) -> bool:
    """Deletes a table's records of some kinds; returns whether it had one."""
    decisions = context.control.decisions
    uuids = {row.uuid for row in context.control.registrations.all() if row.name == name}
    records = [r for r in decisions.guards() if r.table_uuid in uuids and r.kind in kinds]
    for record in records:
        decisions.forget_guard(record.table_uuid, record.kind)
    return bool(records)


def _record_detached(context: ReadContext, name: TableName, reason: str) -> None:
    """Records the reason under each registration that has the name now."""
    decisions, now = context.control.decisions, context.clock.now()
    for row in context.control.registrations.all():
        if row.name == name and not row.is_ended:
            decisions.save_guard(
                GuardRecord(row.uuid, GuardKind.DETACHED, context.who, reason, now)
            )


def _opted_out(
    editors: Mapping[str, CatalogEditor], store: ObjectReader, pointer: CatalogEntry
) -> str:
    """Sets the opt-out property on a table if possible; returns its new metadata location."""
    state = load_if_readable(store, pointer.name, pointer.metadata_location)
    if state is None or state.properties.get(ENABLED) == "false":
        return pointer.metadata_location

    def edit(document: MetadataEditor) -> None:
        document.set_properties({ENABLED: "false"})

    return editors[pointer.name.catalog].edit_table(pointer.name, edit)


def _vouch(context: ReadContext, name: TableName, location: str, reason: str) -> VouchedFile:
    size, sha256 = _fingerprint(context.store, location)
    return VouchedFile(name, location, size, sha256, context.who, reason, context.clock.now())


def _fingerprint(store: ObjectReader, location: str) -> tuple[int | None, str]:
    """Returns a file's length and SHA-256; None and "" if it cannot be read."""
    try:
        content = store.read(location)
    except (MeltlineError, OSError):
        return None, ""
    return len(content), hashlib.sha256(content).hexdigest()


def described(vouched: VouchedFile) -> str:
    """Describes what an override covers, for output."""
    size = "bytes unreadable" if vouched.size is None else f"{vouched.size} bytes"
    return f"{vouched.location}, {size}"


# --- what blocks purging --------------------------------------------------------------------------


def never_read(rows: Iterable[KnownTable], unread: Iterable[CatalogEntry]) -> list[CatalogEntry]:
    """Returns unreadable tables that were never read completely.

    An unreadable table may not be the one that was read under its name before, or may reference new
    files by now. It counts as read only if the last observed metadata file is the current one, and
    every snapshot in it could be read.

    Args:
        rows: Registrations in the ledger.
        unread: Catalog entries of such tables.
    """
    standing = (row for row in rows if not row.is_ended)
    rows_by_name = grouped(standing, lambda row: row.name)
    return [
        pointer for pointer in unread if not _was_read(pointer, rows_by_name.get(pointer.name, ()))
    ]


def _was_read(pointer: CatalogEntry, rows: Sequence[KnownTable]) -> bool:
    place = location_key(pointer.metadata_location)
    is_known = any(location_key(row.metadata_location) == place for row in rows)
    # Contradictory metadata was read, and its sharing is known.
    return is_known and not any(row.incomplete and row.status != CONTRADICTORY for row in rows)


def claim_unmanaged(
    context: ReadContext, answers: Mapping[CatalogEntry, object], now: datetime
) -> None:
    """Records the locations of tables in unsupported formats, if the site has chosen so.

    With `unreadable: hold-group` the rest of the lake is still purged; files at these locations
    wait.

    Args:
        context: Has the registrations, to which they are added.
        answers: Loaded tables, or their errors.
        now: Wall clock.
    """
    if not context.config.holds_group:
        return
    registrations = context.control.registrations
    for pointer, error in answers.items():
        if not isinstance(error, FormatUnsupported):
            continue
        uuid, folders = load_unmanaged(context.store, pointer.name, pointer.metadata_location)
        if not uuid or not folders:
            continue
        rows = registrations.all()
        uuids = {row.uuid for row in rows if row.name == pointer.name and not row.is_ended}
        if not uuids:
            row = _unmanaged_row(pointer, uuid, folders[0], error, now)
            uuids = {opened.uuid for opened in registrations.open([row])}
        claims = {Ownership(claim_prefix(folder), uuid) for folder in folders for uuid in uuids}
        new = claims.difference(registrations.ownerships())
        if new:
            registrations.add_ownerships(sorted(new, key=lambda o: (o.prefix, o.table_uuid)), now)


def _unmanaged_row(
    pointer: CatalogEntry, uuid: str, location: str, error: MeltlineError, now: datetime
) -> KnownTable:
    return KnownTable(
        uuid=uuid,
        name=pointer.name,
        metadata_location=pointer.metadata_location,
        location=location,
        status=UNREADABLE,
        observed_at=now,
        error=error.message,
        incomplete=True,
        table_uuid=uuid,
    )


def held_by_group(
    context: ReadContext, rows: Iterable[KnownTable], errors: Mapping[CatalogEntry, MeltlineError]
) -> set[CatalogEntry]:
    """Returns tables of unsupported formats that block only the files at their own locations.

    Every location that their current metadata states must be recorded as theirs: then no plan
    includes files there.
    """
    if not context.config.holds_group:
        return set()
    ownerships = set(context.control.registrations.ownerships())
    standing = grouped((r for r in rows if not r.is_ended), lambda row: row.name)

    def is_confined(pointer: CatalogEntry) -> bool:
        try:
            _, folders = load_unmanaged(context.store, pointer.name, pointer.metadata_location)
        except MeltlineError:
            return False
        claims = [claim_prefix(folder) for folder in folders]
        return bool(claims) and any(
            all(Ownership(claim, row.uuid) in ownerships for claim in claims)
            for row in standing.get(pointer.name, ())
        )

    return {
        pointer
        for pointer, error in errors.items()
        if isinstance(error, FormatUnsupported) and is_confined(pointer)
    }


def holding_back(
    decisions: VouchedReader,
    store: ObjectReader,
    rows: Iterable[KnownTable],
    unread: Iterable[CatalogEntry],
) -> list[CatalogEntry]:
    """Returns the tables that block all purging, by name.

    They were never read completely, and no override covers them.

    Args:
        decisions: Has the overrides.
        store: Has the tables' metadata.
        rows: Registrations in the ledger.
        unread: Catalog entries of tables that cannot be read completely.
    """
    unknown = set(never_read(rows, unread))
    unknown -= vouched_for(decisions, store, unknown)
    return sorted(unknown, key=lambda pointer: pointer.name)


def vouched_for(
    decisions: VouchedReader, store: ObjectReader, entries: Iterable[CatalogEntry]
) -> set[CatalogEntry]:
    """Returns the tables whose override is valid: same metadata location, same content."""
    words = {(row.table, row.location): row for row in decisions.vouched()}
    return {
        pointer
        for pointer in entries
        if (word := words.get((pointer.name, pointer.metadata_location)))
        and (word.size, word.sha256) == _fingerprint(store, pointer.metadata_location)
    }


def detached_with_reason(
    decisions: Decisions,
    store: ObjectReader,
    rows: Iterable[KnownTable],
    unread: Sequence[CatalogEntry],
) -> Mapping[TableName, str]:
    """Returns the unread tables that an operator detached with a reason, and the reasons.

    Args:
        decisions: Has the reasons.
        store: Has the tables' metadata.
        rows: Registrations in the ledger.
        unread: Catalog entries of tables that are left out.
    """
    given = {r.table_uuid: r.reason for r in decisions.guards() if r.kind is GuardKind.DETACHED}
    standing = (row for row in rows if not row.is_ended)
    detached = {row.name: given[row.uuid] for row in standing if row.uuid in given}
    vouched = {pointer.name for pointer in vouched_for(decisions, store, unread)}
    words = {word.table: word.reason for word in decisions.vouched() if word.table in vouched}
    names = {pointer.name for pointer in unread}
    return {name: why for name, why in {**detached, **words}.items() if name in names}


def _was_never_read(store: ObjectReader, rows: Sequence[KnownTable], pointer: CatalogEntry) -> bool:
    broken = any(row.name == pointer.name and row.is_skipped for row in rows)
    state = load_if_readable(store, pointer.name, pointer.metadata_location)
    unread = broken or state is None
    return unread and pointer in never_read(rows, [pointer])


def _reason_missing(names: Sequence[TableName]) -> UsageInvalid:
    shown = ", ".join(map(str, names))
    return UsageInvalid(
        f"{shown}: never read completely, so detaching is a word that nothing else is needed there",
        object=shown,
        expected="--reason TEXT: why no file of another table is referred to",
        found="no reason",
        next="give the reason; it is kept with the word, and `meltline attach` takes both back",
    )


def _entries(catalogs: Mapping[str, Catalog], names: Sequence[TableName]) -> list[CatalogEntry]:
    listed = {name.catalog for name in names} & catalogs.keys()
    pointers = [pointer for name in listed for pointer in catalogs[name].listing().entries]
    by_name = {pointer.name: pointer for pointer in pointers}
    for name in names:
        if name not in by_name:
            raise TableNotFound(
                f"no table {name}",
                object=str(name),
                expected="a table of " + ", ".join(catalogs),
                found=str(name),
                next="`meltline storage` lists the tables",
            )
    return [by_name[name] for name in names]
