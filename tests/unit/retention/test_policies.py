"""Policies set, unset and shown: what is refused, what is inherited, what would come of it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from meltline.app.catalog.resolve import find_object
from meltline.app.doctor.doctor import examine
from meltline.app.purge.approvals import approve
from meltline.app.refs.tags import add_tag
from meltline.app.retention.holds import add_hold
from meltline.app.retention.policies import PolicyChange, TableEffect, change_policy, show_policies
from meltline.app.safety.audit import decisions
from meltline.domain.deletion.plan import Plan, PlanKind
from meltline.domain.errors import (
    CatalogReadOnly,
    CommitConflict,
    NamespaceNotFound,
    ObjectDropped,
    RetentionOutOfRange,
    TableNotFound,
    TransientImmutable,
    UsageInvalid,
)
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.iceberg.timeline import Point
from meltline.domain.retention.policy import (
    FAILSAFE,
    MIN_RETENTION,
    PROFILES,
    RETENTION,
    TRANSIENT,
    WRITER_KEEP,
    AccountPolicy,
)
from tests.lake.lake import Lake, Table

ACCOUNT = ObjectName("lake")


def overwritten(name: str = "t", lake: Lake | None = None) -> tuple[Lake, Table]:
    """A table overwritten on the days 0 to 3; it is day 9, and the first one may go."""
    lake = lake or Lake()
    table = lake.on(0).table(name)
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(9)
    return lake, table


def named(lake: Lake, text: str) -> ObjectName:
    return ACCOUNT if text == "account" else find_object(lake.services(), text)


def change(lake: Lake, text: str, *, dry_run: bool = False, **values: object) -> PolicyChange:
    """`change(lake, "lake.air", retention=9, failsafe=None)`."""
    keys = {"retention": RETENTION, "failsafe": FAILSAFE, "least": MIN_RETENTION,
            "transient": TRANSIENT}  # fmt: skip
    wanted = {keys[k]: None if v is None else str(v).lower() for k, v in values.items()}
    return change_policy(lake.services(), named(lake, text), wanted, dry_run=dry_run)


def shown(lake: Lake, text: str) -> Mapping[str, tuple[str | None, object, str]]:
    """Per property: the object's own word, what it comes to, who says so."""
    lines = show_policies(lake.services(), named(lake, text))
    return {line.key: (line.raw, line.effective, line.source) for line in lines}


def applied(lake: Lake, text: str) -> object:
    return show_policies(lake.services(), named(lake, text))[0].applied


# --- inheritance ----------------------------------------------------------------------------------


def test_the_nearest_word_wins_and_unsetting_returns_to_the_next() -> None:
    # TT-13, TT-15
    lake = Lake()
    lake.table("lake.air.eu.t").append("f")
    table = "lake.air.eu.t"
    assert shown(lake, table)[RETENTION] == (None, 7, "profile")
    for name, days in (("account", 10), ("lake.air", 20), ("lake.air.eu", 30), (table, 40)):
        change(lake, name, retention=days)
        own = str(days) if name == table else None
        assert shown(lake, table)[RETENTION] == (own, days, name)
    for name, days in ((table, 30), ("lake.air.eu", 20), ("lake.air", 10)):
        change(lake, name, retention=None)
        assert shown(lake, table)[RETENTION][1] == days
    change(lake, "account", retention=None)
    assert shown(lake, table)[RETENTION] == (None, 7, "profile")


def test_a_change_reaches_what_has_no_word_of_its_own_and_nothing_else() -> None:
    lake, _ = overwritten("own")
    overwritten("heir", lake)
    change(lake, "lake.air.own", retention=50)
    change(lake, "lake.air", retention=20)  # TT-14
    assert shown(lake, "lake.air.own")[RETENTION][1] == 50
    assert shown(lake, "lake.air.heir")[RETENTION] == (None, 20, "lake.air")


