"""Policies: each profile's limits, what inherits from where, and that odd settings keep files."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from meltline.domain.retention.policy import (
    DROP_AFTER,
    ENABLED,
    FAILSAFE,
    MAX_LATENESS,
    MIN_RETENTION,
    PROFILES,
    RETENTION,
    TRANSIENT,
    WRITER_KEEP,
    AccountPolicy,
    Profile,
    Remembered,
    Retention,
    effective_retention,
    is_enabled,
)

GRACE = timedelta(hours=6)


def days(count: int) -> timedelta:
    return timedelta(hours=24 * count)


def table(**properties: str) -> tuple[str, dict[str, str]]:
    """The table's own level: `table(retention="3", transient="true")`."""
    return level("lake.air.t", **properties)


def level(name: str, **properties: str) -> tuple[str, dict[str, str]]:
    keys = {"retention": RETENTION, "failsafe": FAILSAFE, "transient": TRANSIENT}
    return name, {keys[key]: value for key, value in properties.items()}


def account(profile: str = "business", **settings: object) -> AccountPolicy:
    return AccountPolicy(PROFILES[profile], **settings)  # type: ignore[arg-type]


def retention(*levels: tuple[str, Mapping[str, str]], **settings: object) -> Retention:
    return effective_retention(account(**settings), levels)  # type: ignore[arg-type]


# --- profiles -------------------------------------------------------------------------------------

# name: default, min, max, failsafe; transient: default, max, failsafe. ML-27, ML-28, ML-33, TT-6,
# TT-7, C-3 to C-5; `lakehouse` as the configuration's description has it.
LIMITS: dict[str, tuple[int | None, ...]] = {
    "business": (7, 0, 90, 7, 1, 90, 1),
    "lite_paid": (1, 1, 1, 7, 1, 1, 1),
    "lite_free": (0, 0, 0, 7, 0, 0, 1),
    "snowflake_standard": (1, 0, 1, 7, 1, 1, 0),
    "snowflake_enterprise": (1, 0, 90, 7, 1, 1, 0),
    "ducklake_managed": (None, 0, None, 7, None, None, 7),
    "ducklake_byob": (None, 0, None, 7, None, None, 7),
    "lakehouse": (7, 0, None, 7, 7, None, 1),
}


def test_these_are_the_profiles_and_no_others() -> None:
    # C-18
    assert PROFILES.keys() == LIMITS.keys()


@pytest.mark.parametrize("name", [name for name in LIMITS if name != "lakehouse"])
def test_a_profile_has_the_limits_of_the_product_it_is_named_after(name: str) -> None:
    default, low, high, failsafe, transient, transient_high, transient_failsafe = LIMITS[name]
    assert PROFILES[name] == Profile(  # type: ignore[arg-type]
        name, default, low, high, failsafe, transient, transient_high, transient_failsafe
    )


def test_lakehouse_has_seven_days_no_maximum_and_one_day_for_transient_tables() -> None:
    lakehouse = PROFILES["lakehouse"]
    assert (lakehouse.default_days, lakehouse.min_days, lakehouse.max_days) == (7, 0, None)
    assert (lakehouse.failsafe_days, lakehouse.transient_failsafe_days) == (7, 1)


@pytest.mark.parametrize("name", list(LIMITS))
def test_a_table_that_says_nothing_gets_its_profile(name: str) -> None:
    # TT-5
    found = retention(table(), profile=name)
    default, _, _, failsafe = LIMITS[name][:4]
    assert found.window == (None if default is None else days(default))
    assert found.failsafe == days(failsafe or 0)
    assert (found.source, found.warnings) == ("profile", ())


@pytest.mark.parametrize("name", list(LIMITS))
def test_a_transient_table_gets_its_profile_and_never_less_than_the_grace(name: str) -> None:
    found = retention(table(transient="true"), profile=name)
    transient, _, failsafe = LIMITS[name][4:]
    assert found.window == (None if transient is None else days(transient))
    assert found.failsafe == (days(failsafe) if failsafe else GRACE)


@pytest.mark.parametrize("name", list(LIMITS))
def test_both_ends_of_a_range_are_inside_it(name: str) -> None:
    low, high = LIMITS[name][1:3]
    for allowed in {low, 1000 if high is None else high}:
        found = retention(table(retention=str(allowed)), profile=name)
        assert allowed is not None
        assert found.window == days(allowed)
        assert found.source == "lake.air.t"


@pytest.mark.parametrize("name", [name for name, limits in LIMITS.items() if limits[2] is not None])
def test_one_day_over_a_range_is_cut_to_it_and_said(name: str) -> None:
    high = LIMITS[name][2]
    assert high is not None
    found = retention(table(retention=str(high + 1)), profile=name)
    assert found.window == days(high)
    (warning,) = found.warnings
    assert "lake.air.t" in warning
    assert str(high + 1) in warning
    assert name in warning


