"""Files that a table names by another name in a snapshot that contradicts itself."""

from collections.abc import Callable

import pytest

from meltline.app.purge.purge import apply_purges
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.domain.deletion.plan import Plan
from tests.lake.lake import WAREHOUSE, Lake, Table
from tests.unit.stopping.test_contradictory_tables import miscounted
from tests.unit.stopping.test_equal_ids import share_an_id

LINK = f"{WAREHOUSE}/farm/other-name.parquet"


def counts_wrongly(odd: Table) -> None:
    odd.edit(miscounted)


def shares_an_id(odd: Table) -> None:
    share_an_id(odd, at=len(odd.snapshots) - 1)


CAUSES = pytest.mark.parametrize("cause", [counts_wrongly, shares_an_id])


def a_lake() -> tuple[Lake, Table, Table]:
    """A table that lets go of two files, one of which has another name, and one beside it."""
    lake = Lake()
    lake.store.links[LINK] = f"{WAREHOUSE}/air/well/data/w0.parquet"
    well, odd = lake.on(0).table("well"), lake.table("odd")
    well.append("w0", "w1")
    odd.append("o0")
    odd.append("o1")
    return lake, well, odd


@CAUSES
def test_such_a_file_stays_and_those_beside_it_go(cause: Callable[[Table], None]) -> None:
    lake, well, odd = a_lake()
    odd.append(LINK)
    cause(odd)
    lake.on(1)
    well.overwrite("w2")
    assert {lake.on(day).run().exit_code for day in range(2, 40, 3)} == {4}
    assert well.data("w0") in lake.paths() and well.data("w1") not in lake.paths()


@CAUSES
def test_a_purge_keeps_such_a_file_that_was_named_after_its_gate(
    cause: Callable[[Table], None],
) -> None:
    lake, well, odd = a_lake()
    lake.run()
    lake.on(1)
    well.overwrite("w2")
    lake.on(9).run()
    plans = gated_purges(lake.on(20))
    odd.append(LINK)
    cause(odd)
    done = apply_purges(lake.services(), plans)
    assert {str(purge.plan.table) for purge in done if purge.error is None} >= {str(well.name)}
    assert well.data("w0") in lake.paths() and well.data("w1") not in lake.paths()


def gated_purges(lake: Lake) -> list[Plan]:
    services = lake.services()
    planned = [p.plan for p in Run(services, lake.request()).plan_purge()]
    return [plan for plan, _ in run_gate(services, planned)]


@CAUSES
def test_a_file_goes_whose_other_name_no_table_has_any_more(
    cause: Callable[[Table], None],
) -> None:
    lake, well, odd = a_lake()
    other = lake.table("other")
    other.append(LINK)
    cause(odd)
    lake.run()
    lake.on(1)
    other.overwrite("x")
    well.overwrite("w2")
    assert {lake.on(day).run().exit_code for day in range(2, 60, 4)} == {4}
    assert well.data("w0") not in lake.paths()


@CAUSES
def test_a_table_that_stands_under_two_names_keeps_what_either_names(
    cause: Callable[[Table], None],
) -> None:
    lake, well, odd = a_lake()
    lake.register("lake.sea.second", odd.metadata_location)
    third = lake.table("third")
    third.append("t0")
    odd.append(well.data("w0"))
    cause(odd)
    lake.on(1)
    well.overwrite("w2")
    third.overwrite("t1")
    assert {lake.on(day).run().exit_code for day in range(2, 40, 3)} == {4}
    assert well.data("w0") in lake.paths() and third.data("t0") not in lake.paths()
