"""Shares and clones of a table whose manifests a person trusts: they have its lists alone."""

from collections.abc import Callable
from typing import Any

import pytest

from meltline.app.catalog.management import detach
from meltline.app.clone.clone import clone
from meltline.app.clone.shares import create_share
from meltline.app.drop.drop import drop
from meltline.app.safety.owner_guards import trust
from meltline.domain.iceberg.names import TableName
from meltline.ports import CONTRADICTORY
from tests.lake.lake import Lake, Table
from tests.unit.stopping.odd_lists import count_wrongly, nothing
from tests.unit.stopping.test_contradictory_tables import miscounted

REASON = "our writer counts its own commit alone"


def counts_its_manifests_wrongly(odd: Table) -> None:
    count_wrongly(odd.lake, odd, nothing)


def counts_wrongly(odd: Table) -> None:
    odd.edit(miscounted)


def a_lake(count: Callable[[Table], None]) -> tuple[Lake, Table, Table]:
    """A trusted table, and a share of it that each run updates."""
    lake = Lake()
    odd = lake.on(0).table("odd")
    for day in range(3):
        lake.on(day)
        odd.append(f"o{day}")
    count(odd)
    lake.run()
    trust(lake.services(), odd.name, REASON)
    create_share(lake.services(), "s", str(odd.name), auto=True)
    return lake, odd, Table(lake, TableName("lake", ("s",), "odd"))


def skipped(summary: dict[str, Any]) -> set[str]:
    return {table["table"] for table in summary["tables"] if table["skipped"]}


@pytest.mark.parametrize("count", [counts_wrongly, counts_its_manifests_wrongly])
def test_a_share_of_a_trusted_table_is_trusted_with_it(count: Callable[[Table], None]) -> None:
    lake, odd, shown = a_lake(count)
    for day in range(3, 40, 4):
        odd.overwrite(f"o{day}")
        count(odd)
        summary = lake.on(day).run()
        assert summary.exit_code == 0, summary.as_json()
    assert shown.head == odd.head
    assert odd.data("o0") not in lake.paths()


def test_a_list_of_its_own_in_a_share_is_not_trusted() -> None:
    lake, _, shown = a_lake(counts_wrongly)
    assert lake.on(3).run().exit_code == 0
    shown.append("late", summary={"total-data-files": "0"})
    assert str(shown.name) in skipped(lake.on(4).run().as_json())
    assert lake.on(5).run().exit_code == 0  # that run's report has updated the share


def test_a_share_is_trusted_no_longer_than_its_source() -> None:
    lake, odd, shown = a_lake(counts_wrongly)
    detach(lake.services(), [odd.name], "somebody else looks after it")
    assert str(shown.name) in skipped(lake.on(3).run().as_json())


def test_a_clone_of_a_trusted_table_is_for_a_person_to_trust() -> None:
    lake, odd, _ = a_lake(counts_wrongly)
    clone(lake.services(), str(odd.name), "lake.air.copy")
    copy = TableName.parse("lake.air.copy")
    assert str(copy) in skipped(lake.on(3).run().as_json())
    trust(lake.services(), copy, REASON)
    assert lake.on(4).run().exit_code == 0


def test_a_share_of_a_dropped_table_is_trusted_still() -> None:
    lake, odd, shown = a_lake(counts_wrongly)
    assert lake.on(3).run().exit_code == 0
    drop(lake.services(), str(odd.name))
    assert {lake.on(day).run().exit_code for day in range(4, 80, 10)} == {0}
    assert len(shown.snapshots) == 1


def test_a_share_of_a_table_that_nobody_trusts_waits_with_it() -> None:
    lake, *_ = a_lake(counts_wrongly)
    other = lake.on(3).table("other")
    other.append("p")
    other.append("q")
    other.edit(miscounted)
    create_share(lake.services(), "r", str(other.name))
    lake.run()
    rows = lake.control.registrations.all()
    doubted = {str(row.name) for row in rows if row.status == CONTRADICTORY}
    assert doubted == {str(other.name), "lake.r.other"}
