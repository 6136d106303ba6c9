"""Consumers: named readers keep what they have still to read, and end by themselves."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from meltline.app.catalog.resolve import find_object
from meltline.app.clone.clone import clone
from meltline.app.doctor.doctor import examine
from meltline.app.drop.drop import drop, rename
from meltline.app.drop.undrop import undrop
from meltline.app.expire.plan_expiration import plan_expiration, store_plans
from meltline.app.gate.expire_evidence import planned_unread
from meltline.app.observe.observe import observe
from meltline.app.refs.branches import rollback
from meltline.app.retention.consumers import find_consumers, remove_consumer, set_consumer
from meltline.app.retention.policies import change_policy
from meltline.app.run.gate_step import run_gate
from meltline.app.storage.explain import explain_table
from meltline.domain.deletion.plan import plan_digest
from meltline.domain.errors import (
    CatalogReadOnly,
    ConsumerAhead,
    LockHeld,
    NameConflict,
    ObjectDropped,
    SnapshotNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.iceberg.timeline import Point
from meltline.domain.retention.consumers import Consumer, consumers_of, still_to_read
from meltline.domain.retention.policy import CONSUMER_KEEP
from tests.lake.copies import copied, fresh_lake, set_back
from tests.lake.lake import DAY, T0, Lake, Table, business, of_catalogs
from tests.lives.histories import History, histories
from tests.seeds import SEED, examples
from tests.unit.catalog.test_recognised import begin_anew

REMEMBERED = "meltline.consumer.bill"


def written(days: int = 6, lake: Lake | None = None, name: str = "t") -> tuple[Lake, Table]:
    """A table overwritten on each of some days, from day 0; it is day 20, and all but its head may
    go."""
    lake = lake or Lake()
    table = lake.on(0).table(name)
    for day in range(days):
        lake.on(day)
        table.overwrite(f"{name}{day}")
    lake.on(20)
    return lake, table


def read_to(
    lake: Lake, table: Table, snapshot: int, *, name: str = "bill", days: float = 0, **more: bool
) -> Consumer:
    """The reader `bill` has read so far; `days` is its own time to stay."""
    lasting = days * DAY if days else None
    services = lake.services()
    return set_consumer(
        services, table.name, name, snapshot, expires_after=lasting, reset=bool(more.get("reset"))
    )


def kept_because(lake: Lake, table: Table, snapshot: int) -> tuple[str, ...]:
    return explain_table(lake.services(), table.name, snapshot)[0].keep_reasons


# --- what is kept ---------------------------------------------------------------------------------


def test_a_consumer_keeps_its_snapshot_and_all_later_ones_until_it_moves_on() -> None:
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[2])
    lake.run()
    assert table.snapshots == every[2:]
    assert kept_because(lake, table, every[3]) == ("consumer",)
    read_to(lake, table, every[4])
    lake.run()
    assert table.snapshots == every[4:]
    remove_consumer(lake.services(), table.name, "bill")
    lake.run()
    assert table.snapshots == every[5:]


def test_a_consumer_ends_by_itself_counted_from_its_last_move() -> None:
    lake, table = written()
    every = table.snapshots
    assert read_to(lake, table, every[1], days=3).ends_at == T0 + 23 * DAY
    lake.on(22)
    assert read_to(lake, table, every[2]).ends_at == T0 + 25 * DAY  # its own time goes with it
    lake.on(25).run()
    assert table.snapshots == every[2:]  # at the very end it still keeps
    lake.on(25.1).run()
    assert table.snapshots == every[5:]
    assert find_consumers(lake.services()).consumers == []


def test_a_consumer_that_says_it_is_still_there_begins_its_time_anew() -> None:
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[1], days=3)
    lake.on(22)
    read_to(lake, table, every[1])
    lake.on(24.9).run()
    assert table.snapshots == every[1:]


@pytest.mark.parametrize(
    ("account", "database", "own", "days"),
    [(30, "", "", 30), (9, "", "", 9), (9, "4d", "", 4), (9, "4d", "2d", 2), (9, "4d", "soon", 9)],
)
def test_without_a_time_of_its_own_the_nearest_policy_decides_and_an_odd_one_the_longer_way(
    account: int, database: str, own: str, days: int
) -> None:
    lake, table = written(lake=Lake(account=business(consumer_keep=account * DAY)))
    if database:
        services = lake.services()
        changes: dict[str, str | None] = {CONSUMER_KEEP: database}
        change_policy(services, find_object(services, "lake.air"), changes, dry_run=False)
    if own:
        table.configure(**{CONSUMER_KEEP: own})
    assert read_to(lake, table, table.head).ends_at == T0 + (20 + days) * DAY
    odd = [f.object for f in examine(lake.services()) if f.code == "policy_out_of_range"]
    assert odd == ([str(table.name)] if own == "soon" else [])


def test_the_way_on_is_kept_along_every_branch_that_leads_on() -> None:
    lake, table = written(3)
    every = table.snapshots
    table.branch("audit", every[1])
    lake.on(21)
    side = [table.append(f"a{number}", ref="audit") for number in range(3)]
    table.overwrite("last")
    read_to(lake, table, every[1])
    lake.on(40).run()
    assert set(table.snapshots) == {*every[1:], *side, table.head}
    read_to(lake, table, side[1])
    lake.on(41).run()
    assert set(table.snapshots) == {*side[1:], table.head}


def test_what_a_consumer_has_still_to_read_is_readable_file_for_file() -> None:
    lake, table = written()
    read_to(lake, table, table.snapshots[1])
    files = {path for path in lake.paths() if path.endswith(".parquet")}
    for day in (21, 30, 40):
        lake.on(day).run()
    left = {path for path in lake.paths() if path.endswith(".parquet")}
    assert files - left == {table.data("t0")}


# --- forwards, and back by a word -----------------------------------------------------------------


def test_a_consumer_goes_forward_and_back_only_when_that_is_said() -> None:
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[3])
    with pytest.raises(ConsumerAhead) as refused:
        read_to(lake, table, every[1])
    assert str(every[3]) in refused.value.expected and "--reset" in refused.value.next
    assert table.refs["consumer__bill"]["snapshot-id"] == every[3]
    read_to(lake, table, every[1], reset=True)
    assert table.refs["consumer__bill"]["snapshot-id"] == every[1]


def test_a_consumer_does_not_go_to_another_line_by_itself() -> None:
    lake, table = written(3)
    every = table.snapshots
    table.branch("audit", every[0])
    side = table.append("a", ref="audit")
    read_to(lake, table, every[1])
    with pytest.raises(ConsumerAhead):
        read_to(lake, table, side)
    read_to(lake, table, side, reset=True)


def test_an_expired_or_unknown_snapshot_is_refused_with_what_is_there() -> None:
    lake, table = written()
    first = table.snapshots[0]
    lake.run()
    for snapshot in (first, 424242):
        with pytest.raises(SnapshotNotFound) as refused:
            read_to(lake, table, snapshot)
        assert str(table.head) in refused.value.expected and "explain" in refused.value.next
    assert "consumer__bill" not in table.refs


def test_of_two_who_move_a_consumer_at_once_nobody_sets_it_back() -> None:
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[1])
    services = lake.services()
    catalog = lake.catalogs["lake"]

    class OtherFirst:
        """Somebody else moves it between this one's look and its commit."""

        def __getattr__(self, name: str) -> object:
            return getattr(catalog, name)

        def edit_table(self, *arguments: object) -> object:
            read_to(lake, table, every[4])
            return catalog.edit_table(*arguments)  # type: ignore[arg-type]

    slow = replace(services, **of_catalogs({**lake.catalogs, "lake": OtherFirst()}))
    with pytest.raises(ConsumerAhead):
        set_consumer(slow, table.name, "bill", every[2])
    assert table.refs["consumer__bill"]["snapshot-id"] == every[4]


