"""Edits a table where the client writes its metadata: read, change, write, compare-and-swap.

The SQL catalog and the metastores share it; REST uses it only for edits that no update can express.
All catalogs share its errors.
"""

import time
from collections.abc import Callable
from typing import Protocol
from uuid import uuid4

from meltline.domain.clock import Clock
from meltline.domain.errors import CatalogReadOnly, CommitConflict, TableNotFound
from meltline.domain.iceberg.metadata_editor import MetadataEditor, unreadable
from meltline.domain.iceberg.names import TableName
from meltline.ports import Catalog, MetadataFiles, TableEdit
from meltline.retries import ATTEMPTS, until_done


class Pointers(Protocol):
    """A catalog's pointers to current metadata files."""

    def location(self, name: TableName) -> str:
        """Returns a table's current metadata file. Raises TableNotFound."""
        ...

    def swap(self, name: TableName, base: str, new: str) -> bool:
        """Points a table at a new metadata file if its current one is still the base.

        Returns:
            False when the current one certainly differs, and nothing was changed.
        """
        ...


def commit_edit(
    pointers: Pointers,
    store: MetadataFiles,
    name: TableName,
    edit: TableEdit,
    clock: Clock,
    *,
    unique: Callable[[], str] = lambda: str(uuid4()),
    pause: Callable[[float], None] = time.sleep,
) -> str:
    """Implements `Catalog.edit_table`; after a conflict, retries on the table's new state.

    Deletes a file of ours that lost the race: its name is new and was never in any catalog. The
    file stays when a swap's outcome is unknown.
    """

    def attempt() -> str | None:
        base = pointers.location(name)
        new = write_edited(store, name, base, edit, clock, unique)
        if new == base or pointers.swap(name, base, new):
            return new
        store.delete([new])
        return None

    location = until_done(attempt, pause)
    if location is None:
        raise always_others(name)
    return location


def write_edited(
    store: MetadataFiles,
    name: TableName,
    base: str,
    edit: TableEdit,
    clock: Clock,
    unique: Callable[[], str] = lambda: str(uuid4()),
) -> str:
    """Writes the metadata file that results from an edit; returns the base if nothing changes.

    Returns:
        The path of the file, a new one that was never in any catalog.
    """
    document = open_document(store, name, base, clock)
    edit(document)
    if not document.is_changed:
        return base
    new = document.successor(unique())
    store.write(new.location, new.content)
    return new.location


def open_document(
    store: MetadataFiles, name: TableName, location: str, clock: Clock
) -> MetadataEditor:
    """Opens a metadata file for editing; raises as `MetadataEditor.read` does."""
    try:
        content = store.read(location)
    except FileNotFoundError as missing:
        raise unreadable(name, location, "no such file") from missing
    return MetadataEditor.read(name, location, content, clock.now())


def always_others(name: TableName | str) -> CommitConflict:
    """Builds the error for an edit whose every attempt lost to a concurrent commit."""
    return CommitConflict(
        f"{name} changed each time its metadata was to be swapped",
        object=str(name),
        expected="the table to stand still for a moment",
        found=f"{ATTEMPTS} commits of others in a row; nothing of ours was done",
        next="run the command again",
    )


def fate_unknown(name: TableName, answer: str) -> CommitConflict:
    """Builds the error for a commit whose outcome the catalog did not report."""
    return CommitConflict(
        f"nobody knows whether the change of {name} was made",
        object=str(name),
        expected="an answer of the catalog",
        found=answer,
        next="look at the table; if the change is not there, run the command again",
    )


def require_writable(catalog: Catalog) -> None:
    """Raises CatalogReadOnly if a catalog is observed for reachability only."""
    if catalog.observe_only:
        raise CatalogReadOnly(
            f"catalog {catalog.name} is only observed",
            object=catalog.name,
            expected="a catalog without observe-only: true",
            found="observe-only: true",
            next="make the change with the tool that owns that catalog",
        )


def no_table(catalog: str, name: TableName) -> TableNotFound:
    """Builds the error for a table that the catalog does not have."""
    return TableNotFound(
        f"catalog {catalog} has no table {name}",
        object=str(name),
        expected="a table of that name",
        found="none",
        next="`meltline storage` lists the tables",
    )


def a_view(name: TableName) -> TableNotFound:
    """Builds the error for a name that belongs to a view, which has no snapshots."""
    return TableNotFound(
        f"{name} is a view: it has no past of its own",
        object=str(name),
        expected="a table",
        found="a view",
        next="read its past with the clause behind each table of its query, which "
        f"SHOW CREATE TABLE {name} shows",
    )


def not_as_expected(namespace: str, key: str, expected: str | None, actual: str) -> CommitConflict:
    """Builds the error for a namespace property that differs from the change's base."""
    return CommitConflict(
        f"{key} of {namespace} has changed meanwhile",
        object=namespace,
        expected="no such property" if expected is None else expected,
        found=actual,
        next="look at it, and run the command again if it is still wanted",
    )
