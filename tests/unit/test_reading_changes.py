"""Observing a line: what could not be read for its changes is not known by them."""

from collections.abc import Sequence
from typing import Any

from meltline.app.observe.observe import observe
from meltline.domain.iceberg.files import ManifestOutcome
from meltline.domain.iceberg.locations import Ownership
from meltline.ports import IngestRequest
from meltline.testing.files import MemoryFileLedger
from tests.unit.lake import Lake


class LateStore:
    """A file ledger that cannot reach the store when it is asked for changes."""

    def __init__(self, files: MemoryFileLedger) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def ingest(
        self, requests: Sequence[IngestRequest], ownerships: Sequence[Ownership]
    ) -> Sequence[ManifestOutcome]:
        late = [r for r in requests if r.changes_of is not None]
        wholly = [r for r in requests if r.changes_of is None]
        failed = [ManifestOutcome(m.path, error="no answer") for r in late for m in r.manifests]
        return [*failed, *self._files.ingest(wholly, ownerships)]


def test_a_manifest_that_was_read_wholly_a_moment_later_does_not_stand_for_its_changes() -> None:
    lake = Lake()
    table = lake.on(0).table("t")
    table.append("a")
    table.stage("b")  # off the line, and it names the same manifest
    seen = observe(lake.services(files=LateStore(lake.files)))
    assert [str(name) for name in seen.skipped] == ["lake.air.t"]
    assert lake.files.lines() == {}
    assert not observe(lake.services()).skipped
    assert lake.files.lines()[table.uuid].snapshot_id == table.head