def test_one_day_under_a_range_is_lifted_into_it_and_said() -> None:
    found = retention(table(retention="0"), profile="lite_paid")
    assert found.window == days(1)
    assert "lake.air.t" in found.warnings[0]


# --- who decides ----------------------------------------------------------------------------------


def test_the_nearest_setting_wins_whether_longer_or_shorter() -> None:
    # AR-26
    inner, outer = level("lake.a.b", retention="5"), level("lake.a", retention="30")
    assert retention(table(retention="2"), inner, outer).window == days(2)
    assert retention(table(), inner, outer).window == days(5)
    assert retention(table(), level("lake.a.b"), outer).window == days(30)
    assert retention(table(), inner, outer).source == "lake.a.b"


def test_the_account_decides_where_no_object_does_and_the_profile_where_nobody_does() -> None:
    found = retention(table(), retention_days=20)
    assert (found.window, found.source) == (days(20), "account")
    assert retention(table(retention="0"), retention_days=20).window == days(0)


def test_an_account_of_zero_does_not_switch_off_what_a_table_asks_for() -> None:
    assert retention(table(retention="5"), retention_days=0).window == days(5)  # TT-11


def test_the_account_minimum_lifts_any_number_and_leaves_the_longer_ones() -> None:
    assert retention(table(retention="0"), min_retention_days=3).window == days(3)  # TT-17
    assert retention(table(retention="9"), min_retention_days=3).window == days(9)
    assert retention(table(transient="true"), min_retention_days=3).window == days(3)  # C-17
    found = retention(table(), profile="ducklake_byob", min_retention_days=3)
    assert found.window is None


def test_infinite_is_not_the_same_as_nothing_said() -> None:
    # ML-33
    assert retention(table(retention="infinite"), profile="lakehouse").window is None
    assert retention(table(), profile="lakehouse").window == days(7)
    assert retention(table(retention="7"), profile="ducklake_managed").window == days(7)
    assert retention(table(), profile="lakehouse", retention_days="infinite").window is None


def test_infinite_of_a_namespace_yields_to_a_number_nearer_by() -> None:
    outer = level("lake.air", retention="Infinite ")
    assert retention(table(retention="3"), outer, profile="lakehouse").window == days(3)
    assert retention(table(), outer, profile="lakehouse").window is None


# --- transient and failsafe -----------------------------------------------------------------------


def test_a_transient_namespace_makes_transient_tables_and_a_table_may_say_no() -> None:
    outer = level("lake.air", transient="TRUE")
    assert retention(table(), outer).failsafe == days(1)
    assert retention(table(transient="false"), outer).failsafe == days(7)


@pytest.mark.parametrize("word", ["yes", "1", "maybe", ""])
def test_an_odd_word_for_transient_keeps_the_longer_failsafe(word: str) -> None:
    assert retention(table(transient=word)).failsafe == days(7)


def test_a_transient_table_with_retention_zero_still_has_its_day_of_failsafe() -> None:
    found = retention(table(transient="true", retention="0"))  # ML-30
    assert (found.window, found.failsafe) == (days(0), days(1))


def test_a_table_with_retention_zero_still_has_its_failsafe() -> None:
    assert retention(table(retention="0")).failsafe == days(7)  # ML-14


def test_failsafe_comes_from_the_nearest_object_then_the_account_then_the_profile() -> None:
    outer = level("lake.air", failsafe="20")
    assert retention(table(failsafe="30"), outer).failsafe == days(30)
    assert retention(table(), outer, failsafe_days=9).failsafe == days(20)
    assert retention(table(), failsafe_days=9).failsafe == days(9)
    assert retention(table(transient="true"), failsafe_days=9).failsafe == days(1)
    found = retention(table(transient="true"), transient_failsafe_days=2)
    assert found.failsafe == days(2)


def test_where_failsafe_is_zero_readers_still_get_their_grace() -> None:
    found = retention(table(), failsafe_days=0, reader_grace=timedelta(hours=2))
    assert found.failsafe == timedelta(hours=2)
    assert retention(table(), failsafe_days=0).failsafe == GRACE


@pytest.mark.parametrize("word", ["", "soon", "-1", "1.5", "7d", "infinite"])
def test_an_odd_failsafe_keeps_the_longer_one_and_is_said(word: str) -> None:
    found = retention(table(failsafe=word), failsafe_days=2)
    assert found.failsafe == days(7)
    assert "lake.air.t" in found.warnings[0]


def test_a_transient_table_cannot_talk_itself_out_of_its_day_of_failsafe() -> None:
    found = retention(table(transient="true", failsafe="0"))
    assert found.failsafe == days(1)
    assert found.warnings


