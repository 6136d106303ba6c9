"""Two names of one place: what something needs by one name stays under the other."""

from dataclasses import replace

import pytest

from meltline.app.doctor.doctor import examine
from meltline.app.doctor.init import init
from meltline.app.drop.drop import drop
from meltline.app.observe.observe import observe
from meltline.app.purge.plan_purge import plan_purge
from meltline.app.purge.purge import apply_purges
from meltline.app.purge.recheck import PurgeRecheck
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run, run_chain
from meltline.app.safety.findings import Finding
from meltline.app.storage.explain import explain_path
from meltline.domain.deletion.plan import PlanState
from meltline.domain.deletion.withheld import Why
from meltline.domain.path_aliases import StoreNames
from tests.lake.lake import WAREHOUSE, Lake, Table

DATA = f"{WAREHOUSE}/air/t/data/"
ALIAS = f"{WAREHOUSE}/alias/"
GONE = 20  # the day by which whatever left on day 8 has been deleted


def shared(lake: Lake, name: str) -> tuple[Table, Table]:
    """A table that has let go of its file `a`, and one that has it by another name."""
    table, other = lake.on(0).table("t"), lake.table("u")
    table.append("a")
    other.append(name)
    lake.run()
    lake.on(1)
    table.overwrite("b")
    return table, other


def run_days(lake: Lake, *days: float) -> None:
    for day in days:
        lake.on(day).run()


def there(lake: Lake, path: str) -> bool:
    return lake.store.size(path) is not None


def found(lake: Lake, code: str) -> list[Finding]:
    return [finding for finding in examine(lake.services()) if finding.code == code]


# --- local files ---------------------------------------------------------------------------------


def test_a_file_that_is_needed_through_a_linked_folder_stays() -> None:
    lake = Lake()
    lake.store.links[ALIAS] = DATA
    table, _ = shared(lake, f"{ALIAS}a.parquet")
    run_days(lake, 9, 18, GONE)
    assert there(lake, table.data("a"))
    assert table.data("a") in lake.waiting(), "it never left, so nothing was shown"


def test_a_file_that_is_needed_through_a_link_of_its_own_stays() -> None:
    lake = Lake()
    link = f"{WAREHOUSE}/farm/other-name.parquet"
    lake.store.links[link] = f"{DATA}a.parquet"
    table, _ = shared(lake, link)
    run_days(lake, 9, 18, GONE)
    assert there(lake, table.data("a")) and table.data("a") in lake.waiting()


def test_a_file_that_is_needed_through_a_link_in_a_linked_folder_stays() -> None:
    lake = Lake()
    lake.store.links[f"{WAREHOUSE}/farm/x.parquet"] = f"{DATA}a.parquet"
    lake.store.links[ALIAS] = f"{WAREHOUSE}/farm/"
    table, _ = shared(lake, f"{ALIAS}x.parquet")
    run_days(lake, 9, 18, GONE)
    assert there(lake, table.data("a"))


def test_links_that_lead_to_links_are_followed() -> None:
    lake = Lake()
    lake.store.links[ALIAS] = f"{WAREHOUSE}/air/t2/"
    lake.store.links[f"{WAREHOUSE}/air/t2/"] = f"{WAREHOUSE}/air/t/"
    table, _ = shared(lake, f"{ALIAS}data/a.parquet")
    run_days(lake, 9, 18, GONE)
    assert there(lake, table.data("a")) and table.data("a") in lake.waiting()


def test_a_link_that_came_to_lead_there_later_keeps_a_file_too() -> None:
    lake = Lake()
    lake.store.links[ALIAS] = f"{WAREHOUSE}/before/"
    lake.store.write(f"{WAREHOUSE}/before/a.parquet", b"x")
    table, _ = shared(lake, f"{ALIAS}a.parquet")
    run_days(lake, 9)
    lake.store.links[ALIAS] = DATA
    run_days(lake, 18, GONE)
    assert there(lake, table.data("a")) and table.data("a") in lake.waiting()


def test_a_folder_that_was_moved_and_linked_keeps_what_is_needed_by_the_old_name() -> None:
    """The link stands in place of a plain folder, after everything was read."""
    lake = Lake()
    table, other = shared(lake, "c")
    table.append(f"{WAREHOUSE}/air/t/data/c.parquet")
    table.overwrite("b2")
    run_days(lake, 9)
    lake.store.delete([other.data("c")])
    lake.store.links[f"{other.location}/data/"] = DATA
    run_days(lake, 18, GONE)
    assert there(lake, other.data("c"))