def test_a_namespace_shows_what_it_passes_on() -> None:
    lake, _ = overwritten()
    change(lake, "lake.air", failsafe=12)
    assert shown(lake, "lake.air") == {
        RETENTION: (None, 7, "profile"),
        FAILSAFE: ("12", 12, "lake.air"),
        MIN_RETENTION: (None, 0, "profile"),
        TRANSIENT: (None, False, "profile"),
        WRITER_KEEP: (None, "30d", "profile"),
        "meltline.enabled": (None, True, "profile"),
        "meltline.cold": (None, "none", "profile"),
        "meltline.cold-retention-days": (None, 2557, "profile"),
        "meltline.deep": (None, False, "profile"),
        "meltline.consumer-keep": (None, "30d", "profile"),
    }


def test_the_accounts_least_retention_lifts_what_is_shorter_without_touching_it() -> None:
    lake, table = overwritten()
    change(lake, "lake.air.t", retention=0)
    change(lake, "account", least=9)
    assert shown(lake, "lake.air.t")[RETENTION] == ("0", 9, "account")
    assert table.document["properties"][RETENTION] == "0"  # TT-16
    lake.on(12).run()
    assert len(table.snapshots) == 2  # what was superseded on day 3, and the head


def test_the_properties_are_what_counts_whoever_sets_them() -> None:
    lake, table = overwritten()
    table.configure(**{RETENTION: "12"})
    assert shown(lake, "lake.air.t")[RETENTION] == ("12", 12, "lake.air.t")
    assert change(lake, "lake.air.t", retention=30).before == {RETENTION: "12"}
    assert table.document["properties"] == {RETENTION: "30"}


def test_infinite_keeps_everything_where_the_profile_allows_it() -> None:
    lake, table = overwritten(lake=Lake(account=AccountPolicy(PROFILES["lakehouse"])))
    change(lake, "lake.air.t", retention="infinite")
    assert shown(lake, "lake.air.t")[RETENTION] == ("infinite", "infinite", "lake.air.t")
    lake.on(5000).run()
    assert len(table.snapshots) == 4


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "values"),
    [
        ("business", {"retention": 91}),
        ("business", {"retention": -1}),
        ("business", {"retention": "1.5"}),
        ("business", {"retention": "infinite"}),
        ("business", {"retention": "soon"}),
        ("business", {"failsafe": -1}),
        ("business", {"failsafe": "infinite"}),
        ("business", {"failsafe": 365_001}),
        ("lite_paid", {"retention": 0}),
        ("lite_paid", {"retention": 2}),
        ("lite_free", {"retention": 1}),
        ("snowflake_standard", {"retention": 2}),
        ("lakehouse", {"retention": 365_001}),
    ],
)
def test_a_value_that_the_profile_does_not_allow_is_refused_and_nothing_is_set(
    profile: str, values: dict[str, Any]
) -> None:
    # TT-8
    lake, table = overwritten(lake=Lake(account=AccountPolicy(PROFILES[profile])))
    for name in ("lake.air.t", "lake.air", "account"):
        with pytest.raises(RetentionOutOfRange) as refused:
            change(lake, name, **values)
        assert profile in refused.value.expected
    assert table.document["properties"] == {}
    assert decisions(lake.services(), "lake.air") == []


@pytest.mark.parametrize(("days", "fine"), [(0, True), (1, True), (2, False)])
def test_a_transient_object_has_the_transient_limits(days: int, fine: bool) -> None:
    lake = Lake(account=AccountPolicy(PROFILES["snowflake_enterprise"]))
    table = lake.table("t")
    change(lake, "lake.air.t", transient=True)
    if fine:
        change(lake, "lake.air.t", retention=days)
    else:
        with pytest.raises(RetentionOutOfRange, match="cannot be 2"):
            change(lake, "lake.air.t", retention=days)
    assert (table.document["properties"].get(RETENTION) == str(days)) is fine


def test_a_transient_object_cannot_give_up_its_last_day_of_failsafe() -> None:
    lake = Lake()
    lake.table("t")
    change(lake, "lake.air.t", transient=True)
    with pytest.raises(RetentionOutOfRange):
        change(lake, "lake.air.t", failsafe=0)
    change(lake, "account", failsafe=0)


def test_only_the_account_has_a_least_retention() -> None:
    lake, _ = overwritten()
    for name in ("lake.air.t", "lake.air"):
        with pytest.raises(UsageInvalid, match="only the account"):
            change(lake, name, least=3)
    change(lake, "account", least=3)


