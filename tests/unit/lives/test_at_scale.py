"""A busy table at a small scale: what is kept follows the window, what it takes what is there.

80,000 commits a day for 30 days are 2.4 million snapshots in the window (AR-52).
"""

import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.domain.deletion.plan import PlanKind
from meltline.domain.retention.retained_snapshots import KeepSet, keep_set
from tests.lake.lake import Lake
from tests.lives.histories import History, history

WINDOW = 30
MOST_BYTES = 2_000
"""For each snapshot, beside the snapshots themselves: 2.4 million then fit into 4.8 GB."""


def busy(rate: int, days: int) -> History:
    """So many commits a day, at equal distances."""
    story = history()
    for number in range(rate * days):
        story.commit(f"S{number}", day=number / rate)
    return story


@settings(max_examples=40, deadline=None, database=None)
@given(st.integers(1, 24), st.integers(WINDOW + 1, WINDOW + 20))
def test_of_a_busy_table_a_windows_worth_of_commits_is_kept_and_no_more(
    rate: int, days: int
) -> None:
    story = busy(rate, days)
    keeps = story.keeps(day=days - 0.5 / rate, window=WINDOW)
    # Those of the window, and the one that was current when it began.
    assert len(keeps.reasons) == WINDOW * rate + 1
    assert len(keeps.expired) == (days - WINDOW) * rate - 1
    newest = [story.ids[f"S{number}"] for number in range(rate * days)][-len(keeps.reasons) :]
    assert keeps.reasons.keys() == set(newest)


def peak(commits: int) -> int:
    """Bytes that deciding about so many snapshots takes at most, beside the snapshots."""
    request = busy(commits // 40, 40).request(day=40, window=WINDOW)
    tracemalloc.start()
    try:
        decided: KeepSet = keep_set(request)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(decided.reasons) + len(decided.expired) == commits
    return most


def test_what_deciding_takes_grows_as_the_snapshots_do() -> None:
    small, large = peak(10_000), peak(40_000)
    assert large < 40_000 * MOST_BYTES
    assert large < 5 * small


def test_a_file_that_many_kept_snapshots_have_is_one_file() -> None:
    lake = Lake()
    table = lake.on(0).table("t", properties={"meltline.retention-days": str(WINDOW)})
    for day in range(WINDOW + 10):
        lake.on(day)
        table.append(f"f{day}")  # every later snapshot has it too
    lake.on(WINDOW + 10).run()
    (plan,) = [plan for plan in lake.control.plans.find() if plan.kind is PlanKind.EXPIRE]
    assert len(plan.snapshots) == 9
    assert len(table.snapshots) == WINDOW + 1
    assert lake.waiting() and not [path for path in lake.waiting() if path.endswith(".parquet")]
