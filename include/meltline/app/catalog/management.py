"""Which tables Meltline takes care of: attach and detach.

Of a table that was never read, detaching it is also a person's word that it refers to no other
table's files: purging, which such a table holds back everywhere, may go on. The word is for one
metadata file, by its place and its bytes, and for nothing that stands there later.
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
    """What became of a table.

    Attributes:
        vouched: What a person's word covers from now on; None where the table was read before.
    """

    table: TableName
    vouched: VouchedFile | None


def attach(
    context: ReadContext, name: TableName, reason: str = "", *, despite_guard: bool = False
) -> None:
    """Takes a table back into care; a word for it holds no longer, even if it stays unreadable.

    Args:
        context: Where it is.
        name: The table.
        reason: Why `gc.enabled=false` is overridden; it is recorded.
        despite_guard: Whether Meltline deletes in spite of the owner's `gc.enabled=false`.

    Raises:
        TableNotFound: The catalog has no such table.
        MetadataUnreadable: It cannot be read, so it cannot be cared for; nor was there a word.
        UsageInvalid: The owner's setting cannot be overridden, or there is no reason.
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
    """Leaves tables alone from now on; their references count as long as they can be read.

    Args:
        context: Where they are.
        names: The tables; all are looked at before the first is touched.
        reason: Why; a table that was never read completely demands one.
        dry_run: Says what would be vouched for, and changes nothing.

    Raises:
        TableNotFound: The catalog has no such table.
        CatalogReadOnly: A table that can be read stands where nothing may be changed.
        UsageInvalid: A table was never read completely, and there is no reason.
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
        if not never_read:  # else the word is what was asked for
            raise
    vouched = _vouch(context, pointer.name, at, reason) if never_read else None
    if not dry_run:
        # Once it is attached again, the owner's `gc.enabled=false` and the totals count again.
        _end_words(context, pointer.name, GuardKind.OVERRIDDEN, GuardKind.TRUSTED)
        if reason.strip():
            _record_detached(context, pointer.name, reason.strip())
        if vouched:
            raise_epoch(context, "detach")
            context.control.decisions.save_vouched([vouched])
        audit(context, "detach", str(pointer.name), reason, described(vouched) if vouched else "")
    return DetachedTable(pointer.name, vouched)


def _end_words(context: ReadContext, name: TableName, *kinds: GuardKind) -> bool:
    """Forgets a table's records of some kinds; returns whether it had one."""
    decisions = context.control.decisions
    uuids = {row.uuid for row in context.control.registrations.all() if row.name == name}
    records = [r for r in decisions.guards() if r.table_uuid in uuids and r.kind in kinds]
    for record in records:
        decisions.forget_guard(record.table_uuid, record.kind)
    return bool(records)


def _record_detached(context: ReadContext, name: TableName, reason: str) -> None:
    """Records the reason under each registration that has the name today."""
    decisions, now = context.control.decisions, context.clock.now()
    for row in context.control.registrations.all():
        if row.name == name and not row.is_ended:
            decisions.save_guard(
                GuardRecord(row.uuid, GuardKind.DETACHED, context.who, reason, now)
            )


def _opted_out(
    editors: Mapping[str, CatalogEditor], store: ObjectReader, pointer: CatalogEntry
) -> str:
    """Has the table say that it is left alone, where it can; returns where it stands then."""
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
    """A file's length and SHA-256; None and nothing where its bytes cannot be had."""
    try:
        content = store.read(location)
    except (MeltlineError, OSError):
        return None, ""
    return len(content), hashlib.sha256(content).hexdigest()


def described(vouched: VouchedFile) -> str:
    """What a word covers, for people."""
    size = "bytes unreadable" if vouched.size is None else f"{vouched.size} bytes"
    return f"{vouched.location}, {size}"


# --- what holds purging back ----------------------------------------------------------------------


def never_read(rows: Iterable[KnownTable], unread: Iterable[CatalogEntry]) -> list[CatalogEntry]:
    """Of tables that cannot be read completely, those that never were.

    What cannot be read under a name may be another table than the one that was read there, or may
    have come to refer to anything since. So it was read at the metadata file that was last seen
    only, and only if every snapshot in it could be read.

    Args:
        rows: What the ledger knows.
        unread: What catalogs have of such tables.
    """
    standing = (row for row in rows if not row.is_ended)
    rows_by_name = grouped(standing, lambda row: row.name)
    return [
        pointer for pointer in unread if not _was_read(pointer, rows_by_name.get(pointer.name, ()))
    ]


def _was_read(pointer: CatalogEntry, rows: Sequence[KnownTable]) -> bool:
    place = location_key(pointer.metadata_location)
    is_known = any(location_key(row.metadata_location) == place for row in rows)
    # What contradicts itself was read, and what it shares with whom is known.
    return is_known and not any(row.incomplete and row.status != CONTRADICTORY for row in rows)


def claim_unmanaged(
    context: ReadContext, answers: Mapping[CatalogEntry, object], now: datetime
) -> None:
    """Records what tables of formats that cannot be managed own, where the site has chosen so.

    `unreadable: hold-group` has the lake purge on beside them: what lies there waits.

    Args:
        context: Where it is recorded.
        answers: Tables as they were loaded, or why one could not be.
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
    """Tables of formats that cannot be managed that hold back what lies at their locations alone.

    All that their metadata states today must be recorded as theirs: then no plan touches it.
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
    """Of tables that cannot be read completely, those that hold all purging back, by name.

    They were never read, and nobody vouches for them.

    Args:
        decisions: Where people's words stand.
        store: Where the tables' metadata lies.
        rows: What the ledger knows.
        unread: What catalogs have of such tables.
    """
    unknown = set(never_read(rows, unread))
    unknown -= vouched_for(decisions, store, unknown)
    return sorted(unknown, key=lambda pointer: pointer.name)


def vouched_for(
    decisions: VouchedReader, store: ObjectReader, entries: Iterable[CatalogEntry]
) -> set[CatalogEntry]:
    """Those of the tables for which a person's word holds: file and bytes are what they were."""
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
    """Of tables that are left out, those that a person has detached with a reason, and the reason.

    Args:
        decisions: Where the reasons are.
        store: Where the tables' metadata lies.
        rows: What the ledger knows.
        unread: What catalogs have of tables that are left out.
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