def test_what_may_not_be_changed_has_no_policy_to_set() -> None:
    lake = Lake(other_catalogs=("partner",))
    for name in ("partner.n.t", "lake.meltline_dropped.t", "lake.meltline.entries"):
        lake.table(name)
    with pytest.raises(ObjectDropped, match="has been dropped"):  # TT-23
        change(lake, "lake.meltline_dropped.t", retention=3)
    for name in ("partner.n.t", "partner.n", "lake.meltline.entries", "lake.meltline"):
        with pytest.raises(CatalogReadOnly):
            change(lake, name, retention=3)


# --- transient ------------------------------------------------------------------------------------


def test_a_table_can_be_made_transient_until_its_first_commit() -> None:
    lake = Lake()
    table = lake.table("t")
    change(lake, "lake.air.t", transient=True)
    change(lake, "lake.air.t", transient=None)
    change(lake, "lake.air.t", transient=True)
    table.append("f")
    assert shown(lake, "lake.air.t")[TRANSIENT] == ("true", True, "lake.air.t")
    with pytest.raises(TransientImmutable):  # ML-29, either direction
        change(lake, "lake.air.t", transient=None)
    change(lake, "lake.air.t", retention=3)


def test_a_table_that_was_written_to_cannot_become_transient() -> None:
    lake, _ = overwritten()
    with pytest.raises(TransientImmutable, match="not new"):
        change(lake, "lake.air.t", transient=True)


def test_a_namespace_can_be_made_transient_until_its_first_table() -> None:
    lake = Lake()
    lake.catalogs["lake"].set_namespace_properties(("tmp",), {})
    change(lake, "lake.tmp", transient=True)
    lake.table("lake.tmp.t")
    assert shown(lake, "lake.tmp.t")[TRANSIENT] == (None, True, "lake.tmp")
    with pytest.raises(TransientImmutable, match="is not new"):
        change(lake, "lake.tmp", transient=None)


def test_transient_set_later_behind_our_back_is_reported_and_shortens_nothing() -> None:
    lake, table = overwritten()
    lake.on(4).run()
    table.configure(**{TRANSIENT: "true"})
    lake.on(9)
    assert shown(lake, "lake.air.t")[RETENTION][1] == 7
    lake.run()
    assert len(table.snapshots) == 3  # a transient table would have kept the head alone
    found = [f.message for f in examine(lake.services()) if f.code == "policy_out_of_range"]
    assert any("cannot change" in message for message in found)


def test_transient_set_later_does_not_shorten_the_wait_in_failsafe() -> None:
    lake, table = overwritten()
    lake.on(4).run()
    table.configure(**{TRANSIENT: "true"})
    lake.on(9).run()
    assert set(lake.waiting().values()) == {lake.clock.now() + timedelta(days=7)}


# --- nonsense that another engine has set ---------------------------------------------------------


def test_nonsense_from_elsewhere_gives_the_longest_of_old_new_and_default() -> None:
    lake, table = overwritten()
    change(lake, "lake.air.t", retention=60)
    table.configure(**{RETENTION: "-3"})
    assert shown(lake, "lake.air.t")[RETENTION] == ("-3", 60, "lake.air.t")
    lake.on(50).run()
    assert len(table.snapshots) == 4
    (found,) = [f for f in examine(lake.services()) if f.code == "policy_out_of_range"]
    assert found.object == "lake.air.t" and "60 days applied" in found.message


def test_a_run_remembers_what_somebody_else_has_set_in_order() -> None:
    lake, table = overwritten()
    table.configure(**{RETENTION: "60"})
    lake.run()
    table.configure(**{RETENTION: "never"})
    assert shown(lake, "lake.air.t")[RETENTION][1] == 90  # it cannot be read: the profile's most
    table.configure(**{RETENTION: "999"})
    assert shown(lake, "lake.air.t")[RETENTION][1] == 90
    table.configure(**{RETENTION: "-1"})
    assert shown(lake, "lake.air.t")[RETENTION][1] == 60


def test_a_word_that_was_unset_is_forgotten() -> None:
    lake, table = overwritten()
    change(lake, "lake.air.t", retention=60)
    change(lake, "lake.air.t", retention=None)
    table.configure(**{RETENTION: "-3"})
    assert shown(lake, "lake.air.t")[RETENTION][1] == 7


