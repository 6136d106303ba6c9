"""Shared checks and edits of the commands that change a table: branch, tag, rename and others.

`commit` guards against a table that another one has replaced since the command read it. The checks
of names of refs are here because several capabilities need them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from meltline.app.catalog.registrations import is_still
from meltline.app.catalog.resolve import load_table, require_changeable
from meltline.app.services import ReadContext
from meltline.domain.errors import NameConflict, RefNotFound, TableNotFound
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.table_metadata import MAIN, SnapshotRef, TableMetadata
from meltline.domain.iceberg.timeline import require_snapshot
from meltline.domain.retention.policy import OWN_TAGS
from meltline.domain.safe_text import quote
from meltline.ports import RegistrationLedger, TableEdit

_LONGEST_NAME = 255


def open_table(context: ReadContext, name: TableName) -> TableMetadata:
    """Returns a table that may be changed, as it is now.

    Raises:
        CatalogReadOnly: Its catalog is only observed, or it is one of the ledger's own tables.
        ObjectDropped: It has been dropped.
        TableNotFound: The catalog has no such table.
        MetadataUnreadable: Its metadata cannot be read.
    """
    require_changeable(context, ObjectName(name.catalog, name.namespace, name.name))
    return load_table(context, name)


def commit(
    context: ReadContext, seen: TableMetadata, edit: Callable[[MetadataEditor, TableMetadata], None]
) -> None:
    """Commits an edit to the table that was read, and to no other that has taken its name since.

    Args:
        context: Has the editor of the table's catalog.
        seen: The table as the command has read it.
        edit: Checks the newest state and changes the document; it runs again after a conflict.
    """
    guarded = same_table(seen, lambda document: edit(document, document.state))
    context.editors[seen.name.catalog].edit_table(seen.name, guarded)


def same_table(seen: TableMetadata, edit: TableEdit) -> TableEdit:
    """Wraps an edit so that it fails if another table has taken the name since."""

    def guarded(document: MetadataEditor) -> None:
        if not is_still(document.state, seen):
            raise TableNotFound(
                f"{seen.name} has been replaced by another table",
                object=str(seen.name),
                expected=f"the table of {seen.metadata_location}, or commits after that",
                found=f"another one, of {document.state.metadata_location}",
                next="look at it, and run the command again if it is still wanted",
            )
        edit(document)

    return guarded


def follow(registrations: RegistrationLedger, states: Sequence[TableMetadata]) -> None:
    """Records the metadata locations of tables whose names were changed.

    The next observation must see that the new name continues the old one. Metadata logs are
    truncated: after enough commits nothing else would prove it.
    """
    at = {(state.uuid, state.name): state.metadata_location for state in states}
    rows = [row for row in registrations.all() if (row.uuid, row.name) in at]
    moved_rows = [replace(row, metadata_location=at[row.uuid, row.name]) for row in rows]
    registrations.save(moved_rows)


def pin(document: MetadataEditor, tag: SnapshotRef, words: Mapping[str, str]) -> None:
    """Tags a snapshot and sets the properties that say who ordered it, in one commit.

    Raises:
        SnapshotNotFound: The table does not have the snapshot, or no longer has it.
    """
    require_snapshot(document.state, tag.snapshot_id)
    document.set_ref(tag)
    document.set_properties(words)


def unpin(document: MetadataEditor, tag: str, key: str) -> None:
    """Removes a tag, and the property that describes it."""
    document.remove_ref(tag)
    document.set_properties({}, [key])


def require_free_name(state: TableMetadata, name: str) -> None:
    """Refuses a name that a new branch or tag cannot have.

    Raises:
        NameConflict: The name is taken, reserved, or not usable in engines.
    """
    if name in state.refs or name == MAIN:
        kind = "branch" if name == MAIN or state.refs[name].is_branch else "tag"
        raise _conflict(state, name, f"a {kind} of that name", "choose another name")
    if name.startswith(OWN_TAGS):
        raise _conflict(state, name, "a name that Meltline gives itself", "choose another name")
    require_readable_name(state, name)
    if name.lstrip("-").isdecimal():
        # `VERSION AS OF '12'` would mean snapshot 12.
        raise _conflict(state, name, "a number", "choose a name with letters")


def require_readable_name(state: TableMetadata, name: str, prefix: str = "") -> None:
    """Refuses a name by which engines could not read a branch or tag; `prefix` is put before it.

    Raises:
        NameConflict: It is empty, too long or unprintable.
    """
    if not name.strip() or not name.isprintable() or len(prefix + name) > _LONGEST_NAME:
        problem = "an empty, too long or unprintable name"
        raise _conflict(state, name, problem, "choose a name with letters")


def require_ref(state: TableMetadata, name: str, *, is_branch: bool) -> SnapshotRef:
    """Returns a branch or tag of the table.

    Raises:
        RefNotFound: The table has no such branch or tag.
    """
    ref = state.refs.get(name)
    if ref is not None and ref.is_branch is is_branch:
        return ref
    kind = "branch" if is_branch else "tag"
    names = sorted(n for n, candidate in state.refs.items() if candidate.is_branch is is_branch)
    raise RefNotFound(
        f"{state.name} has no {kind} {name}",
        object=str(state.name),
        expected=", ".join(names[:8]) or f"a {kind}; the table has none",
        found=name if ref is None else f"a {'branch' if ref.is_branch else 'tag'} {name}",
        next=f"`meltline explain {quote(state.name)}` says what names its snapshots",
    )


def _conflict(state: TableMetadata, name: str, problem: str, fix: str) -> NameConflict:
    return NameConflict(
        f"{state.name}: {name!r} cannot be the name of a new branch or tag",
        object=str(state.name),
        expected="a free name",
        found=problem,
        next=fix,
    )