def test_what_was_kept_for_another_name_goes_once_that_is_needed_no_more() -> None:
    lake = Lake()
    lake.store.links[ALIAS] = DATA
    table, other = shared(lake, f"{ALIAS}a.parquet")
    run_days(lake, 9, 18)
    assert there(lake, table.data("a"))
    other.overwrite("z")
    run_days(lake, 27, 36, 45)
    assert not there(lake, table.data("a"))
    assert lake.control.places.withheld() == []


def test_a_commit_through_a_new_link_between_gate_and_delete_is_seen() -> None:
    lake = Lake()
    table, other = lake.on(0).table("t"), lake.table("u")
    table.append("a")
    other.append("c")
    lake.run()
    lake.on(1)
    table.overwrite("b")
    run_days(lake, 9)
    services, request = lake.on(18).services(), lake.request()
    plans = [p.plan for p in Run(services, request).plan_purge()]
    passed = [plan for plan, _ in run_gate(services, plans) if plan.state is PlanState.PASSED]
    assert passed
    lake.store.links[ALIAS] = DATA
    other.append(f"{ALIAS}a.parquet")
    apply_purges(lake.services(), passed)
    assert there(lake, table.data("a"))
    lake.check_nothing_is_missing()
    assert table.data("a") in lake.waiting(), "taken back, it would never depart again"
    other.overwrite("z")
    run_days(lake, 27, 36)
    assert not there(lake, table.data("a"))


def test_a_commit_through_a_new_link_between_two_batches_is_seen() -> None:
    """After the purge's first look, which takes in what is new by then."""
    lake = Lake()
    table, other = lake.on(0).table("t"), lake.table("u")
    table.append("a")
    lake.run()
    lake.on(1)
    table.overwrite("b")
    run_days(lake, 9)
    paths = [table.data("a")]
    services, request = lake.on(18).services(), lake.request()
    assert Run(services, request).plan_purge()
    proof = PurgeRecheck.of(services, paths)
    assert proof.still_needed(paths) == set()
    lake.store.links[ALIAS] = DATA
    other.append(f"{ALIAS}a.parquet")
    assert proof.still_needed(paths) == set(paths) == set(proof.elsewhere)


def test_the_gate_finds_by_itself_what_is_needed_by_another_name() -> None:
    lake = Lake()
    shared(lake, f"{ALIAS}a.parquet")
    run_days(lake, 9)
    services, request = lake.on(18).services(), lake.request()
    planned = plan_purge(services, observe(services), run_id=request.run_id, as_of=request.as_of)
    lake.store.links[ALIAS] = DATA  # after the plan
    ((plan, result),) = run_gate(services, [one.plan for one in planned])
    assert plan.state is PlanState.REFUSED and result.failed_on("planned_referenced")


def test_a_ledger_from_before_places_were_noted_learns_them_from_its_index() -> None:
    lake = Lake()
    lake.store.links[ALIAS] = DATA
    table, _ = shared(lake, f"{ALIAS}a.parquet")
    lake.control.places.rows = frozenset()
    run_days(lake, 9, 18, GONE)
    assert there(lake, table.data("a"))


def test_what_is_kept_for_another_name_is_explained_and_named() -> None:
    lake = Lake()
    lake.store.links[ALIAS] = DATA
    table, _ = shared(lake, f"{ALIAS}a.parquet")
    run_days(lake, 9)
    summary = lake.on(18).run()
    told = explain_path(lake.services(), table.data("a"))
    assert told.keep_reasons == ("failsafe", f"maybe the same: {ALIAS}a.parquet")
    (finding,) = found(lake, "maybe_the_same")
    assert "lake.air.t: 1 files" in finding.message and ALIAS in finding.fix
    assert any("maybe" in n or "may be the same" in n for n in summary.as_json()["notices"])
    assert summary.exit_code == 0


# --- stores --------------------------------------------------------------------------------------

ROOTS = ("s3://one", "s3://two")


