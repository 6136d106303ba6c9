"""A table that is given another name while its database is listed is not missed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from meltline.adapters.catalogs.metastores.hive import HiveRows


class Renamed:
    """A metastore's client in whose database a table has another name at each second request."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.names = ["kept", "t0"]

    @contextmanager
    def open(self) -> Iterator["Renamed"]:
        yield self

    def get_all_tables(self, database: str) -> list[str]:
        names = list(self.names)
        if self.times:
            self.times -= 1
            self.names[1] = f"t{self.times}x"
        return names

    def get_table_objects_by_name(self, database: str, names: Sequence[str]) -> list[Any]:
        return [
            SimpleNamespace(dbName=database, tableName=name, parameters={}, sd=None, tableType=None)
            for name in names
            if name in self.names
        ]


def rows_of(client: Renamed) -> set[str]:
    rows: Any = HiveRows("lake", client, locks=False)  # type: ignore[arg-type]
    return {row.table for row in rows.rows("air")}


def test_a_table_that_is_renamed_while_it_is_listed_is_listed() -> None:
    assert rows_of(Renamed(2)) == {"kept", "t0x"}


def test_a_database_that_never_stands_still_is_not_listed() -> None:
    with pytest.raises(LookupError, match="other names"):
        rows_of(Renamed(50))


def test_a_table_that_has_a_name_and_is_handed_out_to_nobody_is_named() -> None:
    client = Renamed(0)
    client.get_all_tables = lambda database: ["secret", "kept", "t0"]  # type: ignore[method-assign]
    with pytest.raises(LookupError, match=r"1 table stood .* air\.secret\. May this user read"):
        rows_of(client)
