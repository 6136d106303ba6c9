"""Engines that count wrongly: totals in summaries that are not what the manifests hold.

What such a table refers to is read all the same. It waits with all that share its files until a
person trusts its manifests, and nothing else does.
"""

from collections.abc import Collection

from meltline.app.safety.owner_guards import trust, trusted_tables
from meltline.domain.iceberg.files import FileKind
from meltline.ports import CONTRADICTORY
from tests.lake.lake import Table
from tests.lives.watched_lake import WatchedLake


class MiscountedLake(WatchedLake):
    """A watched lake in which a table that contradicts itself is one that cannot be read."""

    def can_be_read(self, table: Table) -> bool:
        """Whether all of it can be read, and adds up or is trusted."""
        return super().can_be_read(table) and not self._contradicts(table)

    def _contradicts(self, table: Table) -> bool:
        known = {key.snapshot_id for key in self.files.snapshots.known()}
        wrong = set(table.snapshots) & miscounted(table) - known
        return bool(wrong) and not self._is_trusted(table)

    def _is_trusted(self, table: Table) -> bool:
        """Whether a person trusts it, or the table of which it is a share and has the lists."""
        trusted = trusted_tables(self.control.decisions)
        rows = self.control.registrations.all()
        if any(row.name == table.name and row.uuid in trusted for row in rows):
            return True
        origin = table.properties.get("meltline.share.of-uuid")
        names = {row.name for row in rows if row.uuid == origin and row.uuid in trusted}
        sources = [source for source in self.registered() if source.name in names]
        lists = {listed for source in sources for listed in _lists(source)}
        return bool(sources) and _lists(table) <= lists


def _lists(table: Table) -> set[str]:
    """Where its reachable sets are written down."""
    listed = table.document["snapshots"]
    return {str(snapshot.get("manifest-list") or snapshot["manifests"]) for snapshot in listed}


def miscounted(table: Table) -> Collection[int]:
    """Snapshots whose totals of data files are not what their manifests hold."""
    return {
        snapshot["snapshot-id"]
        for snapshot in table.document["snapshots"]
        if int(snapshot["summary"].get("total-data-files", -1)) != _live(table, snapshot)
    }


def _live(table: Table, snapshot: dict[str, object]) -> int:
    manifests = table.lake.manifests_of(snapshot)
    live = [entry for manifest in manifests for entry in manifest.live]
    return sum(entry.kind is FileKind.DATA for entry in live)


def trust_the_miscounted(lake: WatchedLake) -> bool:
    """A person looks at the tables that contradict themselves, and trusts each; whether any did."""
    trusted = trusted_tables(lake.control.decisions)
    doubted = [
        row
        for row in lake.control.registrations.all()
        if row.status == CONTRADICTORY and row.uuid not in trusted
    ]
    for row in doubted:
        trust(lake.services(), row.name, "the engine counts its own commit alone")
    return bool(doubted)
