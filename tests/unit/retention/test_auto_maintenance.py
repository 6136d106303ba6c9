"""AUTO_MAINTENANCE: a product that manages nothing until somebody says so (ML-34)."""

import pytest

from meltline.app.retention.policies import change_policy, show_policies
from meltline.domain.errors import AutoMaintenanceDisabled
from meltline.domain.retention.policy import ENABLED, PROFILES, RETENTION, AccountPolicy
from tests.lake.lake import Lake, Table
from tests.unit.retention.test_policies import named, overwritten


def of_profile(profile: str, *, retention: str | None = None) -> tuple[Lake, Table]:
    """A table overwritten on each of four days, of which the older states may go."""
    lake, table = overwritten(lake=Lake(account=AccountPolicy(PROFILES[profile])))
    if retention is not None:
        table.configure(**{RETENTION: retention})
    return lake.on(40), table


def set_policy(lake: Lake, name: str, key: str, setting: str | None) -> None:
    change_policy(lake.services(), named(lake, name), {key: setting}, dry_run=False)


def enabled(lake: Lake, name: str) -> object:
    lines = show_policies(lake.services(), named(lake, name))
    return next(line.effective for line in lines if line.key == ENABLED)


def test_a_lake_of_ones_own_buckets_is_left_alone_until_somebody_enables_it() -> None:
    lake, table = of_profile("ducklake_byob", retention="1")
    lake.run()
    assert len(table.snapshots) == 4 and enabled(lake, "lake.air.t") is False
    set_policy(lake, "lake.air", ENABLED, "true")
    lake.run()
    assert len(table.snapshots) == 1 and enabled(lake, "lake.air.t") is True


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "ducklake_byob"])
def test_every_other_profile_manages_what_nobody_has_opted_out(profile: str) -> None:
    lake, _ = of_profile(profile)
    assert enabled(lake, "lake.air.t") is True


def test_a_retention_is_set_only_where_maintenance_is_enabled() -> None:
    lake, table = of_profile("ducklake_byob")
    with pytest.raises(AutoMaintenanceDisabled) as refused:
        set_policy(lake, "lake.air", RETENTION, "7")
    assert "SET AUTO_MAINTENANCE = TRUE" in refused.value.next
    set_policy(lake, "lake.air", ENABLED, "true")
    set_policy(lake, "lake.air", RETENTION, "7")
    set_policy(lake, "lake.air", RETENTION, None)
    assert table.document["properties"] == {}


def test_what_was_enabled_can_be_disabled_again_and_a_part_of_it_too() -> None:
    lake, table = of_profile("business")
    set_policy(lake, "lake.air.t", ENABLED, "false")
    lake.run()
    assert len(table.snapshots) == 4
    set_policy(lake, "lake.air.t", ENABLED, None)
    lake.run()
    assert len(table.snapshots) == 1
