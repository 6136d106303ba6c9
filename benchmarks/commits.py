"""Commits by the thousand, made by Iceberg's own library, and the data files that they name."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

FOLDERS = 250
CONTENT = b"PAR1" * 16
"""What a data file holds that will be removed. Files that stay are empty: nobody opens them, and
deleting an empty file would be cheaper than deleting a real one."""


@dataclass(frozen=True)
class Commits:
    """Equal commits one after the other.

    Attributes:
        count: How many.
        added: Files that each adds.
        removed: Files of the one before that each removes, from the second on.
        first: Number of the first file.
        before: Number of the first file of the commit before; None where there is none.
    """

    count: int
    added: int
    removed: int
    first: int = 0
    before: int | None = None

    @property
    def next(self) -> int:
        """The number of the first file after these commits."""
        return self.first + self.count * self.added

    @property
    def files(self) -> int:
        """How many files they add."""
        return self.count * self.added

    @property
    def files_removed(self) -> int:
        """How many files they remove."""
        return self.removed * (self.count if self.before is not None else self.count - 1)

    def then(self, count: int, added: int, removed: int) -> "Commits":
        """What comes after these."""
        return Commits(count, added, removed, self.next, self.next - self.added)


class Committer:
    """Makes commits in the JVM of a session, by a class that is compiled there."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm = cast(Any, spark._jvm)
        compiler = self._jvm.org.codehaus.janino.SimpleCompiler()
        thread = self._jvm.java.lang.Thread.currentThread()
        compiler.setParentClassLoader(thread.getContextClassLoader())
        compiler.cook(Path(__file__).with_name("commits.java").read_text(encoding="utf-8"))
        self._commits = compiler.getClassLoader().loadClass("Commits").newInstance()

    def commit(self, table: str, data: str, commits: Commits) -> None:
        """Commits to a table, given by its name in Spark, files under the folder `data`."""
        loaded = self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self._spark._jsparkSession, table
        )
        before = -1 if commits.before is None else commits.before
        self._commits.write(
            loaded, data, FOLDERS, before, commits.first, commits.count, commits.added,
            commits.removed, len(CONTENT),
        )  # fmt: skip


def write_files(data: Path, commits: Commits, modified: datetime | None = None) -> None:
    """Writes the files of some commits, in a few threads.

    Args:
        data: The table's data folder.
        commits: What names them.
        modified: When they are to have been written; None leaves it at now.
    """
    for folder in range(min(FOLDERS, commits.next)):
        (data / f"{folder:03d}").mkdir(parents=True, exist_ok=True)
    when = None if modified is None else (modified.timestamp(), modified.timestamp())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda folder: _write_folder(data, folder, commits, when), range(FOLDERS)))


def _write_folder(
    data: Path, folder: int, commits: Commits, when: tuple[float, float] | None
) -> None:
    first = commits.first + (folder - commits.first) % FOLDERS
    if first >= commits.next:
        return
    with _opened(data / f"{folder:03d}") as place:
        for number in range(first, commits.next, FOLDERS):
            file = os.open(
                f"{100_000_000 + number}.parquet", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=place
            )
            if (number - commits.first) % commits.added < commits.removed:
                os.write(file, CONTENT)
            if when:
                os.utime(file, when)
            os.close(file)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    place = os.open(folder, os.O_RDONLY)
    try:
        yield place
    finally:
        os.close(place)