def test_a_grace_for_readers_that_is_longer_than_failsafe_is_honoured() -> None:
    found = retention(table(transient="true"), reader_grace=timedelta(hours=72))
    assert found.failsafe == timedelta(hours=72)


# --- odd settings ---------------------------------------------------------------------------------


def test_an_out_of_range_number_never_gives_less_than_default_or_what_stands_around_it() -> None:
    found = retention(table(retention="1000"), level("lake.air", retention="30"))
    assert found.window == days(90)
    found = retention(table(retention="-5"), level("lake.air", retention="30"))
    assert found.window == days(30)
    assert retention(table(retention="-5")).window == days(7)


def test_an_odd_word_where_the_default_is_infinite_keeps_everything() -> None:
    found = retention(table(retention="soon"), profile="ducklake_managed")
    assert found.window is None
    assert "soon" in found.warnings[0]


def test_infinite_where_the_profile_has_a_maximum_gives_the_maximum() -> None:
    found = retention(table(retention="infinite"))
    assert found.window == days(90)
    assert found.warnings


def test_an_infinite_namespace_counts_among_the_longest() -> None:
    outer = level("lake.air", retention="infinite")
    assert retention(table(retention="soon"), outer, profile="lakehouse").window is None


@pytest.mark.parametrize("word", ["365d", "365 days", "1_000", "36.5", "forever"])
def test_a_retention_that_cannot_be_read_keeps_as_long_as_the_profile_allows(word: str) -> None:
    assert retention(table(retention=word)).window == days(90)
    assert retention(table(retention=word), profile="lakehouse").window is None


@pytest.mark.parametrize("key", ["retention", "failsafe"])
def test_a_number_beyond_the_calendar_keeps_and_does_not_crash(key: str) -> None:
    found = retention(table(**{key: "9" * 12}), profile="lakehouse")
    usual = retention(table(), profile="lakehouse")
    assert found.window is None or (key == "failsafe" and found.window == usual.window)
    assert found.failsafe > usual.failsafe or (
        key == "retention" and found.failsafe == usual.failsafe
    )


def test_a_retention_of_more_days_than_the_calendar_has_is_for_ever() -> None:
    assert retention(table(retention="999999"), profile="lakehouse").window is None


def test_an_asked_for_retention_of_zero_is_allowed_with_a_warning() -> None:
    # ML-26
    found = retention(table(retention="0"))
    assert found.window == days(0)
    assert found.warnings


# --- opting out -----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["false", "FALSE", "no", "0", "", "tru", "yes", "on"])
def test_anything_but_true_opts_a_table_out(word: str) -> None:
    # ML-34
    assert not is_enabled([("lake.air.t", {ENABLED: word})])


@pytest.mark.parametrize("levels", [[], [("t", {})], [("t", {ENABLED: " True "}), ("n", {})]])
def test_a_table_that_says_nothing_or_true_is_managed(
    levels: list[tuple[str, dict[str, str]]],
) -> None:
    assert is_enabled(levels)


def test_a_namespace_that_opts_out_takes_its_tables_along() -> None:
    assert not is_enabled([("lake.air.t", {ENABLED: "true"}), ("lake.air", {ENABLED: "false"})])


# --- the account's own properties -----------------------------------------------------------------


def test_the_accounts_property_wins_over_the_file_and_every_object_over_both() -> None:
    of_account = level("account", retention="20", failsafe="9")
    found = retention(table(), of_account, retention_days=3, failsafe_days=4)
    assert (found.window, found.source, found.failsafe, found.failsafe_source) == (
        days(20), "account", days(9), "account",
    )  # fmt: skip
    assert retention(table(retention="5"), of_account, retention_days=3).window == days(5)


def test_a_least_retention_of_the_account_lifts_what_is_shorter_and_names_itself() -> None:
    least = ("account", {MIN_RETENTION: "5"})
    found = retention(table(retention="0"), least)  # TT-17
    assert (found.window, found.source, found.min_days) == (days(5), "account", 5)
    assert retention(table(retention="30"), least).window == days(30)
    assert retention(table(retention="2"), least, min_retention_days=9).window == days(5)


@pytest.mark.parametrize("word", ["-1", "soon", "infinite", ""])
def test_an_odd_least_retention_falls_back_on_the_longer_one_known_and_is_said(word: str) -> None:
    odd = ("account", {MIN_RETENTION: word})
    found = retention(table(retention="0"), odd, min_retention_days=3)
    assert found.window == days(3) and MIN_RETENTION in found.warnings[0]
    known = Remembered({"account": {MIN_RETENTION: "6"}})
    found = effective_retention(account(min_retention_days=3), [table(retention="0"), odd], known)
    assert found.window == days(6)


