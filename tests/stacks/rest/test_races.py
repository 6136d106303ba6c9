"""Refs that come while an expiration is made over REST, on Iceberg's own server: none is lost."""

from collections.abc import Iterator
from itertools import count

import pytest

from meltline.adapters.catalogs.rest.committer import removal
from meltline.adapters.catalogs.rest.protocol import CommitRaced
from meltline.domain.errors import CommitUnproven
from meltline.domain.iceberg.names import TableName
from tests.stacks.rest.iceberg_server import IcebergServer, iceberg_server
from tests.stacks.rest.raced_tables import Died, RacedTable, die, metadata_file, set_ref

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergServer]:
    with iceberg_server(tmp_path_factory.mktemp("rest")) as running:
        yield running


@pytest.fixture(params=[1, 2, 3], ids="format {}".format)
def table(request: pytest.FixtureRequest, server: IcebergServer) -> RacedTable:
    """Five snapshots on main, of which three are to expire."""
    name = TableName("lake", ("air",), f"t{next(_NUMBERS)}")
    table = RacedTable(server, name, format_version=request.param)
    for snapshot in range(1, 6):
        table.append(snapshot)
    return table


def test_what_was_planned_goes_in_one_commit_and_nothing_else(table: RacedTable) -> None:
    table.tag("old", 3)
    plan = table.plan([1, 2, 3], refs=["old"])
    outcome = table.committer.expire(plan, plan.base_location)
    assert outcome is not None and outcome.base_location == plan.base_location
    assert not outcome.restored
    assert (table.snapshots().keys(), table.refs()) == ({4, 5}, {"main": 5})


def test_a_table_that_has_moved_on_is_left_alone(table: RacedTable) -> None:
    plan = table.plan([1])
    table.append(6)
    assert table.committer.expire(plan, plan.base_location) is None
    assert 1 in table.snapshots()


def test_a_known_ref_that_moves_meanwhile_stops_the_commit(table: RacedTable) -> None:
    table.tag("month", 4)
    plan = table.plan([1, 2, 3])
    table.before_commit = lambda: table.tag("month", 2)
    assert table.committer.expire(plan, plan.base_location) is None
    assert table.refs() == {"main": 5, "month": 2} and len(table.snapshots()) == 5


def test_refs_that_come_meanwhile_have_their_snapshots_again(table: RacedTable) -> None:
    plan = table.plan([1, 2, 3])
    before = table.snapshots()

    def arrive() -> None:
        table.commit(set_ref("audit", 1) | {"max-ref-age-ms": 2**62})
        table.commit(set_ref("work", 2, "branch") | {"min-snapshots-to-keep": 7})
        table.tag("young", 5)

    table.before_commit = arrive
    outcome = table.committer.expire(plan, plan.base_location)
    assert outcome is not None and outcome.restored == ("audit", "work")
    refs = table.load().metadata["refs"]
    assert refs["audit"] == {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 2**62}
    assert refs["work"] == {"snapshot-id": 2, "type": "branch", "min-snapshots-to-keep": 7}
    assert refs["young"]["snapshot-id"] == 5 and refs["main"]["snapshot-id"] == 5
    after = table.snapshots()
    assert after.keys() == {1, 2, 4, 5}
    for snapshot in (1, 2):
        for field in ("manifest-list", "timestamp-ms", "summary", "schema-id"):
            assert after[snapshot][field] == before[snapshot][field]


def test_a_run_that_died_after_its_commit_is_mended_by_the_next(table: RacedTable) -> None:
    plan = table.plan([1, 2, 3])
    table.before_commit = lambda: table.tag("audit", 3)
    table.after_commit = die
    with pytest.raises(Died):
        table.committer.expire(plan, plan.base_location)
    assert table.refs() == {"main": 5}
    for snapshot in range(6, 9):  # others go on
        table.append(snapshot)
    outcome = table.committer.confirm(plan)
    assert outcome is not None and outcome.restored == ("audit",)
    assert table.refs()["audit"] == 3 and 3 in table.snapshots()
    again = table.committer.confirm(plan)  # a run that died once more
    assert again is not None and table.refs()["audit"] == 3


