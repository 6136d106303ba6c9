"""The metrics file on nights on which one unusual table once stopped all purging in silence.

Each stage is a row of the list of such tables: L1 to L11.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from meltline.domain.purging.purge_status import HaltReason
from tests.lake.lake import Table
from tests.unit.status.nightly import NightlyLake
from tests.unit.stopping.odd_lists import count_wrongly, leave_out_ids, nothing
from tests.unit.stopping.test_contradictory_tables import main_is_a_tag, miscounted, too_few
from tests.unit.stopping.test_refused_heads import committed_late

Samples = Mapping[tuple[str, str], float]
LAST_NIGHT = 24  # windows of 7 days and failsafes of 7 days are over


def counts_wrongly(odd: Table) -> None:
    """L1: totals that are the commit's own."""
    odd.edit(miscounted)


def counted_wrongly_once(odd: Table) -> None:
    """L2: one commit has left all later totals wrong."""
    odd.edit(too_few)


def main_became_a_tag(odd: Table) -> None:
    """L3: which the specification forbids, and readers take."""
    odd.edit(main_is_a_tag)


def counts_its_manifests_wrongly(odd: Table) -> None:
    """L4: a list whose counts are not what its manifests hold."""
    count_wrongly(odd.lake, odd, nothing)


def has_no_field_ids(odd: Table) -> None:
    """L5: as S3 Tables and Firehose write lists and manifests."""
    leave_out_ids(odd.lake, odd)


def refused_by_java(odd: Table) -> None:
    """L10: a head that was committed with a time before its log's."""
    committed_late(odd, timedelta(minutes=2))


def nights_after(stage: Callable[[Table], None], file: Path) -> Samples:
    """What the file says after some weeks with a table of some kind beside a sound one."""
    nightly = NightlyLake(file)
    odd = nightly.lake.table("odd")
    for part in "abc":
        odd.append(part)
    stage(odd)
    nightly.nights(*range(1, LAST_NIGHT))
    return nightly.samples()


@pytest.mark.parametrize(
    ("stage", "state"),
    [
        (counts_wrongly, "contradictory"),
        (counted_wrongly_once, "contradictory"),
        (main_became_a_tag, "live"),
        (counts_its_manifests_wrongly, "contradictory"),
        (has_no_field_ids, "live"),
        (refused_by_java, "live"),
    ],
)
def test_one_unusual_table_is_counted_and_purging_goes_on(
    stage: Callable[[Table], None], state: str, tmp_path: Path
) -> None:
    samples = nights_after(stage, tmp_path / "metrics.prom")
    sound, odd = (1, 1) if state != "live" else (2, 2)
    assert samples["meltline_tables", "live"] == sound
    assert samples["meltline_tables", state] == odd
    assert {samples["meltline_purge_stopped", str(reason)] for reason in HaltReason} == {0}
    assert samples["meltline_overdue_bytes", ""] == 0
    assert samples["meltline_stage_bytes", "deleted"] > 0


def test_a_torn_newest_commit_stops_all_purging_aloud(tmp_path: Path) -> None:
    """L11: what it names may be any file (decision 056); the first sentence has both ways on."""
    nightly = NightlyLake(tmp_path / "metrics.prom")
    odd = nightly.lake.table("odd")
    odd.append("a")
    nightly.nights(*range(1, 12))
    before = odd.manifests(odd.head)
    odd.append("b")
    (torn,) = set(odd.manifests(odd.head)).difference(before)
    content = nightly.lake.spoil(torn)
    first = nightly.night(12).as_json()["recap"][0]
    assert "lake.air.odd" in first
    assert "`meltline doctor` names the files" in first
    assert "`meltline detach lake.air.odd --reason TEXT`" in first
    assert nightly.samples()["meltline_purge_stopped", "tables_unread"] == 1
    nightly.lake.mend(torn, content)
    nightly.night(13)
    assert nightly.samples()["meltline_purge_stopped", "tables_unread"] == 0
