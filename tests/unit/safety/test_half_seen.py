"""Where a catalog such as Nessie shows one branch of its own, nobody deletes anything."""

from collections.abc import Iterable

import pytest

from meltline.adapters.object_store.deleter import StoreDeleter
from meltline.app.doctor.doctor import examine
from meltline.app.ownership.half_seen import misplaced_now
from meltline.app.purge.purge import apply_purges
from meltline.app.purge.recheck import PurgeRecheck
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.app.safety.server_probe import HALF_SEEN, PROBED, ServerVerdict
from meltline.app.storage.explain import explain_path
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.half_seen import HalfSeenPlaces
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.deletion.withheld import Why
from meltline.domain.path_aliases import StoreNames
from tests.lake.lake import DAY, T0, WAREHOUSE, Lake, Table
from tests.lake.swept import Swept

NESSIE = "file:///n/wh"
GONE = (9, 18, 20)  # by the last of these days what left on day 1 has been deleted


def a_lake(warehouse: str = NESSIE, **words: object) -> Lake:
    """A lake that may delete in Nessie's bucket too; its tables are in a catalog of that name."""
    lake = Lake(
        other_catalogs=("nessie",),
        warehouses={"nessie": warehouse},
        storage_roots=("file:///n", "s3://lake"),
        **words,  # type: ignore[arg-type]
    )
    lake.catalogs["nessie"].half_seen = (warehouse,)
    return lake


def leaving(lake: Lake, name: str, location: str = "") -> Table:
    """A table whose file `a` is needed no more from day 1."""
    table = lake.on(0).table(name, location=location)
    table.append("a")
    return table


def run_days(lake: Lake, *days: float) -> None:
    for day in days:
        lake.on(day).run()


def overwrite(lake: Lake, *tables: Table) -> None:
    lake.run()
    lake.on(1)
    for table in tables:
        table.overwrite("b")


def there(lake: Lake, table: Table) -> bool:
    return lake.store.size(table.data("a")) is not None


def test_nothing_in_its_warehouse_departs_and_other_tables_go_on() -> None:
    lake = a_lake()
    inside, outside = leaving(lake, "in", f"{NESSIE}/in"), leaving(lake, "out")
    beside = leaving(lake, "beside", f"{NESSIE}-2/beside")
    overwrite(lake, inside, outside, beside)
    run_days(lake, *GONE)
    assert there(lake, inside) and not there(lake, outside) and not there(lake, beside)
    assert inside.data("a") not in lake.waiting()


def test_what_waits_in_failsafe_already_is_not_purged() -> None:
    lake = a_lake()
    lake.catalogs["nessie"].half_seen = ()
    inside, outside = leaving(lake, "in", f"{NESSIE}/in"), leaving(lake, "out")
    overwrite(lake, inside, outside)
    run_days(lake, 9)
    assert inside.data("a") in lake.waiting()
    lake.catalogs["nessie"].half_seen = (NESSIE,)
    run_days(lake, 18, 20)
    assert there(lake, inside) and not there(lake, outside)
    assert {row.why for row in lake.control.places.withheld()} == {Why.HALF_SEEN}
    explained = explain_path(lake.services(), inside.data("a"))
    assert "half seen" in explained.keep_reasons


@pytest.mark.parametrize("key", ["location", "write.data.path", "write.metadata.path"])
def test_where_a_table_of_it_ever_lay_nothing_goes_once_it_is_gone_from_its_branch(
    key: str,
) -> None:
    lake = a_lake()
    shared = f"{WAREHOUSE}/shared"
    inside = leaving(lake, "in", f"{shared}/in")
    words = {} if key == "location" else {"properties": {key: shared}}
    place = shared if key == "location" else ""
    hidden = lake.table("nessie.n.t", location=place, **words)  # type: ignore[arg-type]
    hidden.append("x")
    overwrite(lake, inside)
    hidden.drop()
    run_days(lake, *GONE)
    assert there(lake, inside)


def test_a_catalog_that_turns_out_to_show_one_branch_guards_where_its_gone_tables_lay() -> None:
    lake = a_lake()
    lake.catalogs["nessie"].half_seen = ()
    inside = leaving(lake, "in", f"{WAREHOUSE}/shared/in")
    hidden = lake.table("nessie.n.t", location=f"{WAREHOUSE}/shared")
    hidden.append("x")
    overwrite(lake, inside)
    hidden.drop()
    run_days(lake, 9)
    lake.catalogs["nessie"].half_seen = (NESSIE,)
    run_days(lake, 18, 20)
    assert there(lake, inside)
    assert f"{WAREHOUSE}/shared/" in lake.control.places.half_seen()


