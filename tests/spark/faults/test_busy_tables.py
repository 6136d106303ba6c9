"""Real tables that are written to in every gap of a run: they expire, and lose nothing."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from meltline.domain.deletion.plan import PlanKind, PlanState
from tests.lake.gaps import Gap, with_gaps
from tests.spark.setups.warehouse import DAY, TODAY, Contents, Warehouse

pytestmark = pytest.mark.spark

TABLES = {"merges": 2, "rows": 3}
NIGHTS = 3
ACCOUNT = """
account: {profile: lakehouse, retention-days: 1, failsafe-days: 0, reader-grace: 0s}
limits: {max-delete-ratio: 1, max-growth: 1000}
"""


@dataclass
class Writer:
    """Stock Spark, which commits to each table in each gap, once a night, and reads what it wrote.

    Attributes:
        rows: What each snapshot held when it was new, by table.
    """

    w: Warehouse
    rows: Contents = field(default_factory=lambda: {table: {} for table in TABLES})
    tonight: Counter[Gap] = field(default_factory=Counter)

    def act(self, gap: Gap) -> None:
        self.tonight[gap] += 1
        if self.tonight[gap] > 1:
            return
        number = 10 * sum(map(len, self.rows.values()))
        for table in TABLES:
            if len(self.tonight) % 4 == 0:
                self.w.overwrite(table, number)
            elif len(self.tonight) % 4 == 2:
                self.w.sql(f"DELETE FROM {{{table}}} WHERE id % 4 = 1")
            else:
                self.w.append(table, number)
        self.read()

    def read(self) -> None:
        """Every snapshot reads as it did when it was new."""
        for table, rows in self.w.all_contents().items():
            known = self.rows[table]
            assert {id: known.setdefault(id, found) for id, found in rows.items()} == rows


@pytest.mark.slow("several nights beside a busy writer")
def test_busy_tables_expire_night_for_night_and_every_kept_snapshot_reads_row_for_row(
    tmp_path: Path,
) -> None:
    w = Warehouse.empty(tmp_path, "busy", ACCOUNT)
    w.init()
    writer = Writer(w)
    for table, version in TABLES.items():
        w.create(table, "write.delete.mode=merge-on-read", version=version)
        w.append(table, 0, 100, 200)
    for night in range(1, NIGHTS + 1):
        writer.read()
        before = {table: set(w.snapshots(table)[:-1]) for table in TABLES}
        writer.tonight.clear()
        services = with_gaps(w.services(TODAY + 2 * night * DAY), writer.act)
        summary = w.run_with(services, "busy")
        assert summary.exit_code == 0, summary.as_json()
        # These tables have no branch that a snapshot could leave.
        assert set(writer.tonight) == set(Gap) - {Gap.SIGHTED}
        assert not any(before[table] & set(w.snapshots(table)) for table in TABLES)
        assert not w.reachable() - w.disk().keys()
        writer.read()
    plans = services.control.plans.find(states=[PlanState.APPLIED])
    expired = [plan for plan in plans if plan.kind is PlanKind.EXPIRE]
    assert len(expired) == NIGHTS * len(TABLES)
    assert all(plan.committed_base != plan.base_location for plan in expired)
