"""Init looks again at what a catalog has answered yes to, and goes no further where it lied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from meltline.app.doctor.init import init
from meltline.app.services import RunContext
from meltline.domain.errors import SetupMissing
from meltline.domain.iceberg.names import TableName
from tests.doubles.catalog import MemoryCatalog
from tests.doubles.files import MemoryUpkeep
from tests.lake.lake import Lake


class Forgetful(MemoryCatalog):
    """Says yes to properties of namespaces, and keeps none."""

    forgets = True

    def set_namespace_properties(
        self,
        namespace: tuple[str, ...],
        updates: Mapping[str, str],
        removals: Sequence[str] = (),
        *,
        expected: Mapping[str, str | None] | None = None,
    ) -> None:
        kept = {} if self.forgets else updates
        super().set_namespace_properties(namespace, kept, removals, expected=expected)


@dataclass
class Upkeep:
    """Has made these tables, as it says."""

    inner: MemoryUpkeep
    names: tuple[str, ...]

    def prepare(self) -> Sequence[str]:
        return self.names

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def services(lake: Lake, catalog: MemoryCatalog, *tables: str) -> RunContext:
    built = lake.services(catalogs={"lake": catalog})
    upkeep = Upkeep(built.files.upkeep, tables)  # type: ignore[arg-type]
    return replace(built, files=replace(built.files, upkeep=upkeep))  # type: ignore[arg-type]


def new_lake() -> Lake:
    lake = Lake()
    lake.control.database.set_generation(0)
    return lake


def test_a_catalog_that_keeps_no_properties_is_named_and_the_ledger_gets_no_generation() -> None:
    lake = new_lake()
    catalog = Forgetful("lake", lake.store)
    with pytest.raises(SetupMissing, match="has not kept"):
        init(services(lake, catalog))
    assert lake.control.database.generation() == 0
    catalog.forgets = False  # mended: there is nothing to adopt
    assert not init(services(lake, catalog)).adopted


def test_tables_that_the_catalog_does_not_have_are_named() -> None:
    lake = new_lake()
    table = lake.table("one")
    table.append("f")
    catalog = MemoryCatalog("lake", lake.store)
    catalog.set_namespace_properties(("meltline",), {"theirs": "x"})
    catalog.register(TableName("lake", ("meltline",), "entries"), table.metadata_location)
    with pytest.raises(SetupMissing, match="has not made") as refused:
        init(services(lake, catalog, "entries", "departures", "snapshots"))
    assert "lacks departures" in refused.value.found and "2 of them" in refused.value.found
    assert not init(services(lake, catalog, "entries")).adopted
