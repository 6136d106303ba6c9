"""Days as people write them: what is stored, what is refused, and what is said to be risky."""

import pytest

from meltline.app.retention.policies import change_policy
from meltline.domain.errors import RetentionOutOfRange
from meltline.domain.retention.policy import (
    COLD_RETENTION,
    FAILSAFE,
    MIN_RETENTION,
    PROFILES,
    RETENTION,
    AccountPolicy,
    parse_days,
)
from tests.lake.lake import Lake
from tests.unit.retention.test_policies import ACCOUNT, change, named, overwritten, shown
from tests.unit.retention.test_policy import days, retention, table

ARABIC_THREE = "\u0663"


@pytest.mark.parametrize("key", [RETENTION, FAILSAFE, COLD_RETENTION])
def test_zeros_before_a_number_of_days_are_not_stored(key: str) -> None:
    lake, written = overwritten()
    done = change_policy(lake.services(), named(lake, "lake.air.t"), {key: "007"}, dry_run=False)
    assert done.after == {key: "7"} and written.document["properties"] == {key: "7"}
    assert written.uuid in lake.control.policies.all()
    assert lake.control.policies.all()[written.uuid][key] == "7"
    assert lake.control.audit.entries()[-1].detail == f"{key}: inherited -> 7"


@pytest.mark.parametrize("text", [ARABIC_THREE, "1_0", "+3", "3.0", "", "--3"])
def test_only_the_digits_0_to_9_are_a_number_of_days(text: str) -> None:
    assert parse_days(text) is None
    lake, written = overwritten()
    with pytest.raises(RetentionOutOfRange):
        change_policy(lake.services(), named(lake, "lake.air.t"), {RETENTION: text}, dry_run=False)
    assert written.document["properties"] == {}


def test_what_an_engine_has_set_in_other_digits_never_shortens_anything() -> None:
    found = retention(table(retention=ARABIC_THREE))
    assert found.window == days(90) and RETENTION in found.warnings[0]


@pytest.mark.parametrize(
    ("profile", "most"),
    [("business", 90), ("snowflake_standard", 1), ("snowflake_enterprise", 90), ("lite_free", 0)],
)
def test_the_least_retention_of_an_account_may_not_exceed_what_its_profile_allows(
    profile: str, most: int
) -> None:
    # TT-16
    lake = Lake(account=AccountPolicy(PROFILES[profile]))
    lake.table("t").append("f")
    with pytest.raises(RetentionOutOfRange) as refused:
        change(lake, "account", least=most + 1)
    assert refused.value.expected == f"0 to {most} days (profile {profile})"
    change(lake, "account", least=most)
    assert shown(lake, "lake.air.t")[RETENTION][1] == most or most == 0


def test_a_least_retention_above_the_profile_that_is_there_already_lifts_only_up_to_it() -> None:
    for found in (
        retention(table(), ("account", {MIN_RETENTION: "5"}), profile="snowflake_standard"),
        retention(table(), profile="snowflake_standard", min_retention_days=5),
    ):
        assert (found.window, found.min_days) == (days(1), 1)
        assert found.warnings == (
            f"account: {MIN_RETENTION}=5 is outside 0 to 1 of profile snowflake_standard; "
            "1 days applied",
        )
    assert retention(table(), min_retention_days=91).window == days(90)
    assert retention(table(), profile="lakehouse", min_retention_days=400).window == days(400)


@pytest.mark.parametrize("name", ["lake.air.t", "lake.air", "account"])
def test_no_failsafe_at_all_is_allowed_with_a_warning(name: str) -> None:
    # ML-13, ML-14
    lake, _ = overwritten()
    (warning,) = change(lake, name, failsafe=0).warnings
    assert warning == f"{name}: {FAILSAFE}=0, files wait for the reader grace of 6h alone"
    assert change(lake, name, failsafe=1).warnings == ()


def test_no_failsafe_in_the_configuration_is_said_and_a_profiles_own_is_not() -> None:
    assert "reader grace" in retention(table(), failsafe_days=0).warnings[0]
    assert retention(table(transient="true"), profile="snowflake_standard").warnings == ()
    assert ACCOUNT.catalog == "lake"