# --- what comes of it -----------------------------------------------------------------------------


def test_a_preview_counts_what_the_next_run_would_expire() -> None:
    lake, table = overwritten()
    would = change(lake, "lake.air.t", dry_run=True, retention=0)
    assert would.effect == (TableEffect(table.name, 1, 3),)
    assert would.warnings and "=0" in would.warnings[0]
    assert table.document["properties"] == {} and decisions(lake.services(), "lake.air.t") == []
    assert change(lake, "lake.air.t", retention=0).effect == would.effect
    lake.run()
    assert len(table.snapshots) == 1


def test_a_preview_of_a_container_names_the_tables_it_makes_a_difference_for() -> None:
    lake, _ = overwritten("a")
    overwritten("b", lake)
    overwritten("lake.sea.c", lake)
    change(lake, "lake.air.b", retention=20)
    found = change(lake, "lake.air", dry_run=True, retention=90).effect
    assert [(str(e.table), e.expiring_before, e.expiring_after) for e in found] == [
        ("lake.air.a", 1, 0)
    ]
    found = change(lake, "account", dry_run=True, least=30).effect
    assert [str(e.table) for e in found] == ["lake.air.a", "lake.sea.c"]


def test_a_risky_value_for_the_whole_account_is_allowed_with_a_warning() -> None:
    lake, _ = overwritten()
    assert "cannot be read again" in change(lake, "account", retention=0).warnings[0]


def test_after_a_decrease_the_longer_retention_is_shown_until_a_run_has_applied_the_new() -> None:
    lake, table = overwritten()
    change(lake, "lake.air.t", retention=10)
    lake.run()
    assert applied(lake, "lake.air.t") is None
    change(lake, "lake.air.t", retention=1)  # TT-20, TT-21, C-15
    assert applied(lake, "lake.air.t") == 10 and len(table.snapshots) == 4
    lake.run()
    assert applied(lake, "lake.air.t") is None and len(table.snapshots) == 1
    change(lake, "lake.air.t", retention=30)
    assert applied(lake, "lake.air.t") is None


def test_what_is_in_failsafe_does_not_come_back_by_a_longer_retention() -> None:
    lake, table = overwritten()
    lake.run()
    waiting = lake.waiting()
    change(lake, "lake.air.t", retention=90)  # TT-19
    lake.run()
    assert waiting and lake.waiting() == waiting and len(table.snapshots) == 3


# --- at once, and afterwards ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lake.air.t", "lake.air"])
def test_of_two_who_change_the_same_policy_the_slower_one_is_told(name: str) -> None:
    lake, table = overwritten()
    catalog = table.catalog
    listing = catalog.listing

    def change_meanwhile() -> Any:
        found = listing()
        catalog.listing = listing  # type: ignore[method-assign]
        return found

    services = lake.services()
    target = named(lake, name)
    swap, set_properties = catalog.swap, catalog.set_namespace_properties

    def others_first(*arguments: Any, **more: Any) -> Any:
        catalog.swap, catalog.set_namespace_properties = swap, set_properties  # type: ignore[method-assign]
        change(lake, name, retention=20)
        return (swap if name.endswith(".t") else set_properties)(*arguments, **more)

    catalog.swap = catalog.set_namespace_properties = others_first  # type: ignore[method-assign]
    catalog.listing = change_meanwhile  # type: ignore[method-assign]
    with pytest.raises(CommitConflict, match="has changed meanwhile"):
        change_policy(services, target, {RETENTION: "30"}, dry_run=False)
    assert shown(lake, name)[RETENTION][0] == "20"


def test_a_policy_and_somebodys_commit_do_not_lose_each_other() -> None:
    lake, table = overwritten()
    catalog = table.catalog
    swap = catalog.swap

    def commit_first(*arguments: Any) -> bool:
        catalog.swap = swap  # type: ignore[method-assign]
        table.append("late")
        return swap(*arguments)

    catalog.swap = commit_first  # type: ignore[method-assign]
    change(lake, "lake.air.t", retention=30)
    assert table.document["properties"] == {RETENTION: "30"}
    assert table.data("late") in {entry.path for entry in table.live()}


