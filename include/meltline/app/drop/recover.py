"""Recover: restores an expired snapshot, whose files are in failsafe, as a new table; best effort.

Failsafe is not a backup. A snapshot's files stay there until they are purged, and the metadata file
that its expiration replaced still describes it. Recovery writes new metadata for that one snapshot,
under a new name and a new UUID. It copies nothing, and deleted files stay deleted (ML-5, ML-25).
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
    """Result of a recovery.

    Attributes:
        source: The table of the snapshot, and its UUID.
        table: The new table.
        files_found: Number of files of the snapshot that still exist.
        missing: Deleted files; reads that need one of them fail.
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
    """Creates a new table from an expired snapshot, and cancels its files' departures.

    Args:
        context: The ports.
        text: The table, by a current or former name.
        target: The new table's name.
        reason: The reason, for the audit.
        snapshot_id: The snapshot; None for the newest expired one.
        dry_run: Check everything and change nothing.

    Raises:
        UsageInvalid: There is no reason, or the snapshot has not expired.
        RecoveryImpossible: No metadata describes such a snapshot any more, or one of its lists is
            gone.
        NameConflict: The new name is taken.
        FilesClaimed: A purge has begun to delete some of its files.
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
    """Refuses a new table whose name is taken, or whose namespace does not exist.

    Raises:
        NameConflict: The name is taken.
        NamespaceNotFound: The namespace does not exist.
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
    except NOT_REGISTERED:  # if the outcome is unknown, the table may exist
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
    """Writes the new table's first metadata file, with this UUID. Returns its path."""
    state = description.state
    content = store.read(state.metadata_location)
    document = parse_json(state.name, state.metadata_location, content)
    assert isinstance(document, dict)  # it was parsed before
    location = f"{state.location.rstrip('/')}-recovered-{uuid}"
    metadata = only_snapshot(document, description.snapshot.snapshot_id)
    copied = copied_properties(state.properties)
    # Dated as the commit was: engines refuse metadata from the future, as a sandbox may have.
    committed = to_millis(description.snapshot.committed_at)
    metadata |= {
        "table-uuid": uuid,
        "location": location,
        "last-updated-ms": committed,
        # Its files are in another table's folder: they are shared as a clone's are.
        "properties": copied | guarded(copied),
        "metadata-log": [],
        "snapshot-log": [
            {"timestamp-ms": committed, "snapshot-id": description.snapshot.snapshot_id}
        ],
    }
    file = first_file(done.table, metadata, str(uuid4()))
    writer.write(file.location, file.content)
    return file.location
