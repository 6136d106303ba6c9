"""Engines that lose a commit: a head that was seen is in no metadata any more."""

from contextlib import suppress
from typing import Any

from meltline.app.drop.recover import recover
from meltline.app.observe.losses.vanished_commits import KIND
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.ports import Incident
from tests.doubles.committer import remove_snapshots
from tests.lake.lake import DAY, Table
from tests.lives.oracle import Story
from tests.lives.random_engines import Engines
from tests.lives.watched_lake import WatchedLake


def vanished(lake: WatchedLake) -> list[Incident]:
    """What stands of commits that have vanished."""
    return [incident for incident in lake.control.incidents.all() if incident.kind == KIND]


def is_watched(lake: WatchedLake, table: Table) -> bool:
    """Whether an observation sees the table, and nothing but an engine changes it."""
    is_share = any(key.startswith("meltline.share") for key in table.document["properties"])
    return not lake.catalogs[table.name.catalog].unlistable and not is_share


def outlast_what_was_set_back(lake: WatchedLake) -> None:
    """Until the retention is over of what stood where a table was set back."""
    for _ in range(8):
        if vanished(lake):
            lake.check()
            lake.clock.moment += 31 * DAY
            lake.run()
            lake.check()


class LosingEngines(Engines):
    """Engines that note which commits a table has lost without moving its branches.

    Attributes:
        lost: Those commits, as `table@snapshot`.
        lists: Where the manifest lists of those lie that only the walk of a log finds again.
    """

    def __init__(self, lake: WatchedLake) -> None:
        super().__init__(lake)
        self.lost = set[str]()
        self.lists = dict[str, str]()

    def lose(self, table: Table, number: int) -> str:
        """Two engines replace a table at once, or one forgets the newest commit of a branch.

        Returns:
            The commit that vanished; empty where no branch has one that nothing else needs.
        """
        free = sorted(name for name in table.refs if self._is_losable(table, name))
        if not free:
            return ""
        ref = free[number % len(free)]
        head = table.refs[ref]["snapshot-id"]
        parent = table.snapshot(head)["parent-snapshot-id"]

        lost, places = f"{table.name}@{head}", table.snapshot(head).get("manifest-list")

        def change(document: dict[str, Any]) -> None:
            document["refs"][ref]["snapshot-id"] = parent
            if ref == "main":
                document["current-snapshot-id"] = parent
            remove_snapshots(document, frozenset({head}))

        table.edit(change)
        self.lost.add(lost)
        if places:
            self.lists[lost] = places
        return lost

    def set_back(self, table: Table, number: int) -> None:
        self.lost |= {f"{table.name}@{number}" for number in table.snapshots}
        super().set_back(table, number)

    def _is_losable(self, table: Table, ref: str) -> bool:
        """Whether a branch has a newest commit that is on nothing else, under no other name."""
        heads = [each["snapshot-id"] for each in table.refs.values()]
        head = table.refs[ref]["snapshot-id"]
        parent = table.snapshot(head).get("parent-snapshot-id")
        is_branch = table.refs[ref]["type"] == "branch" and heads.count(head) == 1
        twins = [other for other in self.lake.registered() if other.uuid == table.uuid]
        is_only = sum(head in other.snapshots for other in twins) == 1
        return is_branch and is_only and parent in table.snapshots

    def undrop(self, number: int) -> None:
        for table in self.lake.tables():
            self.lost |= {f"{table.name}@{number}" for number in table.snapshots}
        super().undrop(number)


def recover_the_lost(lake: WatchedLake) -> bool:
    """A person recovers each commit that vanished, where its files can be read; whether any did."""
    done = [_recover(lake, incident) for incident in vanished(lake)]
    return any(done)


def _recover(lake: WatchedLake, incident: Incident) -> bool:
    snapshot_id = int(incident.object.rpartition("@")[2])
    new = TableName("lake", ("air",), f"found{snapshot_id}")
    with suppress(MeltlineError):
        recover(lake.services(), incident.table, str(new), reason="lost", snapshot_id=snapshot_id)
        lake.stories[new] = Story()
        lake.look()
        return True
    return False
