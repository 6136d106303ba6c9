"""A metastore in memory, with versions as Glue has them, that others use meanwhile."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count

from meltline.adapters.catalogs.metastores.rows import Document, Edit, Row
from meltline.domain.errors import NameConflict

Meanwhile = Callable[[], None]


class Killed(Exception):
    """The process has died."""


class MemoryMetastore:
    """The port `Metastore`, with rows that have versions.

    Attributes:
        meanwhile: What happens right before a request, by its number; the requests that it makes
            itself are not counted.
        dies_after: The request after which its process is dead.
        denied: Requests that are carried out and answered as if somebody else had been first.
        deletes: The numbers of the requests that delete.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Row] = {}
        self._versions = count(1)
        self._is_counting = True
        self.requests = 0
        self.meanwhile: dict[int, Meanwhile] = {}
        self.dies_after = -1
        self.denied: set[int] = set()
        self.deletes: set[int] = set()

    @contextmanager
    def _request(self) -> Iterator[bool]:
        """Yields whether the answer is to deny what was done."""
        if not self._is_counting:
            yield False
            return
        number, self.requests = self.requests, self.requests + 1
        if number in self.meanwhile:
            self._is_counting = False
            try:
                self.meanwhile[number]()
            finally:
                self._is_counting = True
        yield number in self.denied
        if number == self.dies_after:
            raise Killed

    def rows(self, database: str) -> Iterable[Row]:
        return [row for (at, _), row in sorted(self._rows.items()) if at == database]

    def row(self, database: str, table: str) -> Row | None:
        with self._request():
            return self._rows.get((database, table))

    def replace(
        self, row: Row, parameters: Mapping[str, str], document: Document | None = None
    ) -> bool:
        with self._request() as is_denied:
            standing = self._rows.get((row.database, row.table))
            if standing is None or standing.entity != row.entity:
                return False
            self._put(row.database, row.table, parameters)
            return not is_denied

    def insert(
        self, database: str, table: str, parameters: Mapping[str, str], like: Row | Document
    ) -> bool:
        with self._request():
            if (database, table) in self._rows:
                return False
            self._put(database, table, parameters)
            return True

    def _put(self, database: str, table: str, parameters: Mapping[str, str]) -> None:
        row = Row(database, table, dict(parameters), next(self._versions))
        self._rows[database, table] = row

    def rename(self, row: Row, to: tuple[str, str], parameters: Mapping[str, str]) -> bool | None:
        return None

    def delete(self, row: Row) -> None:
        self.deletes.add(self.requests)
        with self._request():
            self._rows.pop((row.database, row.table), None)

    def hindrance(self) -> str:
        return ""


class RenamingMetastore(MemoryMetastore):
    """One that renames in one request, as Hive does."""

    def rename(self, row: Row, to: tuple[str, str], parameters: Mapping[str, str]) -> bool | None:
        with self._request() as is_denied:
            standing = self._rows.get((row.database, row.table))
            if standing is None or standing.entity != row.entity:
                return False
            if to in self._rows:
                raise NameConflict("taken", object=to[1])
            del self._rows[row.database, row.table]
            self._put(*to, parameters)
            return not is_denied


class FoldingMetastore(MemoryMetastore):
    """One that takes a name however it is spelled, as Hive does."""

    def row(self, database: str, table: str) -> Row | None:
        return super().row(database.lower(), table.lower())


class MemoryDatabases:
    """The port `Databases`.

    Attributes:
        meanwhile: What others have written, a database's properties at a time, right after one of
            our changes.
    """

    def __init__(self) -> None:
        self._databases: dict[str, dict[str, str]] = {}
        self.meanwhile: list[dict[str, str]] = []

    def properties(self) -> dict[str, dict[str, str]]:
        return dict(self._databases)

    def make(self, database: str, properties: Mapping[str, str]) -> bool:
        if database in self._databases:
            return False
        self._databases[database] = dict(properties)
        return True

    def change(self, database: str, edit: Edit) -> None:
        self._databases[database] = dict(edit(self._databases[database]))
        if self.meanwhile:
            self._databases[database] = self.meanwhile.pop(0)

    def remove(self, database: str) -> None:
        del self._databases[database]
