"""Tags: what they keep and for how long, and points of a table's history."""

from datetime import timedelta

import pytest

from meltline.app.refs.tags import Tag, add_tag, list_tags, remove_tag
from meltline.app.services import ReadContext
from meltline.app.storage.explain import explain_table
from meltline.domain.errors import (
    CatalogReadOnly,
    NameConflict,
    ObjectDropped,
    OutsideRetention,
    RefNotFound,
    RetentionOutOfRange,
    SnapshotNotFound,
    TableNotFound,
)
from meltline.domain.iceberg.timeline import Point
from meltline.domain.retention.policy import PROFILES, AccountPolicy
from tests.lake.lake import DAY, T0, Lake, Table

HEAD = Point()


def overwritten(**more: object) -> tuple[Lake, Table]:
    """A table overwritten on the days 0 to 3; it is day 12, and the first three may go."""
    lake = Lake(**more)  # type: ignore[arg-type]
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(12)
    return lake, table


def tag(lake: Lake, table: Table, name: str, point: Point = HEAD, days: int | None = 30) -> Tag:
    return add_tag(lake.services(), table.name, name, point, days, dry_run=False)


def on(day: float) -> Point:
    return Point(at=T0 + day * DAY)


# --- how long -------------------------------------------------------------------------------------


def test_a_tag_of_seven_days_on_an_old_snapshot_lasts_seven_days_from_the_tagging() -> None:
    # F-3
    lake, table = overwritten()
    first = table.snapshots[0]
    found = tag(lake, table, "week", Point(first), days=7)
    assert found.expires_at == T0 + 19 * DAY
    assert table.refs["week"]["max-ref-age-ms"] == 19 * DAY // timedelta(milliseconds=1)
    lake.on(19).run()
    assert first in table.snapshots  # at the very end it still holds
    lake.on(19.1).run()
    assert first not in table.snapshots and "week" not in table.refs


def test_a_tag_for_ever_says_so_and_no_default_of_the_table_ends_it() -> None:
    # AR-41
    lake, table = overwritten()
    first = table.snapshots[0]
    found = tag(lake, table, "audit", Point(first), days=None)
    table.configure(**{"history.expire.max-ref-age-ms": "1"})
    assert (found.kind, found.expires_at) == ("named", None)
    assert table.refs["audit"]["max-ref-age-ms"] == 2**63 - 1
    lake.on(4000).run()
    assert table.snapshots == [first, table.head]  # AR-46: not its ancestry
    assert explain_table(lake.services(), table.name, first)[0].keep_reasons == ("named",)


def test_an_untagged_snapshot_goes_with_the_next_run() -> None:
    # AR-43
    lake, table = overwritten()
    first = table.snapshots[0]
    tag(lake, table, "audit", Point(first), days=None)
    lake.run()
    assert first in table.snapshots
    remove_tag(lake.services(), table.name, "audit", dry_run=False)
    lake.run()
    assert table.snapshots == [table.head]


def test_a_tag_that_comes_between_plan_and_commit_saves_its_snapshot() -> None:
    lake, table = overwritten()
    first = table.snapshots[0]
    services = lake.services()
    committer = services.committer

    class TagFirst:
        done = False

        def expire(self, *arguments: object) -> object:
            if not self.done:
                self.done = True
                tag(lake, table, "saved", Point(first), days=1)
            return committer.expire(*arguments)  # type: ignore[arg-type]

    lake.run(services=lake.services(committer=TagFirst()))
    assert table.snapshots == [first, table.head]


@pytest.mark.parametrize("days", [0, -1, 365_001])
def test_a_tag_that_would_be_void_at_once_or_leave_the_calendar_is_refused(days: int) -> None:
    lake, table = overwritten()
    with pytest.raises(RetentionOutOfRange):
        tag(lake, table, "t", days=days)
    assert table.refs.keys() == {"main"}


@pytest.mark.parametrize("profile", ["lite_free", "lite_paid"])
def test_a_lite_profile_has_no_tags_for_ever(profile: str) -> None:
    # ML-24
    lake, table = overwritten(account=AccountPolicy(PROFILES[profile]))
    with pytest.raises(RetentionOutOfRange, match="for ever"):
        tag(lake, table, "t", days=None)
    assert tag(lake, table, "t", days=5).kind == "tag"


# --- which snapshot -------------------------------------------------------------------------------


def test_without_a_point_the_head_is_tagged() -> None:
    lake, table = overwritten()
    assert tag(lake, table, "now").snapshot_id == table.head


@pytest.mark.parametrize(
    ("day", "position"), [(0, 0), (0.9, 0), (1, 1), (2.5, 2), (3, 3), (11, 3), (12, 3)]
)
def test_a_time_means_what_was_current_then_and_a_change_at_that_time_counts(
    day: float, position: int
) -> None:
    lake, table = overwritten()
    assert tag(lake, table, "then", on(day)).snapshot_id == table.snapshots[position]


@pytest.mark.parametrize("day", [-0.001, 12.001, 400])
def test_a_time_outside_the_history_names_the_window_and_takes_no_neighbour(day: float) -> None:
    lake, table = overwritten()
    with pytest.raises(OutsideRetention) as refused:
        tag(lake, table, "then", on(day))
    assert refused.value.expected == "from 2026-01-01T00:00:00Z to 2026-01-13T00:00:00Z"
    assert table.refs.keys() == {"main"}


def test_after_a_run_the_window_begins_where_the_history_does() -> None:
    lake, table = overwritten()
    lake.run()
    with pytest.raises(OutsideRetention, match="cannot be read at 2026-01-02"):
        tag(lake, table, "then", on(1))
    assert tag(lake, table, "then", on(3)).snapshot_id == table.head


