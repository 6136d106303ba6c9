"""What is promised of something dropped is granted: by undrop within its retention, else recover.

A table whose retention is 0 days cannot be undropped at all. As long as its files stand, nothing
of it is lost: `recover` makes a new table of its last state.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from meltline.app.catalog.resolve import find_object, load_table
from meltline.app.drop.drop import drop
from meltline.app.drop.finalize import process_drops
from meltline.app.drop.recover import Recovered, recover
from meltline.app.drop.undrop import undrop
from meltline.app.observe.observe import observe
from meltline.app.retention.policies import change_policy
from meltline.domain.drop.drops import is_dropped_name
from meltline.domain.errors import (
    NotDropped,
    ObjectDropped,
    OutsideRetention,
    RecoveryImpossible,
    UsageInvalid,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.policy import RETENTION
from meltline.domain.units import parse_instant
from tests.lake.lake import DAY, T0, Lake, Table

MS = timedelta(milliseconds=1)
NAME, NEW = "lake.air.t", "lake.air.back"
_COMMAND = re.compile(r"`meltline recover (\S+?)(?:@(\d+))? --as NEW --reason WHY`")
_UNTIL = re.compile(r"until (\S+Z) at least")


def kept_for_no_day() -> tuple[Lake, Table]:
    """A table with a retention of 0 days whose older snapshots have expired; it is day 3.5."""
    lake = Lake()
    table = lake.on(0).table("t")
    lake.table("stays")
    for day in range(3):
        lake.on(day)
        table.overwrite(f"f{day}")
    services = lake.on(3).services()
    change_policy(services, find_object(services, NAME), {RETENTION: "0"}, dry_run=False)
    assert lake.run().exit_code == 0 and len(table.snapshots) == 1
    lake.on(3.5)
    return lake, table


def by_command(lake: Lake, table: Table) -> None:
    drop(lake.services(), str(table.name))


def by_an_engine(lake: Lake, table: Table) -> None:
    table.drop()


def look(lake: Lake) -> None:
    process_drops(lake.services(), observe(lake.services()), lake.clock.now())


def promised(error: ObjectDropped | OutsideRetention) -> tuple[str, int, datetime]:
    """The table and the snapshot that a refusal says can be recovered, and until when."""
    command, until = _COMMAND.search(error.next), _UNTIL.search(error.next)
    assert command and until, error.next
    return command[1], int(command[2]), parse_instant(until[1])


def refused(lake: Lake) -> OutsideRetention:
    with pytest.raises(OutsideRetention) as caught:
        undrop(lake.services(), NAME)
    return caught.value


def bring_back(lake: Lake, snapshot_id: int | None = None) -> Recovered:
    return recover(lake.services(), NAME, NEW, reason="needed", snapshot_id=snapshot_id)


def new(lake: Lake) -> Table:
    return Table(lake, TableName.parse(NEW))


@pytest.mark.parametrize("drops", [by_command, by_an_engine])
@pytest.mark.parametrize("runs", [(), (4,), (4, 10.9)], ids=["observed", "one run", "two runs"])
def test_what_no_undrop_brings_back_is_recovered_in_its_last_state_while_its_files_stand(
    drops: Callable[[Lake, Table], None], runs: tuple[float, ...]
) -> None:
    lake, table = kept_for_no_day()
    head = table.head
    drops(lake, table)
    look(lake)
    for day in runs:
        lake.on(day).run()
    name, snapshot_id, until = promised(refused(lake))
    assert (name, snapshot_id) == (NAME, head)
    assert until == T0 + (4 if runs else 3.5) * DAY + 7 * DAY
    done = bring_back(lake)
    assert (done.snapshot.snapshot_id, done.files_found, done.missing) == (head, 4, ())
    assert new(lake).head == head and "meltline.dropped.at" not in new(lake).document["properties"]


def test_the_last_promised_moment_is_kept_and_nothing_is_promised_after_the_purge() -> None:
    lake, _ = kept_for_no_day()
    drop(lake.services(), NAME)
    lake.on(4).run()
    *_, until = promised(refused(lake))
    lake.clock.moment = until - MS
    lake.run()
    assert bring_back(lake).missing == ()
    other, _ = kept_for_no_day()
    drop(other.services(), NAME)
    other.on(4).run()
    other.clock.moment = until
    assert "may still find" in refused(other).next
    other.run()
    with pytest.raises((OutsideRetention, NotDropped)) as gone:
        undrop(other.services(), NAME)
    assert "meltline recover" not in gone.value.next
    with pytest.raises(RecoveryImpossible):
        bring_back(other)


def test_what_was_recovered_stays_when_the_dropped_table_has_been_let_go() -> None:
    lake, table = kept_for_no_day()
    head, file = table.head, table.data("f2")
    drop(lake.services(), NAME)
    bring_back(lake)
    for day in (4, 5, 12, 13, 20, 30):
        assert lake.on(day).run().exit_code == 0
    (live,) = new(lake).live()
    assert new(lake).head == head and live.path == file and file in lake.paths()
    assert not [e for e in lake.catalogs["lake"].listing().entries
                if is_dropped_name(e.name.namespace)]  # fmt: skip


def test_a_snapshot_of_a_dropped_table_is_recovered_beyond_its_retention_and_undropped_within() -> (
    None
):
    lake, table = kept_for_no_day()
    head = table.head
    drop(lake.services(), NAME)
    assert bring_back(lake, head).snapshot.snapshot_id == head
    other = Lake()
    kept = other.on(0).table("t")
    other.table("stays")
    kept.overwrite("f")
    head = kept.head
    drop(other.on(1).services(), NAME)
    with pytest.raises(UsageInvalid, match="has not expired") as better:
        bring_back(other, head)
    assert better.value.next == f"`meltline undrop {NAME}` brings it back"
    assert undrop(other.services(), NAME).tables


def test_of_a_drop_that_nobody_has_noticed_no_older_state_is_passed_off_as_the_last() -> None:
    lake, table = kept_for_no_day()
    table.drop()
    with pytest.raises(RecoveryImpossible, match="nobody knows the last state") as unknown:
        bring_back(lake)
    assert "meltline observe" in unknown.value.next
    look(lake)
    assert bring_back(lake).missing == ()


def test_a_name_says_how_long_what_had_it_can_be_brought_back() -> None:
    lake, table = kept_for_no_day()
    drop(lake.services(), NAME)
    with pytest.raises(ObjectDropped) as over:
        load_table(lake.services(), table.name)
    assert promised(over.value) == (NAME, 1005, T0 + 10.5 * DAY)
    other = Lake()
    kept = other.on(0).table("t")
    other.table("stays")
    drop(other.on(1).services(), NAME)
    with pytest.raises(ObjectDropped, match="has been dropped") as within:
        load_table(other.services(), kept.name)
    assert within.value.next.endswith("--kind table`, until 2026-01-09T00:00:00Z")


def test_a_table_without_a_commit_promises_no_recovery() -> None:
    lake = Lake()
    lake.on(0).table("t")
    lake.table("stays")
    services = lake.services()
    change_policy(services, find_object(services, NAME), {RETENTION: "0"}, dry_run=False)
    done = drop(services, NAME)
    assert "recover`" not in done.ways_back("undrop") and "no commit" in done.ways_back("undrop")
    assert refused(lake).next.startswith("nothing of it is left to recover")
    with pytest.raises(RecoveryImpossible):
        bring_back(lake)


def test_a_table_whose_list_an_engine_deleted_promises_no_recovery() -> None:
    lake, _ = kept_for_no_day()
    drop(lake.services(), NAME)
    (path,) = [p for p in lake.paths() if f"snap-{bring_back_id(lake)}" in p]
    lake.store.delete([path])
    assert refused(lake).next.startswith("nothing of it is left to recover")


def bring_back_id(lake: Lake) -> int:
    return promised(refused(lake))[1]


def test_a_drop_says_until_when_what_it_promises_can_be_had() -> None:
    lake, _ = kept_for_no_day()
    done = drop(lake.services(), NAME, dry_run=True)
    assert done.ways_back("meltline undrop") == (
        "Its retention is 0 days: no undrop brings it back. `meltline recover lake.air.t --as NEW "
        "--reason WHY` makes a new table, until 2026-01-11T12:00:00Z at least."
    )
    kept = drop(lake.services(), "lake.air.stays", dry_run=True)
    assert kept.ways_back("UNDROP TABLE") == (
        "`UNDROP TABLE lake.air.stays` brings it back, until 2026-01-11T12:00:00Z."
    )


def test_a_new_table_of_the_name_does_not_hide_the_dropped_ones_last_state() -> None:
    lake, table = kept_for_no_day()
    head = table.head
    drop(lake.services(), NAME)
    other = lake.table("t", location="file:///w/air/t2")
    for day in (4, 5, 6):
        lake.on(day)
        other.overwrite(f"g{day}")
        lake.run()
    name, snapshot_id, _ = promised(refused(lake))
    assert (name, snapshot_id) == (NAME, head)
    assert bring_back(lake, snapshot_id).snapshot.snapshot_id == head


def test_a_last_state_that_stands_under_its_name_again_is_not_promised_a_second_time() -> None:
    lake, table = kept_for_no_day()
    head = table.head
    drop(lake.services(), NAME)
    lake.on(4).run()
    recover(lake.services(), NAME, NAME, reason="needed", snapshot_id=head)
    look(lake.on(5))
    ways = refused(lake).next
    assert ways.startswith(f"{NAME} still has its last state, snapshot {head}: `meltline branch`")
    with pytest.raises(UsageInvalid, match="has not expired"):
        bring_back(lake, head)