def test_a_least_retention_on_a_table_is_nobodys_word() -> None:
    found = retention(("lake.air.t", {MIN_RETENTION: "50", RETENTION: "1"}), ("account", {}))
    assert found.window == days(1)


# --- silent writers -------------------------------------------------------------------------------


def test_a_silent_writers_mark_counts_for_thirty_days_unless_somebody_says_otherwise() -> None:
    found = retention(table())
    assert (found.writer_keep, found.writer_source) == (days(30), "profile")
    assert retention(table(), writer_keep=days(3)).writer_keep == days(3)
    assert retention(table(), writer_keep=days(3)).writer_source == "account"
    near, far = ("lake.air.t", {WRITER_KEEP: "48h"}), ("lake.air", {WRITER_KEEP: "90d"})
    assert retention(near, far, writer_keep=days(3)).writer_keep == days(2)
    assert retention(table(), far, writer_keep=days(3)).writer_source == "lake.air"


@pytest.mark.parametrize("word", ["-1d", "soon", "infinite", "1.5d", "", "30", "365001d"])
def test_a_word_about_writers_that_is_no_duration_gives_the_longest_known(word: str) -> None:
    odd = ("lake.air.t", {WRITER_KEEP: word})
    found = retention(odd, writer_keep=days(3))
    assert found.writer_keep == days(30) and WRITER_KEEP in found.warnings[0]
    known = Remembered({"lake.air.t": {WRITER_KEEP: "80d"}})
    assert effective_retention(account(), [odd], known).writer_keep == days(80)


# --- what the ledger remembers --------------------------------------------------------------------


def remembering(
    *levels: tuple[str, Mapping[str, str]], born: bool | None = None, **values: str
) -> Retention:
    keys = {"retention": RETENTION, "failsafe": FAILSAFE}
    known = Remembered({levels[0][0]: {keys[k]: v for k, v in values.items()}}, born)
    return effective_retention(account(), levels, known)


@pytest.mark.parametrize(
    ("old", "new", "applied"), [("60", "-1", 60), ("3", "-1", 7), ("60", "999", 90)]
)
def test_a_value_out_of_range_gives_the_longest_of_old_new_and_default(
    old: str, new: str, applied: int
) -> None:
    found = remembering(table(retention=new), retention=old)
    assert found.window == days(applied) and f"{applied} days applied" in found.warnings[0]


def test_an_old_value_does_not_matter_while_the_new_one_is_in_order() -> None:
    assert remembering(table(retention="2"), retention="60").window == days(2)
    assert remembering(table(), retention="60").window == days(7)


def test_an_odd_failsafe_does_not_fall_below_the_one_before() -> None:
    assert remembering(table(failsafe="soon"), failsafe="40").failsafe == days(40)
    assert remembering(table(failsafe="soon"), failsafe="2").failsafe == days(7)


@pytest.mark.parametrize("now", ["true", "false"])
def test_transient_changed_later_gives_the_longer_of_both_policies_and_is_said(now: str) -> None:
    found = remembering(table(transient=now), born=now != "true")
    assert (found.window, found.failsafe) == (days(7), days(7))
    assert "cannot change" in found.warnings[0]
    assert found.transient is (now == "true")


def test_transient_that_lies_on_a_namespace_cannot_change_later_either() -> None:
    found = remembering(table(), level("lake.air", transient="true"), born=False)
    assert found.failsafe == days(7) and "lake.air: " in found.warnings[0]


def test_transient_from_the_start_is_in_order() -> None:
    found = remembering(table(transient="true"), born=True)
    assert (found.window, found.failsafe, found.warnings) == (days(1), days(1), ())


# --- rows that come late --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "late", "said"), [("7d", "7d", 1), ("7d", "8d", 1), ("8d", "7d", 0)]
)
def test_dropping_before_the_latest_rows_can_have_come_is_said(
    after: str, late: str, said: int
) -> None:
    # LT-31
    found = retention(("lake.air.t", {DROP_AFTER: after}), ("lake.air", {MAX_LATENESS: late}))
    assert len(found.warnings) == said
    assert not retention(("lake.air.t", {DROP_AFTER: after})).warnings


def test_what_a_table_says_of_late_rows_wins_over_its_namespace() -> None:
    outer = ("lake.air", {MAX_LATENESS: "6d"})
    (warning,) = retention(("lake.air.t", {DROP_AFTER: "5d"}), outer).warnings
    assert warning.startswith("lake.air.t: meltline.drop-after is not longer")
    nearer = ("lake.air.t", {DROP_AFTER: "5d", MAX_LATENESS: "4d"})
    assert retention(nearer, outer).warnings == ()
