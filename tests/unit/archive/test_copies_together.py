"""Copies on a local disk that are synced together, and get their names then."""

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.copy_tasks import FileDone, bring
from meltline.adapters.archive.rewriting.manifests import Need, NeededFile
from meltline.adapters.object_store.local_writes import Together
from meltline.adapters.object_store.stores import ObjectStores


@dataclass
class Disk:
    """A folder whose syncs are watched, and may fail.

    Attributes:
        fails_at: The how manieth sync fails; 0 is none.
        syncs: The names that the folder showed at each sync.
    """

    root: Path
    fails_at: int = 0
    syncs: list[list[str]] = field(default_factory=list)

    def sync(self, descriptor: int) -> None:
        os.fstat(descriptor)
        self.syncs.append(self.names())
        if len(self.syncs) == self.fails_at:
            raise OSError(errno.EIO, "the disk is broken")

    def names(self) -> list[str]:
        """The files that have a name; a hidden one has none yet."""
        return sorted(p.name for p in self.root.rglob("*.parquet") if p.is_file())

    def unfinished(self) -> list[Path]:
        return list(self.root.rglob(".meltline-*"))

    def together(self) -> Together:
        return Together(self.sync, {self.root.stat().st_dev})

    def bring(self, hot: Path, count: int = 3) -> list[FileDone]:
        store = ObjectStores({})
        files = []
        for number in range(count):
            path = hot / f"{number}.parquet"
            path.write_bytes(b"%d" % number)
            files.append(NeededFile(f"file://{path}", 1, Need.COPY))
        stores = Stores(store, store, f"file://{self.root}")
        return list(bring(stores, files, joined=self.together))


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    (tmp_path / "cold").mkdir()
    return Disk(tmp_path / "cold")


def test_copies_get_their_names_once_all_are_on_disk_and_count_once_the_names_are(
    disk: Disk, tmp_path: Path
) -> None:
    done = disk.bring(tmp_path)
    names = ["0.parquet", "1.parquet", "2.parquet"]
    assert disk.syncs == [[], names]
    assert [d.is_new and d.proof is not None and not d.error for d in done] == [True] * 3
    assert not disk.unfinished()


@pytest.mark.parametrize("fails_at", [1, 2])
def test_copies_that_the_disk_does_not_hold_are_none(
    disk: Disk, tmp_path: Path, fails_at: int
) -> None:
    disk.fails_at = fails_at
    for done in disk.bring(tmp_path):
        assert "the disk does not hold it" in done.error
        assert done.proof is None
    assert not disk.unfinished()
    assert disk.names() == ([] if fails_at == 1 else ["0.parquet", "1.parquet", "2.parquet"])
    disk.fails_at = 0
    again = disk.bring(tmp_path)
    assert [d.error for d in again] == [""] * 3
    assert [bool(d.proof and d.proof.sha256) for d in again] == [fails_at == 1] * 3


def test_a_copy_that_cannot_have_its_name_stops_no_other(disk: Disk, tmp_path: Path) -> None:
    first = disk.bring(tmp_path, 1)[0].proof
    assert first is not None
    folder = Path(first.path.removeprefix("file://")).parent
    (folder / "0.parquet").unlink()
    (folder / "1.parquet" / "in the way").mkdir(parents=True)
    done = disk.bring(tmp_path)
    assert [bool(d.error) for d in done] == [False, True, False]
    assert disk.names() == ["0.parquet", "2.parquet"]
    assert not disk.unfinished()


def test_large_copies_wait_for_no_others(disk: Disk, tmp_path: Path) -> None:
    large, small = tmp_path / "large.parquet", tmp_path / "small.parquet"
    large.write_bytes(b"x" * 200_000)
    small.write_bytes(b"x")
    sizes = {small: 1, large: 200_000}
    files = [NeededFile(f"file://{path}", size, Need.COPY) for path, size in sizes.items()]
    store = ObjectStores({})
    stores = Stores(store, store, f"file://{disk.root}")
    assert [d.is_new for d in bring(stores, files, joined=disk.together)] == [True, True]
    assert disk.syncs == [["large.parquet"], ["large.parquet", "small.parquet"]]


def test_what_was_not_settled_is_taken_away(disk: Disk) -> None:
    with disk.together() as together:
        path = f"file://{disk.root}/folder/x.parquet"
        ObjectStores({}).write_stream(path, [b"x"], together)
        assert len(disk.unfinished()) == 1
    assert not disk.unfinished()
    assert not disk.names()


def test_where_a_disk_is_not_known_to_sync_as_a_whole_each_copy_is_synced_alone(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[list[str]] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(disk.names()))
    with Together(disk.sync, set()) as together:
        for name in ("a", "b"):
            path = f"file://{disk.root}/{name}.parquet"
            ObjectStores({}).write_stream(path, [b"x"], together)
        assert synced == [[], ["a.parquet"]]
        assert together.settle() == {}
    assert disk.names() == ["a.parquet", "b.parquet"]
    assert disk.syncs == []


def test_this_machines_own_sync_writes_what_it_is_asked_for(tmp_path: Path) -> None:
    with Together() as together:
        path = f"file://{tmp_path}/x.parquet"
        ObjectStores({}).write_stream(path, [b"x"], together)
        assert together.settle() == {}
    assert (tmp_path / "x.parquet").read_bytes() == b"x"
