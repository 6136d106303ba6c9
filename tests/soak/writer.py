"""Commits to the tables of a warehouse with PyIceberg: an engine that knows nothing of Meltline.

    python -m tests.soak.writer FOLDER SEED COMMITS

What fails, because another writer was quicker or because it does not fit, is left out.
"""

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

SPACE, CATALOG = "n", "lake"
MOST_TABLES = 4
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("part", pa.int32())])


def open_catalog(folder: Path) -> SqlCatalog:
    """The SQL catalog of a history."""
    warehouse = (folder / "warehouse").as_uri()
    return SqlCatalog(CATALOG, uri=f"sqlite:///{folder}/catalog.db", warehouse=warehouse)


class Writer:
    """One engine, and its dice."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.catalog = open_catalog(folder)
        self.dice = random.Random(seed)

    def commit(self) -> str:
        """One commit to one table, or to the catalog; returns what it was."""
        action = self.dice.choice(ACTIONS)
        names = sorted(self.catalog.list_tables(SPACE))
        if not names or action is Writer.create:
            self.create()
            return "create"
        table = self.catalog.load_table(self.dice.choice(names))
        action(self, table)
        return action.__name__

    def rows(self) -> pa.Table:
        start = self.dice.randrange(1000)
        ids = list(range(start, start + 4))
        return pa.table({"id": ids, "part": [n % 2 for n in ids]}, SCHEMA)

    def some_snapshot(self, table: Table) -> int | None:
        ids = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
        return self.dice.choice(ids) if ids else None

    def create(self, table: Table | None = None) -> None:
        names = {name[-1] for name in self.catalog.list_tables(SPACE)}
        free = [f"t{n}" for n in range(MOST_TABLES) if f"t{n}" not in names]
        if free:
            made = self.catalog.create_table((SPACE, free[0]), SCHEMA)
            made.append(self.rows())

    def append(self, table: Table) -> None:
        table.append(self.rows())

    def overwrite(self, table: Table) -> None:
        table.overwrite(self.rows())

    def delete_rows(self, table: Table) -> None:
        table.delete(f"part = {self.dice.randrange(2)}")

    def tag(self, table: Table) -> None:
        if snapshot := self.some_snapshot(table):
            table.manage_snapshots().create_tag(snapshot, f"tag{self.dice.randrange(3)}").commit()

    def branch(self, table: Table) -> None:
        """A branch with a commit of its own."""
        name = f"branch{self.dice.randrange(2)}"
        if name not in table.refs() and (snapshot := self.some_snapshot(table)):
            table.manage_snapshots().create_branch(snapshot, name).commit()
        table.append(self.rows(), branch=name)

    def drop_ref(self, table: Table) -> None:
        for name in sorted(table.refs().keys() - {"main"})[:1]:
            remove = table.manage_snapshots()
            (remove.remove_branch if name.startswith("b") else remove.remove_tag)(name).commit()

    def rollback(self, table: Table) -> None:
        if snapshot := self.some_snapshot(table):
            table.manage_snapshots().set_current_snapshot(snapshot).commit()

    def hold(self, table: Table) -> None:
        with table.transaction() as change:
            change.set_properties({"meltline.hold": "audit"})

    def let_go(self, table: Table) -> None:
        if "meltline.hold" in table.properties:
            with table.transaction() as change:
                change.remove_properties("meltline.hold")

    def let_all_go(self) -> None:
        """Ends every hold, also of what was dropped under one."""
        for space in self.catalog.list_namespaces():
            for name in self.catalog.list_tables(space):
                self.let_go(self.catalog.load_table(name))

    def add_again(self, table: Table) -> None:
        """A commit names a file that another table names already, or that this one once did.

        Not one that it names now: of a path that is there twice PyIceberg removes both entries and
        counts one, and a snapshot that contradicts itself is skipped for good.
        """
        names = self.catalog.list_tables(SPACE)
        other = self.catalog.load_table(self.dice.choice(sorted(names)))
        then = self.some_snapshot(other)
        here = {task.file.file_path for task in table.scan().plan_files()}
        paths = {task.file.file_path for task in other.scan(snapshot_id=then).plan_files()} - here
        if there := sorted(path for path in paths if Path(path.removeprefix("file://")).exists()):
            table.add_files([self.dice.choice(there)], check_duplicate_files=False)

    def register_old(self, table: Table) -> None:
        """A table as it was, under another name."""
        names = {name[-1] for name in self.catalog.list_tables(SPACE)}
        logged = [entry.metadata_file for entry in table.metadata.metadata_log]
        there = [at for at in logged if Path(at.removeprefix("file://")).exists()]
        if there and "old" not in names:
            self.catalog.register_table((SPACE, "old"), self.dice.choice(there[-2:]))

    def rename(self, table: Table) -> None:
        names = self.catalog.list_tables(SPACE)
        if (name := (SPACE, f"{table.name()[-1][:2]}r")) not in names:
            self.catalog.rename_table(table.name(), name)

    def drop(self, table: Table) -> None:
        self.catalog.drop_table(table.name())


ACTIONS: tuple[Callable[[Writer, Table], None], ...] = (
    Writer.append, Writer.append, Writer.append, Writer.overwrite, Writer.overwrite,
    Writer.overwrite, Writer.delete_rows, Writer.delete_rows, Writer.tag, Writer.branch,
    Writer.drop_ref, Writer.drop_ref, Writer.rollback, Writer.hold, Writer.let_go, Writer.let_go,
    Writer.add_again, Writer.rename, Writer.drop, Writer.create, Writer.create,
)  # fmt: skip


def main(folder: Path, seed: int, commits: int) -> None:
    """Tells each commit."""
    writer = Writer(folder, seed)
    for _ in range(commits):
        try:
            print(writer.commit(), flush=True)
        except (CommitFailedException, ValueError, OSError) as refused:
            print(f"not done: {type(refused).__name__}: {refused}".splitlines()[0], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