def test_two_consumers_of_one_table_know_nothing_of_each_other() -> None:
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[4])
    read_to(lake, table, every[1], name="fraud")
    remove_consumer(lake.services(), table.name, "bill")
    lake.run()
    assert table.snapshots == every[1:]


@pytest.mark.parametrize("name", ["", " ", "a\nb", "n" * 256])
def test_a_name_that_no_engine_could_read_is_refused(name: str) -> None:
    lake, table = written(2)
    with pytest.raises(NameConflict):
        read_to(lake, table, table.head, name=name)


@pytest.mark.parametrize("name", ["42", "it's me", "a/b", "Größe"])
def test_an_odd_name_works(name: str) -> None:
    lake, table = written(2)
    read_to(lake, table, table.head, name=name)
    assert [found.name for found in find_consumers(lake.services()).consumers] == [name]


@pytest.mark.parametrize("span", [timedelta(0), timedelta(milliseconds=1), timedelta(days=365_001)])
def test_a_consumer_stays_neither_for_no_time_nor_for_ever(span: timedelta) -> None:
    lake, table = written(2)
    with pytest.raises(UsageInvalid):
        set_consumer(lake.services(), table.name, "bill", table.head, expires_after=span or -DAY)


# --- with a run on its way ------------------------------------------------------------------------