def test_what_was_seen_stays_guarded_without_the_catalog() -> None:
    lake = a_lake()
    inside = leaving(lake, "in", f"{NESSIE}/in")
    overwrite(lake, inside)
    del lake.catalogs["nessie"]
    run_days(lake, *GONE)
    assert there(lake, inside)


def test_while_it_cannot_be_asked_nothing_is_deleted_anywhere() -> None:
    lake = a_lake()
    outside = leaving(lake, "out")
    overwrite(lake, outside)
    run_days(lake, 9)
    lake.catalogs["nessie"].unlistable = "ConnectionError"
    run_days(lake, 18, 20)
    assert there(lake, outside)
    lake.catalogs["nessie"].unlistable = ""
    run_days(lake, 21)
    assert not there(lake, outside)


def test_each_run_and_doctor_say_so_and_name_the_way_out() -> None:
    lake = a_lake()
    lake.table("nessie.n.t", location="file:///n/elsewhere").append("x")
    notices = lake.run().notices
    (line,) = [line for line in notices if line.startswith("nessie:")]
    assert NESSIE in line and "file:///n/elsewhere/" in line
    assert "move other catalogs' tables" in line
    (finding,) = [f for f in examine(lake.services()) if f.code == "catalog_half_seen"]
    assert finding.object == "nessie" and NESSIE in finding.message
    assert "own garbage collection" in finding.fix


# --- each by its own route -----------------------------------------------------------------------


def planned(lake: Lake) -> tuple[Table, list[Plan]]:
    """A purge that was planned before the catalog was known to show one branch only."""
    lake.catalogs["nessie"].half_seen = ()
    inside = leaving(lake, "in", f"{NESSIE}/in")
    overwrite(lake, inside)
    run_days(lake, 9)
    services = lake.on(18).services()
    plans = [p.plan for p in Run(services, lake.request()).plan_purge()]
    assert plans
    return inside, plans


def test_the_gate_asks_the_catalogs_itself() -> None:
    lake = a_lake()
    _, plans = planned(lake)
    lake.catalogs["nessie"].half_seen = (NESSIE,)
    assert not lake.control.places.half_seen()
    ((_, verdict),) = run_gate(lake.services(), plans)
    assert verdict.failed_on("planned_half_seen") and not verdict.failed_on("planned_outside_roots")


def test_the_gate_knows_what_was_ever_seen() -> None:
    lake = a_lake()
    _, plans = planned(lake)
    lake.control.places.add_half_seen({NESSIE: "nessie"})
    ((_, verdict),) = run_gate(lake.services(), plans)
    assert verdict.failed_on("planned_half_seen")


def test_the_last_proof_asks_the_catalogs_itself() -> None:
    lake = a_lake()
    inside, plans = planned(lake)
    passed = [plan for plan, _ in run_gate(lake.services(), plans)]
    assert [plan.state for plan in passed] == [PlanState.PASSED]
    lake.catalogs["nessie"].half_seen = (NESSIE,)
    apply_purges(lake.services(), passed)
    assert there(lake, inside) and inside.data("a") in lake.waiting()


def test_the_last_proof_sees_what_a_catalog_says_since_its_first_look() -> None:
    lake = a_lake()
    inside, _ = planned(lake)
    recheck = PurgeRecheck.of(lake.services(), [inside.data("a")])
    assert not recheck.still_needed([inside.data("a")])
    lake.catalogs["nessie"].half_seen = (NESSIE,)
    assert recheck.still_needed([inside.data("a")]) == {inside.data("a")} == recheck.elsewhere


def test_the_gate_asks_where_new_tables_of_it_lie() -> None:
    lake = a_lake("file:///n/empty")
    inside, plans = planned(lake)
    lake.catalogs["nessie"].half_seen = ("file:///n/empty",)
    ((_, verdict),) = run_gate(lake.services(), plans)
    assert not verdict.failed_on("planned_half_seen")
    lake.table("nessie.n.t", location=NESSIE)
    ((_, verdict),) = run_gate(lake.services(), plans)
    assert verdict.failed_on("planned_half_seen")
    assert there(lake, inside)


def test_what_deletes_follows_links_there() -> None:
    lake = a_lake()
    lake.store.links[f"{WAREHOUSE}/l/"] = f"{NESSIE}/data/"
    lake.store.write(f"{NESSIE}/data/x", b"x")
    lake.control.places.add_half_seen({NESSIE: "nessie"})
    misplaced = misplaced_now(lake.config(), lake.store, lake.control)
    assert misplaced([f"{WAREHOUSE}/l/x", f"{WAREHOUSE}/y"]) == {f"{WAREHOUSE}/l/x": Why.HALF_SEEN}


