"""Renames tables where the client writes their metadata: read, change, write, swap all at once.

The SQL catalog applies it in one transaction. Metastores and REST share its handling of first
metadata files and its errors about names.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

from meltline.adapters.catalogs.table_commits import always_others, write_edited
from meltline.domain.clock import Clock
from meltline.domain.errors import (
    CatalogReadOnly,
    NameConflict,
    NamespaceNotEmpty,
)
from meltline.domain.iceberg.names import TableName, quote_part
from meltline.domain.safe_text import quote
from meltline.ports import (
    NOT_REGISTERED,
    MetadataFiles,
    NewTable,
    ObjectRemover,
    TableEdit,
    TableMove,
)
from meltline.retries import until_done

Namespaces = Mapping[tuple[str, ...], Mapping[str, str]]


@dataclass(frozen=True)
class MoveStep:
    """One table's row: its old and new name, and its old and new metadata file."""

    source: TableName
    target: TableName
    base: str
    new: str


class Rows(Protocol):
    """A catalog's rows, changed all at once."""

    def location(self, name: TableName) -> str:
        """Returns a table's current metadata file. Raises TableNotFound."""
        ...

    def apply(
        self, steps: Sequence[MoveStep], create: Namespaces, remove: Sequence[tuple[str, ...]]
    ) -> bool:
        """Applies all steps in one transaction.

        Returns:
            False when a table's current file certainly is not its base; nothing was changed.

        Raises:
            NameConflict: A name is taken; nothing was changed.
            NamespaceNotEmpty: A namespace still has content; nothing was changed.
        """
        ...


def commit_moves(
    rows: Rows,
    store: MetadataFiles,
    moves: Sequence[TableMove],
    create: Namespaces,
    remove: Sequence[tuple[str, ...]],
    clock: Clock,
    *,
    unique: Callable[[], str] = lambda: str(uuid4()),
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Implements `Catalog.move`; after a conflict, retries on the tables' new states.

    Deletes files of ours that certainly lost: they were never in any catalog.
    """

    def attempt() -> bool | None:
        steps = _write_all(rows, store, moves, clock, unique)
        try:
            if rows.apply(steps, create, remove):
                return True
        except (NameConflict, NamespaceNotEmpty, CatalogReadOnly):
            _take_away(store, steps)
            raise
        _take_away(store, steps)
        return None

    if not until_done(attempt, pause):
        raise always_others(", ".join(str(move.source) for move in moves[:3]))


def _write_all(
    rows: Rows,
    store: MetadataFiles,
    moves: Sequence[TableMove],
    clock: Clock,
    unique: Callable[[], str],
) -> list[MoveStep]:
    steps: list[MoveStep] = []
    try:
        for move in moves:
            base = rows.location(move.source)
            new = write_edited(store, move.source, base, move.edit, clock, unique)
            steps.append(MoveStep(move.source, move.target, base, new))
    except BaseException:
        _take_away(store, steps)
        raise
    return steps


@contextmanager
def registrable(
    store: MetadataFiles, name: TableName, location: str, edit: TableEdit | None, clock: Clock
) -> Iterator[str]:
    """Yields the metadata file to register: the requested one, or its successor with an edit.

    The catalog's clock dates it: engines refuse metadata with a future time. Deletes our own file
    if the name is taken.
    """
    new = location if edit is None else write_edited(store, name, location, edit, clock)
    try:
        yield new
    except NameConflict:
        if new != location:
            store.delete([new])
        raise


@contextmanager
def first_files(
    store: MetadataFiles, tables: Sequence[NewTable], clock: Clock
) -> Iterator[dict[TableName, str]]:
    """Writes the first metadata files of new tables, to be registered.

    Deletes them if a name is taken, for then they were never in any catalog; they stay if the
    outcome is unknown. So do files removed from the mapping, once they are registered.
    """
    at: dict[TableName, str] = {}
    try:
        for table in tables:
            file = table.first(clock.now())
            at[table.name] = file.location
            store.write(file.location, file.content)
    except BaseException:
        _delete(store, at.values())
        raise
    try:
        yield at
    except NOT_REGISTERED:
        _delete(store, at.values())
        raise


def _delete(store: ObjectRemover, locations: Collection[str]) -> None:
    if locations:
        store.delete(list(locations))


def _take_away(store: ObjectRemover, steps: Sequence[MoveStep]) -> None:
    _delete(store, [step.new for step in steps if step.new != step.base])


def name_taken(name: TableName) -> NameConflict:
    """Builds the error for a name that another table or view has."""
    return NameConflict(
        f"{name} is taken",
        object=str(name),
        expected="a free name",
        found="another table or view of that name",
        next=f"give that one another name: `meltline rename {quote(name)} NEW`",
    )


def namespace_taken(catalog: str, levels: tuple[str, ...]) -> NameConflict:
    """Builds the error for a new namespace that exists already."""
    name = ".".join(map(quote_part, (catalog, *levels)))
    return NameConflict(
        f"namespace {name} is there already",
        object=name,
        expected="no namespace of that name",
        found="one",
        next=f"give that one another name: `meltline rename {quote(name)} NEW`",
    )


def not_empty(catalog: str, levels: tuple[str, ...], content: str) -> NamespaceNotEmpty:
    """Builds the error for a namespace that should be removed and is not empty."""
    name = ".".join(map(quote_part, (catalog, *levels)))
    return NamespaceNotEmpty(
        f"{name} holds something that cannot be moved with it",
        object=name,
        expected="Iceberg tables alone",
        found=content,
        next="drop or move that with an engine first; nothing was changed",
    )
