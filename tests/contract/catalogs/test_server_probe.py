"""Servers that delete a dropped table's files later, or only drop with a purge; and the honest."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from meltline.adapters.catalogs.rest.probe import RestProbe
from meltline.adapters.catalogs.rest.tables import RestTables
from meltline.app.doctor.doctor import examine
from meltline.app.run.summary import Summary
from meltline.app.safety.findings import Finding
from meltline.app.safety.server_probe import PROBED, SECOND_CHECK_AFTER, Probed, probe_catalog
from meltline.app.services import RunContext
from meltline.config.load import CatalogConfig
from tests.contract.catalogs.rest_catalog import RestCatalogServer, rest_catalog
from tests.lake.lake import Lake, Table
from tests.lives.kills import Killed

MINUTE = 1 / 24 / 60
DUE = SECOND_CHECK_AFTER / timedelta(days=1)


class LakesProbe(RestProbe):
    """A probe of the server that stands behind the lake's catalog in memory."""

    @property
    def server(self) -> str:
        return ""


@dataclass
class Served:
    """A lake whose server was never probed, on the day when three of four snapshots may go."""

    lake: Lake
    table: Table
    server: RestCatalogServer
    config: CatalogConfig

    def context(self) -> RunContext:
        tables = RestTables(self.config, self.lake.store)
        probe = LakesProbe(tables, self.lake.store, self.lake.store, self.lake.clock)
        return replace(self.lake.services(), probes={"lake": probe})

    def probe(self) -> Probed:
        return probe_catalog(self.context(), "lake")

    def run(self) -> Summary:
        return self.lake.run(services=self.context())

    def findings(self) -> list[Finding]:
        codes = ("catalog_not_managed", "probe_open")
        return [finding for finding in examine(self.context()) if finding.code in codes]

    def is_clean(self) -> bool:
        return not self.server.namespaces and not self.server.tables and not self.scratch_files()

    def scratch_files(self) -> list[str]:
        return [path for path in self.lake.paths() if "meltline_probe_" in path]


@contextmanager
def served_lake() -> Iterator[Served]:
    lake = Lake(behind_rest=True)
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(12)
    lake.catalogs["lake"].set_namespace_properties(("meltline",), {PROBED: ""})
    with rest_catalog(lake.store) as server:
        server.clock = lake.clock
        yield Served(
            lake, table, server, CatalogConfig("lake", "rest", server.uri, "", "", False, {})
        )


@pytest.fixture
def served() -> Iterator[Served]:
    with served_lake() as lake:
        yield lake


def test_a_healthy_server_is_managed_from_the_first_run_after_the_second_check_is_due(
    served: Served,
) -> None:
    before = served.table.snapshots
    probed = served.probe()
    assert not probed.verdict.reason and probed.waits_until
    assert all(fact.is_so for fact in probed.facts if fact.is_needed), probed.facts

    served.lake.on(12 + MINUTE)
    waiting = served.run()
    assert waiting.exit_code == 4 and served.table.snapshots == before
    (notice,) = [line for line in waiting.notices if "second check" in line]
    assert probed.waits_until in notice
    (finding,) = served.findings()
    assert (finding.code, finding.level) == ("probe_open", "warning")

    served.lake.on(12 + DUE)
    managed = served.run()
    assert managed.exit_code == 0 and served.table.snapshots == [served.table.head]
    assert not [line for line in managed.notices if "only read" in line]
    assert not served.findings() and served.is_clean()


def test_a_server_that_deletes_what_was_dropped_half_a_minute_later_is_only_read(
    served: Served,
) -> None:
    served.server.deletes_after = timedelta(seconds=30)
    before = served.table.snapshots
    assert served.probe().waits_until, "at the drop nothing tells it from an honest one"
    for day in (12 + DUE, 13, 21, 39):
        served.lake.on(day)
        summary = served.run()
        assert served.table.snapshots == before
        assert any("deletes the files of a dropped table later" in n for n in summary.notices)
    (finding,) = served.findings()
    assert finding.level == "error" and "deletes the files" in finding.message
    assert not served.server.namespaces and not served.server.tables


def test_a_server_that_drops_only_with_a_purge_is_only_read_and_the_scratch_table_goes(
    served: Served,
) -> None:
    served.server.insists_on_purge = True
    probed = served.probe()
    assert "only if it may delete its files" in probed.verdict.reason and not probed.waits_until
    assert not served.server.namespaces and not served.server.tables
    served.lake.on(13)
    before = served.table.snapshots
    assert any("only if it may delete" in line for line in served.run().notices)
    assert served.table.snapshots == before


def test_a_server_that_unregisters_is_asked_for_that_and_never_to_drop(served: Served) -> None:
    served.server.insists_on_purge = served.server.unregisters = True
    served.server.deletes_after = timedelta(seconds=30)
    assert not served.probe().verdict.reason
    served.lake.on(12 + DUE)
    assert served.run().exit_code == 0 and served.table.snapshots == [served.table.head]
    tables = [line for line in served.server.requests if "/tables/" in line]
    assert any(line.endswith("/unregister") for line in tables)
    assert not [line for line in tables if line.startswith("DELETE")]


def test_the_command_makes_the_second_check_once_it_is_due_and_before_says_when(
    served: Served,
) -> None:
    first = served.probe()
    again = served.probe()
    assert again.waits_until == first.waits_until and not again.facts
    served.lake.on(12 + DUE)
    decided = served.probe()
    assert not decided.waits_until and not decided.verdict.reason and not decided.facts
    assert served.is_clean() and not served.findings()


def test_a_managed_server_that_is_probed_again_stays_managed_unless_it_deletes_since(
    served: Served,
) -> None:
    served.probe()
    served.lake.on(12 + DUE)
    served.probe()
    served.lake.on(13)
    served.server.deletes_after = timedelta(seconds=30)
    assert not served.probe().waits_until and not served.findings()
    served.lake.on(14)
    before = served.table.snapshots
    assert any("deletes the files" in line for line in served.run().notices)
    assert served.table.snapshots == before and served.findings()


def test_a_run_that_dies_at_its_second_check_accuses_no_server(served: Served) -> None:
    class Dying:
        def set_namespace_properties(self, *words: object) -> None:
            raise Killed

    served.probe()
    served.lake.on(12 + DUE)
    dying = Dying()
    with pytest.raises(Killed):
        probe_catalog(replace(served.context(), editors={"lake": dying}), "lake")  # type: ignore[dict-item]
    assert served.run().exit_code == 0 and served.table.snapshots == [served.table.head]
    assert not served.findings() and served.is_clean()


def test_a_second_check_that_cannot_be_made_is_named_and_made_by_the_next_run(
    served: Served,
) -> None:
    served.probe()
    served.lake.on(12 + DUE)
    served.server.is_down = True
    before = served.table.snapshots
    context = served.context()
    summary = served.lake.run(services=context)
    assert served.table.snapshots == before
    assert any("the second check of the probe" in line for line in summary.notices)
    served.server.is_down = False
    served.lake.on(13)
    assert served.run().exit_code == 0 and served.table.snapshots == [served.table.head]