def in_two_buckets(**more: object) -> tuple[Lake, Table]:
    """Two tables in two buckets with the same key, of which the first lets go."""
    lake = Lake(storage_roots=ROOTS, **more)  # type: ignore[arg-type]
    table = lake.on(0).table("t", location="s3://one/t")
    other = lake.table("u", location="s3://two/u")
    table.append("a")
    other.append("s3://two/t/data/a.parquet")
    lake.run()
    lake.on(1)
    table.overwrite("b")
    run_days(lake, 9, 18, GONE)
    return lake, table


def test_the_same_key_in_two_stores_that_nobody_calls_different_is_kept() -> None:
    lake, table = in_two_buckets()
    assert there(lake, table.data("a"))
    (finding,) = found(lake, "maybe_the_same")
    assert "different: [[s3://one, s3://two]]" in finding.fix
    assert "same: [[s3://one, s3://two]]" in finding.fix


def test_the_same_key_in_two_stores_that_are_called_different_is_another_file() -> None:
    lake, table = in_two_buckets(stores=StoreNames.of([], [ROOTS]))
    assert not there(lake, table.data("a"))
    assert there(lake, "s3://two/t/data/a.parquet")
    assert found(lake, "maybe_the_same") == []


def test_the_same_key_with_another_size_is_another_file() -> None:
    lake = Lake(storage_roots=ROOTS)
    lake.store.write("s3://two/t/data/a.parquet", b"of another size")
    table = lake.on(0).table("t", location="s3://one/t")
    lake.table("u", location="s3://two/u").append("s3://two/t/data/a.parquet")
    table.append("a")
    lake.run()
    lake.on(1)
    table.overwrite("b")
    run_days(lake, 9, 18, GONE)
    assert not there(lake, table.data("a"))


def test_of_two_stores_that_are_called_the_same_no_size_is_asked() -> None:
    lake = Lake(storage_roots=ROOTS, stores=StoreNames.of([ROOTS], []))
    lake.store.write("s3://two/t/data/a.parquet", b"of another size")
    table = lake.on(0).table("t", location="s3://one/t")
    lake.table("u", location="s3://two/u").append("s3://two/t/data/a.parquet")
    table.append("a")
    lake.run()
    lake.on(1)
    table.overwrite("b")
    run_days(lake, 9, 18, GONE)
    assert there(lake, table.data("a"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3a://bucket/t", "s3n://bucket/t"),
        ("wasbs://c@acct.blob.core.windows.net/t", "abfss://c@acct.dfs.core.windows.net/t"),
        ("abfss://c@acct.dfs.core.windows.net/t", "https://acct.blob.core.windows.net/c/t"),
        ("s3://bucket/t", "s3:/bucket/t"),
        ("s3://bucket/t", "https://bucket.s3.eu-west-1.amazonaws.com/t"),
        ("gs://bucket/t", "gcs://bucket/t"),
        ("gs://bucket/t", "https://storage.googleapis.com/bucket/t"),
    ],
)
def test_two_schemes_of_one_store_are_one_file(one: str, other: str) -> None:
    lake = Lake(storage_roots=(one,))
    lake.store.links[f"{other}/"] = f"{one}/"  # as the store has it
    table = lake.on(0).table("t", location=one)
    table.append("a")
    lake.table("u").append(f"{other}/data/a.parquet")
    lake.run()
    lake.on(1)
    table.overwrite("b")
    run_days(lake, 9, 18, GONE)
    assert there(lake, table.data("a")) and table.data("a") not in lake.waiting()


@pytest.mark.parametrize("other", ["http://minio:9000/bucket/t", "https://lake.example/t"])
def test_a_file_that_is_needed_behind_an_address_of_the_web_is_kept(other: str) -> None:
    lake = Lake(storage_roots=("s3://bucket",))
    lake.store.links[f"{other}/"] = "s3://bucket/t/"
    table = lake.on(0).table("t", location="s3://bucket/t")
    table.append("a")
    lake.table("u").append(f"{other}/data/a.parquet")
    lake.run()
    lake.on(1)
    table.overwrite("b")
    run_days(lake, 9, 18, GONE)
    assert there(lake, table.data("a")) and table.data("a") in lake.waiting()


# --- roots ---------------------------------------------------------------------------------------


def outside(**more: object) -> tuple[Lake, Table]:
    """A table outside of every root that has let go of a file."""
    lake = Lake(**more)  # type: ignore[arg-type]
    table = lake.on(0).table("t", location="file:///elsewhere/t")
    table.append("a")
    run_outside(lake)
    lake.on(1)
    table.overwrite("b")
    return lake, table


