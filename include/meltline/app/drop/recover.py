"""Recover: what waits in failsafe, as a new table, best effort (ML-5, ML-25).

Failsafe is no backup. A snapshot's files lie there until they are purged, and the metadata file
that its expiration replaced still describes it. Recovering writes new metadata for that one
snapshot, under a new name and a new UUID; nothing is copied, and what is gone stays gone.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from uuid import uuid4

from meltline.app.catalog.new_names import require_free
from meltline.app.catalog.recoverable import Description, describe, look_for_files
from meltline.app.catalog.resolve import (
    catalog_of,
    parse_new_name,
    parse_table_name,
    require_changeable,
)
from meltline.app.observe.losses.vanished_commits import end_vanished
from meltline.app.safety.audit import audit
from meltline.app.safety.owner_guards import GuardLog
from meltline.app.safety.purge_vetoes import snapshot_kept
from meltline.app.services import ReadContext
from meltline.domain.clone.clones import copied_properties, guarded, only_snapshot
from meltline.domain.errors import NamespaceNotFound, UsageInvalid
from meltline.domain.iceberg.metadata_editor import first_file, parse_json
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.table_metadata import Snapshot
from meltline.domain.units import to_millis
from meltline.ports import NOT_REGISTERED, ObjectReader, ObjectWriter


@dataclass(frozen=True)
class Recovered:
    """What could be recovered.

    Attributes:
        source: The table that the snapshot was of, and its UUID.
        table: The new one.
        files_found: How many files of the snapshot are there.
        missing: Those that are gone; reads that need one of them fail.
    """

    source: TableName
    source_uuid: str
    snapshot: Snapshot
    table: TableName
    files_found: int
    missing: tuple[str, ...]


def recover(
    context: ReadContext,
    text: str,
    target: str,
    *,
    reason: str,
    snapshot_id: int | None = None,
    dry_run: bool = False,
) -> Recovered:
    """Makes a new table of a snapshot that has expired, and cancels its files' departures.

    Args:
        context: Where it was.
        text: The table, by a name that it has or had.
        target: The new table's name.
        reason: Why, for the audit.
        snapshot_id: Which snapshot; None for the newest that has expired.
        dry_run: Look, and change nothing.

    Raises:
        UsageInvalid: No reason, or a snapshot that has not expired.
        RecoveryImpossible: Nothing describes such a snapshot any more, or one of its lists is gone.
        NameConflict: The new name is taken.
        FilesClaimed: A purge has begun to delete files of it.
        LockHeld: A run works on the table.
    """
    source, new = parse_table_name(text), parse_new_name(target)
    if not reason.strip():
        raise UsageInvalid(
            "a recovery needs a reason",
            object="--reason",
            expected="why",
            found="nothing",
            next="say why",
        )
    _require_place(context, new)
    catalog_of(context, source.catalog, text)
    description = describe(context, source, snapshot_id)
    uuid, snapshot = description.state.uuid, description.snapshot
    protection = snapshot_kept(context, uuid, snapshot, f"recover {source}")
    with nullcontext() if dry_run else protection:
        done = Recovered(source, uuid, snapshot, new, *look_for_files(context, description))
        if not dry_run:
            _register(context, description, done)
            _audit_recovery(context, done, reason.strip())
            end_vanished(context, uuid, snapshot)
    return done


def _require_place(context: ReadContext, new: TableName) -> None:
    """Refuses a new table whose name is not free in its catalog, or has no namespace there.

    Raises:
        NameConflict: It is taken.
        NamespaceNotFound: There is none.
        CatalogReadOnly: That catalog cannot be changed.
    """
    name = ObjectName(new.catalog, new.namespace, new.name)
    listing = require_changeable(context, name).listing()
    require_free(name, listing)
    if new.namespace not in listing.namespaces:
        raise NamespaceNotFound(
            f"there is no namespace for {new}",
            object=str(new),
            expected="a namespace that is there",
            found="none of that name",
            next="create it with an engine, or choose another name",
        )


def _register(context: ReadContext, description: Description, done: Recovered) -> None:
    uuid = str(uuid4())
    GuardLog.of(context).sets(uuid)
    at = _write(context.store, context.writer, description, done, uuid)
    try:
        context.registrars[done.table.catalog].register(done.table, at)
    except NOT_REGISTERED:  # where nobody knows, the table may stand there
        context.remover.delete([at])
        raise


def _audit_recovery(context: ReadContext, done: Recovered, reason: str) -> None:
    snapshot_id = done.snapshot.snapshot_id
    missing_paths = "\n".join(done.missing[:100])
    missing = f"{len(done.missing)} missing:\n{missing_paths}" if done.missing else "none missing"
    detail = f"snapshot {snapshot_id} as {done.table}: {done.files_found} files found, {missing}"
    audit(context, "recover", str(done.source), reason, detail)
    audit(context, "recover", str(done.table), reason, f"from {done.source}@{snapshot_id}")


# --- the new table --------------------------------------------------------------------------------


def _write(
    store: ObjectReader,
    writer: ObjectWriter,
    description: Description,
    done: Recovered,
    uuid: str,
) -> str:
    """Writes the new table's first metadata file, with this UUID. Returns where."""
    state = description.state
    content = store.read(state.metadata_location)
    document = parse_json(state.name, state.metadata_location, content)
    assert isinstance(document, dict)  # it was read before
    location = f"{state.location.rstrip('/')}-recovered-{uuid}"
    metadata = only_snapshot(document, description.snapshot.snapshot_id)
    copied = copied_properties(state.properties)
    # Dated as the commit was: engines refuse metadata of a time to come, a sandbox's for one.
    committed = to_millis(description.snapshot.committed_at)
    metadata |= {
        "table-uuid": uuid,
        "location": location,
        "last-updated-ms": committed,
        # Its files lie in another table's folder: they are shared as a clone's are.
        "properties": copied | guarded(copied),
        "metadata-log": [],
        "snapshot-log": [
            {"timestamp-ms": committed, "snapshot-id": description.snapshot.snapshot_id}
        ],
    }
    file = first_file(done.table, metadata, str(uuid4()))
    writer.write(file.location, file.content)
    return file.location