def test_a_time_in_a_rolled_back_stretch_means_what_was_current_then() -> None:
    lake, table = overwritten()
    first, third = table.snapshots[0], table.snapshots[3]
    table.rollback(first)
    lake.on(14)
    assert tag(lake, table, "before", on(11)).snapshot_id == third
    assert tag(lake, table, "after", on(13)).snapshot_id == first


def test_a_gap_that_another_tool_left_in_the_history_is_no_answer() -> None:
    lake, table = overwritten()
    second, third = table.snapshots[1:3]

    def forget_the_second(document: dict[str, list[dict[str, int]]]) -> None:
        for key in ("snapshots", "snapshot-log"):
            document[key] = [e for e in document[key] if e["snapshot-id"] != second]

    table.edit(forget_the_second)
    for day in (0.5, 1.5):  # the first, or the one that is gone: nobody can tell any more
        with pytest.raises(OutsideRetention):
            tag(lake, table, "then", on(day))
    assert tag(lake, table, "then", on(2)).snapshot_id == third


def test_an_unknown_or_expired_snapshot_cannot_be_tagged() -> None:
    # AR-44
    lake, table = overwritten()
    first = table.snapshots[0]
    lake.run()
    for gone in (first, 5):
        with pytest.raises(SnapshotNotFound) as refused:
            tag(lake, table, "t", Point(gone))
        assert str(table.head) in refused.value.expected


def test_an_empty_table_has_nothing_to_tag() -> None:
    lake = Lake()
    with pytest.raises(SnapshotNotFound, match="no snapshot yet"):
        tag(lake, lake.table("t"), "t")


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "  ", "main", "taken", "42", "-7", "hold__x", "share__x", "a\nb", "n" * 256]
)
def test_a_name_that_is_taken_reserved_or_unreadable_is_refused(name: str) -> None:
    lake, table = overwritten()
    tag(lake, table, "taken")
    with pytest.raises(NameConflict):
        tag(lake, table, name)
    assert table.refs.keys() == {"main", "taken"}


@pytest.mark.parametrize("name", ["it's", "a b", "a.b", "Ж", "v1.2-rc", "`quoted`"])
def test_an_odd_name_works(name: str) -> None:
    lake, table = overwritten()
    tag(lake, table, name)
    assert [found.name for found in list_tags(lake.services(), table.name)] == [name]
    remove_tag(lake.services(), table.name, name, dry_run=False)
    assert table.refs.keys() == {"main"}


def test_only_a_tag_of_somebodys_can_be_untagged() -> None:
    lake, table = overwritten()
    table.branch("b", table.head)
    table.tag("hold__1", table.head)
    ledgers = lake.services()
    for name, error in (("never", RefNotFound), ("b", RefNotFound), ("hold__1", NameConflict)):
        with pytest.raises(error):
            remove_tag(ledgers, table.name, name, dry_run=False)
    assert table.refs.keys() == {"main", "b", "hold__1"}


# --- listing, dry runs, who -----------------------------------------------------------------------


def test_tags_are_listed_with_their_kind_and_end() -> None:
    lake, table = overwritten()
    table.tag("by hand", table.head)
    table.tag("aged", table.head, **{"max-ref-age-ms": 1000})
    table.tag("share__s", table.head)
    table.branch("b", table.head)
    tag(lake, table, "ever", days=None)
    found = list_tags(lake.services(), table.name)
    committed = T0 + 3 * DAY
    assert [(t.name, t.kind, t.expires_at) for t in found] == [
        ("aged", "tag", committed + timedelta(seconds=1)),
        ("by hand", "tag", None),
        ("ever", "named", None),
        ("share__s", "share", None),
    ]
    table.configure(**{"history.expire.max-ref-age-ms": "2000"})
    ends = {t.name: t.expires_at for t in list_tags(lake.services(), table.name)}
    assert ends["by hand"] == committed + timedelta(seconds=2)
    assert ends["share__s"] is None  # nobody's default ends a share


def test_a_dry_run_answers_the_same_and_changes_nothing() -> None:
    lake, table = overwritten()
    before = table.metadata_location, lake.paths(), list(lake.control.audit.entries())
    would = add_tag(lake.services(), table.name, "t", HEAD, 7, dry_run=True)
    assert (table.metadata_location, lake.paths(), list(lake.control.audit.entries())) == before
    assert tag(lake, table, "t", days=7) == would
    remove_tag(lake.services(), table.name, "t", dry_run=True)
    assert "t" in table.refs


def test_who_tagged_and_untagged_what_is_recorded() -> None:
    lake, table = overwritten()
    tag(lake, table, "t", days=7)
    remove_tag(lake.services(), table.name, "t", dry_run=False)
    done = [(e.action, e.who, e.object) for e in lake.control.audit.entries(str(table.name))]
    assert done == [("tag", "tester", "lake.air.t"), ("untag", "tester", "lake.air.t")]


def test_what_may_not_be_changed_is_not_tagged() -> None:
    lake = Lake(other_catalogs=("partner",))
    ledgers: ReadContext = lake.services()
    partner, dropped = lake.table("partner.n.t"), lake.table("lake.meltline_dropped.t")
    for table, error in ((partner, CatalogReadOnly), (dropped, ObjectDropped)):
        table.append("f")
        with pytest.raises(error):
            add_tag(ledgers, table.name, "t", HEAD, 7, dry_run=False)
        assert table.refs.keys() == {"main"}
    with pytest.raises(TableNotFound):
        add_tag(ledgers, partner.name.__class__("lake", ("air",), "no"), "t", HEAD, 7,
                dry_run=False)  # fmt: skip
