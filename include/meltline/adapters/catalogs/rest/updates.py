"""An edit of a table as a REST catalog takes it: updates, and what must hold for them.

The server writes the metadata, so unknown fields and every format stay its own care. Each ref is
asserted as it was seen. No requirement of the protocol asserts a property: of two writers of one
property the later one wins.
"""

from meltline.adapters.catalogs.rest.protocol import Json
from meltline.domain.errors import CatalogReadOnly
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.table_metadata import SnapshotRef

Changes = tuple[list[Json], list[Json]]


def as_updates(document: MetadataEditor) -> Changes:
    """What to require and what to update.

    Raises:
        CatalogReadOnly: The edit is of something else than properties and refs.
    """
    if not document.changes_only("properties", "refs", "current-snapshot-id", "snapshot-log"):
        raise CatalogReadOnly(
            f"{document.state.name}: a REST catalog takes no such change from here",
            object=str(document.state.name),
            expected="a change of properties, branches or tags",
            found="another change",
            next="make it with an engine",
        )
    requirements, updates = _refs(document)
    same = {"type": "assert-table-uuid", "uuid": document.state.table_uuid}
    return [same, *requirements], [*_properties(document), *updates]


def _properties(document: MetadataEditor) -> list[Json]:
    before, after = document.state.properties, document.edited.properties
    updates: list[Json] = []
    if changed := {key: text for key, text in after.items() if before.get(key) != text}:
        updates.append({"action": "set-properties", "updates": changed})
    if removals := sorted(before.keys() - after.keys()):
        updates.append({"action": "remove-properties", "removals": removals})
    return updates


def _refs(document: MetadataEditor) -> Changes:
    before, after = document.state.refs, document.edited.refs
    requirements: list[Json] = []
    updates: list[Json] = []
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        snapshot = None if was is None else was.snapshot_id
        requirements.append(
            {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot}
        )
        removal = {"action": "remove-snapshot-ref", "ref-name": name}
        updates.append(removal if now is None else _set(now))
    return requirements, updates


def _set(ref: SnapshotRef) -> Json:
    written: dict[str, object] = {
        "action": "set-snapshot-ref",
        "ref-name": ref.name,
        "type": "branch" if ref.is_branch else "tag",
        "snapshot-id": ref.snapshot_id,
        "max-ref-age-ms": ref.max_ref_age_ms,
        "max-snapshot-age-ms": ref.max_snapshot_age_ms,
        "min-snapshots-to-keep": ref.min_snapshots_to_keep,
    }
    return {key: field for key, field in written.items() if field is not None}