def run_outside(lake: Lake, *days: float) -> None:
    """Runs of a lake that is not all below its roots."""
    wide = replace(lake.config(), storage_roots=("file:///elsewhere",))
    for day in days or (0,):
        lake.on(day)
        run_chain(lake.services(), lake.request())
        there = {p for root in wide.roots for p in lake.paths(root)}
        assert lake.needed() <= there


def test_outside_every_root_nothing_departs_and_snapshots_expire() -> None:
    lake, table = outside()
    run_outside(lake, 9, 18, GONE)
    assert len(table.snapshots) == 1
    assert there(lake, table.data("a")) and lake.waiting() == {}


def test_what_lies_outside_is_named_with_its_bytes_and_the_line_to_add() -> None:
    lake, _ = outside()
    run_outside(lake, 9)
    (kept,) = lake.control.places.withheld()
    assert kept.why is Why.OUTSIDE and kept.place == "file:///elsewhere/t/"
    assert kept.files >= 1 and kept.bytes > 0
    (finding,) = found(lake, "outside_roots")
    assert "storage-roots:\n  - file:///elsewhere/t" in finding.fix
    assert f"{kept.files} files" in finding.message


def test_init_proposes_the_places_of_tables_outside_as_roots() -> None:
    lake, _ = outside()
    lake.table("inner", location="file:///elsewhere/t/inner")
    lake.table("inside")
    assert init(lake.services()).storage_roots == ("file:///elsewhere/t",)
    lake.storage_roots = ("file:///elsewhere",)
    assert init(lake.services()).storage_roots == ()


def test_a_dropped_table_outside_every_root_is_let_go_only_once_its_root_is_said() -> None:
    lake, table = outside()
    lake.table("stays")
    run_outside(lake, 9)
    files = [table.data("a"), table.data("b")]
    drop(lake.services(), str(table.name))
    run_outside(lake, 40, 50, 60)
    assert all(there(lake, path) for path in files)
    lake.storage_roots = ("file:///elsewhere",)
    run_days(lake, 61, 70, 79, 88, 97)
    assert not any(there(lake, path) for path in files)
    assert not lake.paths("file:///elsewhere/t")


def test_what_lay_outside_departs_once_its_root_is_said() -> None:
    lake, table = outside()
    run_outside(lake, 9, 18)
    lake.storage_roots = ("file:///elsewhere",)
    run_days(lake, 19, 28)
    assert not there(lake, table.data("a"))
    assert lake.control.places.withheld() == [] and found(lake, "outside_roots") == []


def test_a_plan_for_what_lies_outside_is_refused_and_not_deleted() -> None:
    lake, table = outside(storage_roots=("file:///elsewhere",))
    run_days(lake, 9)
    services, request = lake.on(18).services(), lake.request()
    plans = [p.plan for p in Run(services, request).plan_purge()]
    passed = [plan for plan, _ in run_gate(services, plans)]
    assert [plan.state for plan in passed] == [PlanState.PASSED]
    lake.storage_roots = ()
    ((_, verdict),) = run_gate(lake.services(), plans)
    assert verdict.failed_on("planned_outside_roots")
    lake.storage_roots = ("file:///elsewhere",)
    run_gate(lake.services(), plans)
    lake.storage_roots = ()  # between the gate and the delete
    (done,) = apply_purges(lake.services(), passed)
    assert there(lake, table.data("a"))
    assert "outside every root" in done.failed[0].error


def test_a_folder_that_leads_out_of_all_roots_is_outside() -> None:
    lake = Lake()
    lake.store.links[f"{WAREHOUSE}/air/t/data/"] = "file:///elsewhere/"
    table = lake.on(0).table("t")
    table.append("a")
    run_outside(lake)
    lake.on(1)
    table.overwrite("b")
    run_outside(lake, 9, 18, GONE)
    assert there(lake, "file:///elsewhere/a.parquet")
    assert {one.why for one in lake.control.places.withheld()} == {Why.LINK}


def test_the_cold_warehouse_and_an_observed_one_are_no_roots() -> None:
    lake = Lake(has_cold=True, other_catalogs=("theirs",))
    assert lake.config().roots == (WAREHOUSE,)