def test_setting_what_is_set_already_changes_nothing() -> None:
    lake, table = overwritten()
    change(lake, "lake.air.t", retention=30)
    before = table.metadata_location, list(lake.control.audit.entries())
    change(lake, "lake.air.t", retention=30)
    assert (table.metadata_location, list(lake.control.audit.entries())) == before


# --- names ----------------------------------------------------------------------------------------


def test_a_name_is_found_as_what_it_is() -> None:
    lake = Lake()
    for name in ("lake.air.t", "lake.air.eu.t", "lake.`it's [b]`.`t``1`", "lake.air.eu"):
        lake.table(name)
    ledgers = lake.services()
    for text, kind in (
        ("lake.air", "database"), ("lake.air.t", "table"), ("lake.air.eu.t", "table"),
        ("lake.`it's [b]`", "database"), ("lake.`it's [b]`.`t``1`", "table"),
    ):  # fmt: skip
        found = find_object(ledgers, text)
        assert (str(found), str(found.kind)) == (text, kind)
    with pytest.raises(UsageInvalid, match="a table and a namespace"):
        find_object(ledgers, "lake.air.eu")
    for kind in (ObjectKind.TABLE, ObjectKind.SCHEMA):
        assert find_object(ledgers, "lake.air.eu", kind).kind is kind


@pytest.mark.parametrize("text", ["", "lake", "lake.", "lake..t", "lake.`a", "."])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageInvalid, match=r"not a (full )?name"):
        find_object(Lake().services(), text)


def test_what_is_not_there_is_named_with_its_kind() -> None:
    lake, _ = overwritten()
    ledgers = lake.services()
    for text in ("lake.air.never", "nowhere.air.t", "lake.never"):
        with pytest.raises(TableNotFound):
            find_object(ledgers, text)
    with pytest.raises(NamespaceNotFound) as refused:
        find_object(ledgers, "lake.air.t", ObjectKind.SCHEMA)
    assert refused.value.found == "a table of that name"


# --- the history of decisions ---------------------------------------------------------------------


def test_the_history_of_an_object_holds_what_lies_in_it_and_the_plans_about_it() -> None:
    lake, table = overwritten()
    _, other = overwritten("lake.airport.t", lake)
    ledgers = lake.services()
    lake.on(13)
    change(lake, "lake.air", retention=20)
    change(lake, "lake.air.t", retention=30)
    add_tag(ledgers, other.name, "x", Point(), 5, dry_run=False)
    lake.on(14)
    add_hold(ledgers, f"lake.air.t@{table.head}", reason="audit")
    plan = Plan("p1", "r", PlanKind.PURGE, table.name, table.uuid, "d", lake.clock.now(),
                lake.clock.now(), "b")  # fmt: skip
    lake.control.plans.add([plan])
    approve(ledgers, [plan], "fine")

    def actions(of: str = "", **more: Any) -> list[str]:
        return [entry.action for entry in decisions(ledgers, of, **more)]

    assert actions("lake.air.t") == ["policy", "hold add", "approve"]
    assert actions("lake.`air`") == ["policy", "policy", "hold add", "approve"]
    assert actions("lake.airport") == ["tag"]
    assert actions("lake.air.t", since=lake.clock.now()) == ["hold add", "approve"]
    assert actions(since=lake.clock.now() + timedelta(days=1)) == []
    entry = decisions(ledgers, "lake.air.t")[0]
    assert (entry.who, entry.detail) == ("tester", f"{RETENTION}: inherited -> 30")


def test_doctor_warns_where_rows_are_dropped_before_the_latest_can_have_come() -> None:
    lake = Lake()
    late = {"meltline.max-lateness": "7d"}
    lake.on(0).table("early", properties={**late, "meltline.drop-after": "7d"}).append("f")
    lake.table("safe", properties={**late, "meltline.drop-after": "8d"}).append("g")
    (found,) = [f for f in examine(lake.services()) if f.code == "policy_out_of_range"]
    assert (found.level, found.object) == ("warning", "lake.air.early")
    assert "would find their partition gone" in found.message
