"""Shares: a pinned state that others read, until it is updated or dropped (ML-19 to ML-21)."""

from typing import Any

import pytest

from meltline.app.clone.clone import clone
from meltline.app.clone.shares import Shared, create_share, drop_share, list_shares, update_share
from meltline.app.drop.drop import drop, rename
from meltline.app.refs.tags import list_tags, remove_tag
from meltline.app.storage.file_status import standing_now
from meltline.domain.deletion.storage import Stage
from meltline.domain.errors import (
    CatalogReadOnly,
    MeltlineError,
    NameConflict,
    NamespaceNotEmpty,
    ObjectDropped,
    ShareNotFound,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.policy import FOREVER_MS
from tests.lake.lake import Lake, Table
from tests.lives.kills import Killed, Process

NAME, TAG = "lake.air.t", "share__s"


def written(*names: str) -> tuple[Lake, Table]:
    """Tables with a commit on the days 0 and 1; it is day 2."""
    lake = Lake()
    tables = [lake.on(0).table(f"lake.air.{name}") for name in names or ("t",)]
    for day in range(2):
        lake.on(day)
        for table in tables:
            table.overwrite(f"f{day}")
    return lake.on(2), tables[0]


def shared(lake: Lake, source: str = NAME, **more: Any) -> Shared:
    return create_share(lake.services(), "s", source, **more)


def table_of(lake: Lake, name: str = "t") -> Table:
    return Table(lake, TableName("lake", ("s",), name))


def live(table: Table) -> set[str]:
    return {entry.path for entry in table.live()}


def names(lake: Lake) -> set[str]:
    return {str(entry.name) for entry in lake.catalogs["lake"].listing().entries}


def guard(table: Table) -> str | None:
    found: str | None = table.document["properties"].get("gc.enabled")
    return found


# --- made -----------------------------------------------------------------------------------------


def test_a_share_is_a_namespace_with_a_table_over_the_pinned_snapshot() -> None:
    lake, table = written()
    before = lake.paths()
    done = shared(lake)
    copy = table_of(lake)
    assert [one.table for one in done.tables] == [copy.name]
    assert (copy.snapshots, live(copy)) == ([table.head], live(table))
    assert copy.uuid != table.uuid and copy.location != table.location
    assert table.refs[TAG] == {
        "type": "tag", "snapshot-id": table.head, "max-ref-age-ms": FOREVER_MS
    }  # fmt: skip
    assert guard(table) == guard(copy) == "false"
    assert {p.rpartition(".")[2] for p in lake.paths() - before} == {"json"}
    assert [tag.kind for tag in list_tags(lake.services(), table.name)] == ["share"]


def test_what_is_written_later_is_not_shown() -> None:
    lake, table = written()
    shared(lake)
    old = live(table)
    table.overwrite("later")
    assert live(table_of(lake)) == old


def test_a_database_is_shared_with_all_that_is_in_it() -> None:
    lake, _ = written("t", "deep.u")
    lake.table("lake.air.empty")
    shared(lake, "lake.air")
    assert {n for n in names(lake) if n.startswith("lake.s.")} == {
        "lake.s.t", "lake.s.deep.u", "lake.s.empty",
    }  # fmt: skip


def test_a_shared_state_stays_historical_on_its_owner_while_the_share_shows_it() -> None:
    lake, table = written()
    shared(lake)
    path = table.data("f1")
    lake.run()
    table.overwrite("later")
    for day in (30, 60):
        lake.on(day).run()
    assert path in lake.paths().difference(lake.waiting())
    found = standing_now(lake.services()).files[location_key(path)]
    assert (found.stage, found.owner) == (Stage.HISTORICAL, table.uuid)


@pytest.mark.parametrize(
    ("name", "source", "error"),
    [
        ("air", NAME, NameConflict),
        ("s.x", NAME, UsageInvalid),
        (" ", NAME, UsageInvalid),
        ("n" * 201, NAME, UsageInvalid),
        ("s", "lake.air.no", TableNotFound),
        ("s", "theirs.air.t", CatalogReadOnly),
        ("s", "lake.meltline", CatalogReadOnly),
        ("meltline_dropped", NAME, ObjectDropped),
        ("s", "lake.old.t", UsageInvalid),
    ],
)
def test_what_cannot_be_shared_says_why_and_changes_nothing(
    name: str, source: str, error: type[MeltlineError]
) -> None:
    lake = Lake(other_catalogs=("theirs",))
    table = lake.on(0).table("t")
    table.append("a")
    lake.table("theirs.air.t").append("a")
    lake.table("lake.meltline.snapshots")
    create_share(lake.services(), "old", NAME)
    before, document = lake.paths(), table.document
    with pytest.raises(error) as refused:
        create_share(lake.services(), name, source)
    assert refused.value.next
    assert (lake.paths(), table.document) == (before, document)


def test_a_dry_run_shares_nothing() -> None:
    lake, table = written()
    before, document = lake.paths(), table.document
    assert len(shared(lake, dry_run=True).tables) == 1
    assert (lake.paths(), table.document, names(lake)) == (before, document, {NAME})


def test_a_share_that_fails_at_its_last_step_leaves_no_tag_and_no_guard() -> None:
    lake, table = written()
    catalog = lake.catalogs["lake"]

    class Late:
        """A catalog in which an engine makes the namespace just before we do."""

        def __getattr__(self, name: str) -> Any:
            if name == "create":
                catalog.set_namespace_properties(("s",), {"theirs": "yes"})
            return getattr(catalog, name)

    with pytest.raises(NameConflict):
        create_share(lake.services(catalogs={"lake": Late()}), "s", NAME)
    assert TAG not in table.refs and guard(table) is None and names(lake) == {NAME}


def test_wherever_making_a_share_is_killed_its_files_stay_or_the_share_can_be_made() -> None:
    process = Process()
    lake, _ = written()
    create_share(process.of(lake.services()), "s", NAME)
    for number in range(1, len(process.calls) + 1):
        lake, table = written()
        with pytest.raises(Killed):
            create_share(Process(number).of(lake.services()), "s", NAME)
        lake.let_leases_end()
        if "lake.s.t" not in names(lake):
            shared(lake)
        for day in (3, 12, 20):
            lake.on(day).run()
        assert live(table_of(lake)) == {table.data("f1")}


# --- what others do in its place -----------------------------------------------------------------


def test_a_share_keeps_its_name_and_is_dropped_by_its_own_command_alone() -> None:
    lake, table = written()
    shared(lake)
    services, before = lake.services(), lake.catalogs["lake"].listing()
    with pytest.raises(UsageInvalid) as renamed:
        rename(services, "lake.s", "lake.moved")
    assert "meltline share create NEW --from lake.air.t" in renamed.value.next
    with pytest.raises(UsageInvalid) as dropped:
        drop(services, "lake.s")
    assert dropped.value.next == "`meltline share drop s`"
    assert lake.catalogs["lake"].listing() == before and TAG in table.refs


@pytest.mark.parametrize(
    ("source", "old", "new", "now"),
    [
        ("lake.air", "lake.air", "lake.sky", "lake.sky"),
        ("lake.air.deep", "lake.air", "lake.sky", "lake.sky.deep"),
        ("lake.air.deep", "lake.air.deep", "lake.deep", "lake.deep"),
        ("lake.air.deep.u", "lake.air.deep", "lake.low", "lake.low.u"),
        (NAME, NAME, "lake.air.deep.t2", "lake.air.deep.t2"),
        ("lake.air", NAME, "lake.air.t2", "lake.air"),
        ("lake.air.deep", "lake.air.dee", "lake.sky", "lake.air.deep"),
    ],
)
def test_a_source_is_followed_wherever_it_or_what_it_lies_in_is_renamed(
    source: str, old: str, new: str, now: str
) -> None:
    lake, _ = written("t", "deep.u", "dee.v")
    shared(lake, source)
    rename(lake.services(), old, new)
    (found,) = list_shares(lake.services())
    assert str(found.share.source) == now
    done = update_share(lake.services(), "s")
    assert str(done.share.source) == now and done.tables


def test_a_tag_goes_with_its_share_though_its_table_was_renamed_a_moment_ago() -> None:
    lake, _ = written("t", "u")
    shared(lake, "lake.air")
    lake.run()
    rename(lake.services(), NAME, "lake.air.t2")
    renamed = Table(lake, TableName.parse("lake.air.t2"))
    assert not any(one.behind for one in list_shares(lake.services())[0].tables)
    drop_share(lake.services(), "s")
    assert TAG not in renamed.refs


def test_a_table_that_somebody_puts_beside_a_share_is_theirs() -> None:
    lake, table = written()
    shared(lake)
    mine = lake.table("lake.s.mine")
    mine.append("m")
    table.overwrite("later")
    done = update_share(lake.services(), "s")
    assert (done.foreign, done.removed) == ((mine.name,), ()) and live(mine)
    assert [one.foreign for one in list_shares(lake.services())] == [(mine.name,)]
    with pytest.raises(NamespaceNotEmpty) as refused:
        drop_share(lake.services(), "s")
    assert "lake.s.mine" in refused.value.found and TAG in table.refs
    rename(lake.services(), "lake.s.mine", "lake.air.mine")
    drop_share(lake.services(), "s")
    assert names(lake) >= {NAME, "lake.air.mine"} and not list_shares(lake.services())


def test_a_table_of_somebody_else_under_the_name_of_one_that_is_to_come_is_not_overwritten() -> (
    None
):
    lake, table = written()
    shared(lake, "lake.air")
    theirs = lake.table("lake.s.u")
    theirs.append("theirs")
    lake.table("lake.air.u").append("u")
    before, refs = theirs.document, table.refs
    with pytest.raises(NameConflict, match="not the share's"):
        update_share(lake.services(), "s")
    assert (theirs.document, table.refs) == (before, refs)


def test_a_table_that_comes_while_a_share_is_dropped_stops_that() -> None:
    lake, table = written()
    shared(lake)
    catalog = lake.catalogs["lake"]

    class Late:
        """A catalog in which an engine makes a table just before we remove its namespace."""

        def __getattr__(self, name: str) -> Any:
            if name == "move":
                lake.table("lake.s.late").append("late")
            return getattr(catalog, name)

    with pytest.raises(NamespaceNotEmpty):
        drop_share(lake.services(catalogs={"lake": Late()}), "s")
    assert live(table_of(lake)) == live(table) and "lake.s.late" in names(lake)


def test_the_tag_of_a_share_that_an_engine_dropped_can_be_taken_away() -> None:
    lake, table = written()
    shared(lake)
    catalog = lake.catalogs["lake"]
    catalog.drop(table_of(lake).name)
    catalog.move([], remove=[("s",)])
    remove_tag(lake.services(), table.name, TAG, dry_run=False)
    assert TAG not in table.refs


# --- every day ------------------------------------------------------------------------------------


def test_an_automatic_share_follows_with_every_run_and_a_manual_one_does_not() -> None:
    lake, table = written()
    shared(lake, auto=True)
    create_share(lake.services(), "manual", NAME)
    first = live(table)
    table.overwrite("later")
    lake.on(3).run()
    assert live(table_of(lake)) == {table.data("later")}
    assert live(Table(lake, TableName.parse("lake.manual.t"))) == first
    before = table_of(lake).metadata_location
    lake.on(4).run()
    assert table_of(lake).metadata_location == before


def test_an_automatic_share_that_cannot_be_updated_holds_back_nothing_else() -> None:
    lake, table = written()
    shown = live(table)
    shared(lake, auto=True)
    drop(lake.services(), NAME)
    assert lake.on(3).run().exit_code == 0
    assert live(table_of(lake)) == shown


# --- dropped and listed ---------------------------------------------------------------------------


def test_dropping_a_share_lets_go_of_what_only_it_kept() -> None:
    lake, table = written()
    shared(lake)
    old, metadata = table.data("f1"), table_of(lake).location
    lake.run()
    table.overwrite("later")
    lake.on(30).run()
    drop_share(lake.services(), "s")
    assert TAG not in table.refs and names(lake).isdisjoint({"lake.s.t"})
    assert ("s",) not in lake.catalogs["lake"].listing().namespaces
    assert list_shares(lake.services()) == []
    lake.on(31).run()
    assert old in lake.waiting()
    for day in (39, 40, 48):
        assert lake.on(day).run().exit_code == 0
    assert old not in lake.paths() and not lake.paths(metadata)
    assert names(lake) == {NAME} and guard(table) is None
    with pytest.raises(ShareNotFound):
        drop_share(lake.services(), "s")


def test_a_dry_run_of_update_and_drop_changes_nothing() -> None:
    lake, table = written()
    shared(lake)
    table.overwrite("later")
    before, there = lake.paths(), names(lake)
    assert update_share(lake.services(), "s", dry_run=True).tables[0].behind
    drop_share(lake.services(), "s", dry_run=True)
    assert (lake.paths(), names(lake)) == (before, there)


def test_shares_are_listed_by_what_they_show() -> None:
    lake, table = written("t", "u")
    shared(lake, "lake.air", auto=True)
    create_share(lake.services(), "one", "lake.air.u")
    table.overwrite("later")
    every = list_shares(lake.services())
    assert [(one.share.name, one.share.auto) for one in every] == [("one", False), ("s", True)]
    assert {str(t.table): t.behind for t in every[1].tables} == {
        "lake.s.t": True, "lake.s.u": False
    }  # fmt: skip

    def about(name: str) -> list[str]:
        return [one.share.name for one in list_shares(lake.services(), name)]

    assert about("lake.air") == about("lake.air.u") == ["one", "s"]
    assert about(NAME) == ["s"]


def test_a_shares_tag_is_not_taken_away_by_hand() -> None:
    lake, table = written()
    shared(lake)
    with pytest.raises(NameConflict) as refused:
        remove_tag(lake.services(), table.name, TAG, dry_run=False)
    assert "meltline share drop" in refused.value.next


def test_a_clone_of_a_share_is_a_table_like_any_other() -> None:
    lake, table = written()
    shared(lake)
    clone(lake.services(), "lake.s.t", "lake.air.copy")
    copy = Table(lake, TableName.parse("lake.air.copy"))
    assert live(copy) == live(table)
    assert not [key for key in copy.document["properties"] if key.startswith("meltline.share")]
    assert not list_shares(lake.services())[0].tables[0].written