def test_a_tag_that_people_dropped_before_the_commit_does_not_come_back(table: RacedTable) -> None:
    plan = table.plan([1, 2, 3])

    def come_and_go() -> None:
        table.tag("audit", 3)
        table.untag("audit")
        table.tag("kept", 2)

    table.before_commit = come_and_go
    table.after_commit = die
    with pytest.raises(Died):
        table.committer.expire(plan, plan.base_location)
    outcome = table.committer.confirm(plan)
    assert outcome is not None and outcome.restored == ("kept",)
    assert table.refs().keys() >= {"main", "kept"} and "audit" not in table.refs()


@pytest.mark.parametrize("snapshots", [[1, 2, 3], []], ids=["with its snapshot", "alone"])
@pytest.mark.parametrize("dies", [False, True], ids=["", "a run that dies"])
def test_a_tag_that_was_to_go_and_is_kept_longer_meanwhile_stays(
    table: RacedTable, snapshots: list[int], dies: bool
) -> None:
    """Where a ref stands can be asserted, how long it stays cannot."""
    table.tag("old", 3)
    table.tag("over", 2)
    plan = table.plan(snapshots, refs=["old", "over"])
    longer = {**set_ref("old", 3), "max-ref-age-ms": 10**12}
    table.before_commit = lambda: table.commit(longer)
    if dies:
        table.after_commit = die
        with pytest.raises(Died):
            table.committer.expire(plan, plan.base_location)
        outcome = table.committer.confirm(plan)
    else:
        outcome = table.committer.expire(plan, plan.base_location)
    assert outcome is not None and outcome.restored == ("old",)
    ref = table.load().metadata["refs"]["old"]
    assert (ref["snapshot-id"], ref["max-ref-age-ms"]) == (3, 10**12)
    assert "over" not in table.refs()


def test_a_name_that_somebody_has_used_again_is_theirs(table: RacedTable) -> None:
    plan = table.plan([1, 2, 3])
    table.before_commit = lambda: table.tag("audit", 3)
    table.after_commit = lambda: table.tag("audit", 4)
    table.committer.expire(plan, plan.base_location)
    assert table.refs()["audit"] == 4


def test_an_answer_that_has_the_next_commit_too_hides_no_ref_that_was_lost(
    table: RacedTable,
) -> None:
    plan = table.plan([1, 2, 3])
    table.before_commit = lambda: table.tag("audit", 3)
    table.after_commit = lambda: table.append(6)
    table.looks_again = True
    outcome = table.committer.expire(plan, plan.base_location)
    assert outcome is not None and outcome.restored == ("audit",)
    assert table.refs()["audit"] == 3 and table.refs()["main"] == 6


def test_a_commit_that_a_gateway_sends_again_takes_nothing_a_second_time(table: RacedTable) -> None:
    plan = table.plan([1, 2, 3])
    sent: list[tuple[object, ...]] = []
    table.before_commit = lambda: table.tag("audit", 3)
    committer = table.committer
    protocol = committer.protocols["lake"]
    commit = protocol.commit

    def listening(*words: object) -> object:
        sent.append(words)
        return commit(*words)  # type: ignore[arg-type]

    protocol.commit = listening  # type: ignore[assignment,method-assign]
    committer.expire(plan, plan.base_location)
    assert table.refs()["audit"] == 3
    for words in list(sent):
        with pytest.raises(CommitRaced):
            commit(*words)  # type: ignore[arg-type]
    assert table.refs()["audit"] == 3