def test_a_consumer_that_comes_between_plan_and_commit_saves_what_it_has_still_to_read() -> None:
    lake, table = written()
    every = table.snapshots
    committer = lake.services().committer

    class ConsumerFirst:
        done = False

        def expire(self, *arguments: object) -> object:
            if not self.done:  # what is new must wait for the run: it is set as an engine does
                self.done = True
                table.tag("consumer__bill", every[1])
            return committer.expire(*arguments)  # type: ignore[arg-type]

    lake.run(services=lake.services(committer=ConsumerFirst()))
    assert table.snapshots == every[1:]


def test_a_new_consumer_waits_for_the_run_that_works_on_the_table_and_a_move_forward_does_not() -> (
    None
):
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[1])
    with lake.control.locks.take(table.uuid, "a run", wait=timedelta(0), lease=DAY):
        with pytest.raises(LockHeld):
            read_to(lake, table, every[2], name="new")
        with pytest.raises(LockHeld):
            read_to(lake, table, every[0], reset=True)
        read_to(lake, table, every[2])
    assert table.refs["consumer__bill"]["snapshot-id"] == every[2]


def test_a_snapshot_that_came_back_is_consumers_a_new_consumer_with_its_files() -> None:
    """Another engine registers an old metadata file while what had expired waits in failsafe."""
    lake, table = written()
    first, old = table.snapshots[0], table.metadata_location
    lake.run()
    lake.on(30)
    table.drop()
    again = lake.register(str(table.name), old)
    read_to(lake, again, first, days=300)
    lake.run()
    lake.on(60).run()
    assert len(again.snapshots) == 6 and again.data("t0") in lake.paths()


def test_the_gate_finds_what_a_consumer_has_still_to_read_by_itself() -> None:
    lake, table = written()
    every = table.snapshots
    services, request = lake.services(), lake.request()
    seen = observe(services)
    (planned,) = plan_expiration(services, seen, run_id=request.run_id, as_of=request.as_of)
    assert set(planned.plan.snapshots) == set(every[:5])
    between = (every[2],)  # as a planner would that forgets what lies between
    digest = plan_digest(planned.plan.table_uuid, between, (), ())
    wrong = replace(planned.plan, id="wrong", snapshots=between, digest=digest, files=0, bytes=0)
    read_to(lake, table, every[1])
    (stored,) = store_plans(services, [replace(planned, plan=wrong, files=())])
    ((_, verdict),) = run_gate(services, [stored.plan])
    assert [f.expectation for f in verdict.failed if "unread" in f.expectation] == [
        "planned_unread is 0"
    ]


@seed(SEED)
@settings(max_examples=examples(few=100, many=200), deadline=None, database=None)
@given(histories(foreign_expiry=True, most=20), st.floats(0, 40), st.sampled_from([0.0, 3.0]))
def test_planner_and_gate_agree_on_what_is_still_to_read(
    story: History, after: float, window: float
) -> None:
    plan, state = story.plan(after + 40, window), story.state()
    assert planned_unread(state, plan) == set()
    everything = replace(plan, snapshots=tuple(state.snapshots))
    read = {c.snapshot_id for c in consumers_of(state) if c.tag not in plan.refs}
    assert planned_unread(state, everything) == (
        still_to_read(state, read, plan.refs) & _on_branches(state, plan.refs)
    )


