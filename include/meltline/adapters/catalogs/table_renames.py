"""Moving tables where the client writes their metadata: read, change, write, swap them at once."""

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
    """One table's row: from where to where, and which metadata file replaces which."""

    source: TableName
    target: TableName
    base: str
    new: str


class Rows(Protocol):
    """A catalog's rows."""

    def location(self, name: TableName) -> str:
        """Where a table's metadata lies now. Raises TableNotFound."""
        ...

    def apply(
        self, steps: Sequence[MoveStep], create: Namespaces, remove: Sequence[tuple[str, ...]]
    ) -> bool:
        """Carries all of it out in one transaction.

        Returns:
            False when a table surely does not stand at its base any more; nothing was changed.

        Raises:
            NameConflict: A name is taken; nothing was changed.
            NamespaceNotEmpty: Something is left in a namespace; nothing was changed.
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
    """Carries out `Catalog.move`; conflicts are retried on what the tables have become.

    Files of ours that surely lost are taken away again: no catalog has ever had them.
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
    """The metadata file to register: the one asked for, or its successor with an edit.

    The catalog's clock dates it: engines refuse metadata of a time to come. Where the name is
    taken, our own file goes again.
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

    They go again where a name is taken, for then no catalog has ever had them; where nobody knows,
    they stay. So do those that are taken out of the mapping, once they have been registered.
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
    """Another table, or a view, has the name."""
    return NameConflict(
        f"{name} is taken",
        object=str(name),
        expected="a free name",
        found="another table or view of that name",
        next=f"give that one another name: `meltline rename {quote(name)} NEW`",
    )


def namespace_taken(catalog: str, levels: tuple[str, ...]) -> NameConflict:
    """A namespace that was to be made is there."""
    name = ".".join(map(quote_part, (catalog, *levels)))
    return NameConflict(
        f"namespace {name} is there already",
        object=name,
        expected="no namespace of that name",
        found="one",
        next=f"give that one another name: `meltline rename {quote(name)} NEW`",
    )


def not_empty(catalog: str, levels: tuple[str, ...], content: str) -> NamespaceNotEmpty:
    """A namespace that was to go is not empty."""
    name = ".".join(map(quote_part, (catalog, *levels)))
    return NamespaceNotEmpty(
        f"{name} holds something that cannot be moved with it",
        object=name,
        expected="Iceberg tables alone",
        found=content,
        next="drop or move that with an engine first; nothing was changed",
    )