def test_a_commit_that_is_on_its_way_when_its_run_dies_never_comes(table: RacedTable) -> None:
    plan = table.plan([1, 2, 3])
    table.before_commit = die
    committer = table.committer
    with pytest.raises(Died):
        committer.expire(plan, plan.base_location)
    late = removal(plan, table.load())  # what the dead run had sent
    assert table.committer.withdraw(plan) and table.committer.withdraw(plan)
    table.tag("audit", 3)
    with pytest.raises(CommitRaced):
        table.commit(*late[1], requirements=late[0])
    assert table.refs()["audit"] == 3 and len(table.snapshots()) == 5


def test_what_others_expired_was_not_ours(table: RacedTable) -> None:
    plan = table.plan([1, 2, 3])
    table.commit({"action": "remove-snapshots", "snapshot-ids": [1, 2, 3]})
    assert table.committer.confirm(plan) is None


def test_where_the_base_is_gone_nobody_guesses(table: RacedTable) -> None:
    plan = table.plan([1, 2, 3])
    table.after_commit = die
    with pytest.raises(Died):
        table.committer.expire(plan, plan.base_location)
    metadata_file(plan.base_location).unlink()
    with pytest.raises(CommitUnproven, match="cannot be told") as told:
        table.committer.confirm(plan)
    assert "meltline abandon e1" in told.value.next


def test_the_base_is_found_behind_the_end_of_the_metadata_log(server: IcebergServer) -> None:
    table = RacedTable(server, TableName("lake", ("air",), "short_log"))
    for snapshot in range(1, 4):
        table.append(snapshot)
    few = {"write.metadata.previous-versions-max": "2"}
    table.commit({"action": "set-properties", "updates": few})
    plan = table.plan([1, 2])
    table.before_commit = lambda: table.tag("audit", 2)
    table.after_commit = die
    with pytest.raises(Died):
        table.committer.expire(plan, plan.base_location)
    for snapshot in range(4, 12):
        table.append(snapshot)
    assert len(table.load().metadata["metadata-log"]) == 2
    outcome = table.committer.confirm(plan)
    assert outcome is not None and outcome.restored == ("audit",)
    assert table.refs()["audit"] == 2


def test_another_table_that_has_the_name_by_now_gets_nothing_that_was_lost(
    server: IcebergServer,
) -> None:
    table = RacedTable(server, TableName("lake", ("air",), "renamed"))
    for snapshot in range(1, 6):
        table.append(snapshot)
    plan = table.plan([1, 2, 3])
    table.before_commit = lambda: table.tag("audit", 3)
    table.after_commit = lambda: table.rename("elsewhere")
    with pytest.raises(CommitUnproven) as renamed:
        table.committer.expire(plan, plan.base_location)
    assert "no table of that name" in renamed.value.found
    other = RacedTable(server, table.name)
    other.append(9)
    with pytest.raises(CommitUnproven, match="cannot be told"):
        table.committer.confirm(plan)
    other.rename("other")
    table.protocol.catalog.rename_table(("air", "elsewhere"), ("air", "renamed"))
    outcome = table.committer.confirm(plan)
    assert outcome is not None and table.refs()["audit"] == 3
    other.name = TableName("lake", ("air",), "other")
    assert (other.snapshots().keys(), other.refs()) == ({9}, {"main": 9})


def test_another_table_that_has_the_name_by_now_is_not_fenced(server: IcebergServer) -> None:
    table = RacedTable(server, TableName("lake", ("air",), "begun"))
    for snapshot in range(1, 6):
        table.append(snapshot)
    plan = table.plan([1, 2, 3])
    table.rename("away")
    other = RacedTable(server, table.name)
    other.append(9)
    with pytest.raises(CommitUnproven) as refused:
        table.committer.withdraw(plan)
    assert "another table of that name" in refused.value.found
    assert other.refs() == {"main": 9}
    other.rename("a_stranger")
    table.protocol.catalog.rename_table(("air", "away"), ("air", "begun"))
    table.append(6)
    metadata_file(plan.base_location).unlink()  # the plan itself knows the table, too
    assert table.committer.withdraw(plan) and table.refs().keys() == {"main", "fence__e1"}
