"""Another profile in `meltline.yaml`: what it comes to with the next run, and what it never is."""

import pytest

from meltline.app.doctor.doctor import examine
from meltline.domain.retention.policy import PROFILES, RETENTION, AccountPolicy
from tests.lake.lake import Lake
from tests.unit.clone.test_clones import copied, daily
from tests.unit.retention.test_policies import change, overwritten, shown


def profile(name: str) -> AccountPolicy:
    return AccountPolicy(PROFILES[name])


def test_a_free_plan_that_becomes_a_paid_one_keeps_a_day_from_then_on_and_brings_nothing_back() -> (
    None
):
    # ML-31
    lake, table = overwritten(lake=Lake(account=profile("lite_free")))
    lake.run()
    assert len(table.snapshots) == 1
    gone = set(lake.waiting())
    lake.account = profile("lite_paid")
    assert shown(lake, "lake.air.t")[RETENTION] == (None, 1, "profile")
    lake.on(10)
    table.overwrite("later")
    lake.on(10.5).run()
    assert len(table.snapshots) == 2 and gone <= set(lake.waiting())
    lake.on(12).run()
    assert len(table.snapshots) == 1


def test_a_value_above_a_smaller_profile_is_cut_to_it_and_doctor_says_so() -> None:
    lake, _ = overwritten()
    change(lake, "lake.air.t", retention=30)
    lake.account = profile("lite_paid")
    assert shown(lake, "lake.air.t")[RETENTION] == ("30", 1, "lake.air.t")
    found = [f.message for f in examine(lake.services()) if f.code == "policy_out_of_range"]
    assert any("30 is outside 1 to 1 of profile lite_paid" in message for message in found)


@pytest.mark.parametrize(("name", "told"), [("business", False), ("ducklake_managed", True)])
def test_files_that_are_shared_where_there_are_no_clones_are_named(name: str, told: bool) -> None:
    # ML-32
    lake, _ = daily()
    copied(lake)
    lake.account = profile(name)
    found = [f.object for f in examine(lake.services()) if f.code == "shared_without_clones"]
    assert found == (["lake.air.copy", "lake.air.t"] if told else [])


def test_what_was_risky_about_a_policy_is_in_the_history_of_decisions() -> None:
    # ML-26
    lake, _ = overwritten()
    change(lake, "lake.air.t", retention=0)
    entry = lake.control.audit.entries()[-1]
    assert entry.detail == (
        f"{RETENTION}: inherited -> 0; warned: lake.air.t: {RETENTION}=0, what is overwritten "
        "cannot be read again"
    )
