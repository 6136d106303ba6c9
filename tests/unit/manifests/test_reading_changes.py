"""Observing a line: what could not be read for its changes is not known by them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from meltline.app.observe.observe import observe
from meltline.domain.iceberg.files import ManifestOutcome
from meltline.domain.iceberg.locations import Ownership
from meltline.ports import IngestRequest, ManifestIndex
from tests.lake.lake import Lake


@dataclass(frozen=True)
class LateStore:
    """A manifest index that cannot reach the store when it is asked for changes."""

    inner: ManifestIndex

    def counted(self, paths: Sequence[str]) -> Mapping[str, tuple[int, int, int]]:
        return self.inner.counted(paths)

    def ingest(
        self, requests: Sequence[IngestRequest], ownerships: Sequence[Ownership]
    ) -> Sequence[ManifestOutcome]:
        late = [r for r in requests if r.changes_of is not None]
        wholly = [r for r in requests if r.changes_of is None]
        failed = [ManifestOutcome(m.path, error="no answer") for r in late for m in r.manifests]
        return [*failed, *self.inner.ingest(wholly, ownerships)]


def test_a_manifest_that_was_read_wholly_a_moment_later_does_not_stand_for_its_changes() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("a")
    table.stage("b")  # off the line, and it names the same manifest
    late = replace(lake.files, manifests=LateStore(lake.files.manifests))
    seen = observe(lake.services(files=late))
    assert [str(name) for name in seen.skipped] == ["lake.air.t"]
    assert lake.files.snapshots.tips() == {}
    assert not observe(lake.services()).skipped
    assert lake.files.snapshots.tips()[table.uuid].snapshot_id == table.head
