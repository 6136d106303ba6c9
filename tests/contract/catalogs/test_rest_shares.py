"""Shares of a REST catalog's tables: the server is asked for no more than the protocol has."""

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from meltline.adapters.catalogs.rest.tables import RestTables
from meltline.app.clone.shares import create_share, drop_share, list_shares, update_share
from meltline.app.services import RunContext
from meltline.domain.errors import CommitConflict, MeltlineError, NamespaceNotEmpty
from meltline.domain.iceberg.names import TableName
from tests.contract.catalogs.rest_catalog import Refused, RestCatalogServer, rest_catalog
from tests.doubles.catalog import MemoryCatalog
from tests.lake.lake import Lake, Table

SOURCE, TAG = "far.air.t", "share__s"


class Standing(MutableMapping[tuple[str, str], str]):
    """The server's tables are those of a catalog in memory, on which engines commit."""

    def __init__(self, catalog: MemoryCatalog) -> None:
        self._at = catalog._tables

    def __getitem__(self, key: tuple[str, str]) -> str:
        return self._at[_name(key)]

    def __setitem__(self, key: tuple[str, str], at: str) -> None:
        self._at[_name(key)] = at

    def __delitem__(self, key: tuple[str, str]) -> None:
        del self._at[_name(key)]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter([(name.namespace[0], name.name) for name in self._at])

    def __len__(self) -> int:
        return len(self._at)


def _name(key: tuple[str, str]) -> TableName:
    return TableName("far", (key[0],), key[1])


@dataclass
class Far:
    """A lake beside which a REST catalog has a table `far.air.t`."""

    lake: Lake
    server: RestCatalogServer
    source: Table

    def services(self) -> RunContext:
        config = self.lake.config()
        far = replace(config.catalogs["far"], type="rest", uri=self.server.uri, observe_only=False)
        config = replace(config, catalogs={**config.catalogs, "far": far})
        catalogs = {**self.lake.catalogs, "far": RestTables(far, self.lake.store)}
        return self.lake.services(config=config, catalogs=catalogs)

    def table(self, name: str = "far.s.t") -> Table:
        return Table(self.lake, TableName.parse(name))

    def names(self) -> set[str]:
        return {".".join(name) for name in self.server.tables}

    def run(self, day: float) -> None:
        self.lake.on(day).run(services=self.services())


@pytest.fixture
def far() -> Iterator[Far]:
    lake = Lake(other_catalogs=("far",))
    source = lake.on(0).table(SOURCE)
    source.append("a")
    with rest_catalog(lake.store) as server:
        server.namespaces["air"] = {}
        server.tables = Standing(lake.catalogs["far"])
        yield Far(lake.on(1), server, source)


def live(table: Table) -> set[str]:
    return {entry.path for entry in table.live()}


def test_a_share_is_registered_pinned_updated_and_dropped(far: Far) -> None:
    create_share(far.services(), "s", SOURCE)
    first, uuid = live(far.source), far.table().uuid
    assert live(far.table()) == first and uuid != far.source.uuid
    assert far.source.refs[TAG]["snapshot-id"] == far.source.head
    far.lake.on(2)
    far.source.overwrite("later")
    far.run(2)
    assert live(far.table()) == first
    far.table().append("theirs")
    done = update_share(far.services(), "far.s")
    assert [(one.behind, one.written) for one in done.tables] == [(True, True)]
    assert live(far.table()) == live(far.source) != first and far.table().uuid == uuid
    assert far.source.refs[TAG]["snapshot-id"] == far.source.head
    assert not list_shares(far.services())[0].tables[0].written
    far.run(3)
    drop_share(far.services(), "far.s")
    assert TAG not in far.source.refs and "s" not in far.server.namespaces
    assert far.names() == {"air.t", f"meltline_dropped.{uuid}"}


def test_a_dropped_share_refers_to_nothing_and_engines_may_expire_the_source_again(
    far: Far,
) -> None:
    create_share(far.services(), "s", SOURCE)
    far.run(2)
    assert far.source.document["properties"]["gc.enabled"] == "false"
    uuid = far.table().uuid
    drop_share(far.services(), "far.s")
    assert far.table(f"far.meltline_dropped.`{uuid}`").snapshots == []
    for day in (3, 20, 40):
        far.run(day)
    assert "gc.enabled" not in far.source.document["properties"]


def test_a_server_that_refuses_the_new_table_keeps_the_old_one(far: Far) -> None:
    create_share(far.services(), "s", SOURCE)
    at, first = far.table().metadata_location, live(far.source)
    far.source.overwrite("later")
    register = far.server._register

    def refuse(name: tuple[str, str], location: str) -> Any:
        if location != at:
            raise Refused(500, "ServerError")
        return register(name, location)

    far.server._register = refuse  # type: ignore[method-assign]
    with pytest.raises(CommitConflict):
        update_share(far.services(), "far.s")
    assert (far.table().metadata_location, live(far.table())) == (at, first)
    far.server._register = register  # type: ignore[method-assign]
    update_share(far.services(), "far.s")
    assert live(far.table()) == live(far.source)


def test_a_server_that_registers_nothing_leaves_no_tag_and_no_namespace(far: Far) -> None:
    def refuse(name: tuple[str, str], location: str) -> Any:
        raise Refused(409, "AlreadyExistsException")

    far.server._register = refuse  # type: ignore[method-assign]
    with pytest.raises(MeltlineError):
        create_share(far.services(), "s", SOURCE)
    assert TAG not in far.source.refs and far.names() == {"air.t"}
    assert "gc.enabled" not in far.source.document["properties"]
    assert "s" not in far.server.namespaces


def test_a_table_of_somebody_else_is_not_dropped_with_a_share(far: Far) -> None:
    create_share(far.services(), "s", SOURCE)
    far.lake.table("far.s.mine").append("m")
    with pytest.raises(NamespaceNotEmpty, match="not the share's"):
        drop_share(far.services(), "far.s")
    assert far.names() == {"air.t", "s.t", "s.mine"} and TAG in far.source.refs