def test_what_deletes_knows_what_was_ever_seen() -> None:
    lake = a_lake()
    lake.store.write(f"{NESSIE}/x", b"x")
    lake.control.places.add_half_seen({NESSIE: "nessie"})
    misplaced = misplaced_now(lake.config(), lake.store, lake.control)
    files = [DepartedObject(f"{NESSIE}/x", 1, T0 + DAY)]
    (outcome,) = StoreDeleter(lake.store, misplaced).delete(files, 1000)
    assert "half seen" in outcome.error and lake.store.size(f"{NESSIE}/x") == 1


def test_a_sweep_leaves_what_lies_there() -> None:
    for half_seen in (False, True):
        swept = Swept()
        orphan = swept.leave("orphan")
        if half_seen:
            swept.lake.control.places.add_half_seen({swept.table.location: "nessie"})
        swept.sweep_twice()
        assert (orphan in swept.waiting()) is not half_seen


# --- two names of one place ----------------------------------------------------------------------


def in_buckets(stores: StoreNames, *, lying: Iterable[str]) -> bool:
    """Whether a file of s3://lake stays, though Nessie's bucket has another name."""
    lake = a_lake("s3://nessie/wh", stores=stores)
    table = leaving(lake, "t", "s3://lake/wh/t")
    for path in lying:
        lake.store.write(path, b"x" * (lake.store.size(table.data("a")) or 1))
    overwrite(lake, table)
    run_days(lake, *GONE)
    return there(lake, table)


def test_a_file_that_lies_in_its_bucket_by_the_same_key_may_be_the_same() -> None:
    same = ["s3://nessie/wh/t/data/a.parquet"]
    assert in_buckets(StoreNames(), lying=same)
    assert not in_buckets(StoreNames.of([], [["s3://lake", "s3://nessie"]]), lying=same)


def test_a_file_that_its_bucket_has_not_is_another_one() -> None:
    assert not in_buckets(StoreNames(), lying=[])
    assert not in_buckets(StoreNames(), lying=["s3://nessie/other/t/data/a.parquet"])


def test_a_folder_that_leads_into_its_warehouse_is_its_own() -> None:
    lake = a_lake()
    table = leaving(lake, "t")
    lake.store.links[f"{table.location}/data/"] = f"{NESSIE}/data/"
    lake.store.write(f"{NESSIE}/data/a.parquet", b"x")
    overwrite(lake, table)
    run_days(lake, *GONE)
    assert there(lake, table)


@pytest.mark.parametrize(
    ("place", "path", "held"),
    [
        ("s3://n/wh", "s3a://N/wh/t/x", True),
        ("s3://n/wh", "https://n.s3.amazonaws.com/wh//t/x", True),
        ("s3://n/wh/", "s3://n/wh", True),
        ("s3://n/wh", "s3://n/wh2/x", False),
        ("s3://n/a%20b", "s3://n/a b/x", True),
        ("s3://n", "s3://n/x", True),
        ("file:///", "/x", True),
    ],
)
def test_a_place_is_known_by_all_spellings_of_it(place: str, path: str, held: bool) -> None:
    assert HalfSeenPlaces([place]).holds(path) is held


# --- what a probe came to ------------------------------------------------------------------------


def test_a_verdict_that_it_shows_a_part_only_holds_for_whatever_stands_there_now() -> None:
    lake = Lake(behind_rest=True, storage_roots=("file:///n",))
    verdict = ServerVerdict("not so: it shows all", "another", "2026-01-01T00:00:00Z", (NESSIE,))
    assert ServerVerdict.read(verdict.written) == verdict
    lake.catalogs["lake"].set_namespace_properties(("meltline",), {PROBED: verdict.written})
    lake.run()
    assert f"{NESSIE}/" in lake.control.places.half_seen()


def test_tables_of_a_hot_catalog_that_shows_one_branch_are_not_managed() -> None:
    lake = Lake(behind_rest=True)
    table = leaving(lake, "t")
    lake.catalogs["lake"].half_seen = (WAREHOUSE,)
    overwrite(lake, table)
    run_days(lake, *GONE)
    assert there(lake, table) and len(table.snapshots) == 2
    findings = {f.code: f.message for f in examine(lake.services())}
    assert HALF_SEEN in findings["catalog_not_managed"]
