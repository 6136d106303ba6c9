"""A run that dies after any of its commits over REST: the next one knows what came of it."""

from collections.abc import Callable

import pytest

from meltline.app.observe.observe import observe
from meltline.domain.deletion.plan import PlanState
from meltline.domain.iceberg.names import TableName
from tests.lake.lake import Lake
from tests.lives.kills import Killed

HOUR = 1 / 24


def dying_at(commit: int) -> Callable[[TableName], None]:
    """Dies when so many commits are made, before the answer to the last one is here."""
    made = 0

    def die(table: TableName) -> None:
        nonlocal made
        made += 1
        if made == commit:
            raise Killed(str(table))

    return die


@pytest.mark.parametrize("commit", [1, 2], ids=["the expiration", "what restores a ref"])
@pytest.mark.parametrize("tagged", [0, 1, 2], ids="the tag is on snapshot {}".format)
def test_the_next_run_goes_on_and_nothing_waits_for_a_person(commit: int, tagged: int) -> None:
    lake = Lake(behind_rest=True)
    table = lake.on(0).table("t")
    for day in range(4):
        lake.on(day)
        table.overwrite(f"f{day}")
    snapshot, tags = table.snapshots[tagged], ["audit"]
    lake.on(12)
    lake.interrupt = lambda name: tags and table.tag(tags.pop(), snapshot)
    lake.answering = dying_at(commit)
    with pytest.raises(Killed):
        lake.run()
    assert observe(lake.services()).blocked
    lake.on(12 + HOUR).run()
    assert not observe(lake.services()).blocked
    assert table.document["refs"]["audit"]["snapshot-id"] == snapshot
    assert not lake.control.plans.find(states=[PlanState.APPLYING])
    for day in (13, 21, 30, 39):
        lake.on(day).run()
    gone = {0, 1, 2} - {tagged}
    assert not [path for path in lake.paths() for f in gone if f"/f{f}." in path]
    assert any(f"/f{tagged}." in path for path in lake.paths())