def _on_branches(state: TableMetadata, gone: Sequence[str]) -> set[int]:
    """The gate asks apart for what tags name: here it looks along the branches that stay."""
    heads = (head for name, head in state.heads.items() if name not in gone)
    return {snapshot.snapshot_id for head in heads for snapshot in state.ancestry(head)}


# --- what else happens to a table -----------------------------------------------------------------


def test_a_consumer_behind_which_main_was_set_back_is_named_and_nothing_is_lost() -> None:
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[3])
    rollback(lake.services(), table.name, Point(every[1]), dry_run=False)
    lake.on(40).run()
    assert set(table.snapshots) == {every[1], every[3]}
    (found,) = [f for f in examine(lake.services()) if f.code == "consumer_cut_off"]
    assert found.object == str(table.name) and "consumer bill" in found.message
    assert f"meltline consumer remove {table.name} bill" in found.fix


def test_a_dropped_table_comes_back_with_its_consumers() -> None:
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[1])
    drop(lake.services(), str(table.name))
    with pytest.raises(ObjectDropped):
        read_to(lake, table, every[2])
    lake.on(22).run()
    undrop(lake.services(), str(table.name))
    (back,) = find_consumers(lake.services(), table.name).consumers
    assert (back.snapshot_id, back.moved_at) == (every[1], T0 + 20 * DAY)
    lake.run()
    assert table.snapshots == every[1:]


def test_a_clone_begins_without_consumers() -> None:
    lake, table = written()
    read_to(lake, table, table.snapshots[1])
    table.configure(**{CONSUMER_KEEP: "5d"})
    clone(lake.services(), str(table.name), "lake.air.copy")
    copy = Table(lake, TableName.parse("lake.air.copy"))
    assert [c.table for c in find_consumers(lake.services()).consumers] == [str(table.name)]
    assert REMEMBERED not in copy.document["properties"]
    assert copy.document["properties"][CONSUMER_KEEP] == "5d"


def test_a_copy_by_rewritten_paths_has_consumers_of_its_own() -> None:
    lake, table = written(lake=fresh_lake())
    read_to(lake, table, table.snapshots[2])
    copy = copied(table, "lake.air.copy")
    remove_consumer(lake.services(), table.name, "bill")
    kept = table.snapshots[2:]
    for day in (21, 40, 41):
        lake.on(day).run()
    assert (table.snapshots, copy.snapshots) == ([table.head], kept)
    assert [c.table for c in find_consumers(lake.services()).consumers] == ["lake.air.copy"]


def test_a_table_keeps_its_consumers_under_another_name() -> None:
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[2])
    rename(lake.services(), str(table.name), "lake.air.u")
    again = Table(lake, TableName.parse("lake.air.u"))
    assert read_to(lake, again, every[3]).table == "lake.air.u"
    lake.run()
    assert again.snapshots == every[3:]


def test_older_metadata_that_is_registered_again_has_the_consumers_that_it_had() -> None:
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[1])
    old = table.metadata_location
    read_to(lake, table, every[4])
    set_back(table, old)
    assert [c.snapshot_id for c in find_consumers(lake.services()).consumers] == [every[1]]
    lake.run()
    assert table.snapshots == every[1:]


def test_consumers_outlive_a_lost_control_ledger() -> None:
    lake, table = written()
    every = table.snapshots
    read_to(lake, table, every[2])
    begin_anew(lake)
    assert [c.snapshot_id for c in find_consumers(lake.services()).consumers] == [every[2]]
    lake.run()
    assert table.snapshots == every[2:]


def test_only_what_may_be_changed_gets_a_consumer() -> None:
    lake, table = written(lake=Lake(other_catalogs=("theirs",)))
    other = lake.clone(table, "theirs.sea.t")
    with pytest.raises(CatalogReadOnly):
        read_to(lake, other, other.head)
