"""A lake of the tests whose tables lie in a bucket, and a way to run it through a fault proxy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from meltline.adapters.object_store.deleter import StoreDeleter
from meltline.adapters.object_store.folder_listing import FolderStores
from meltline.adapters.object_store.stores import ObjectStores
from meltline.app.ownership.confinement import Confinement
from meltline.app.run.summary import Summary
from meltline.app.safety.installations import mark_of
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.iceberg.locations import location_key, split_location
from meltline.ports import DeleteOutcome, Level, ObjectStat, StoredObject
from tests.doubles.store import MemoryStore
from tests.lake.lake import AT_ONCE, Lake, MovingClock, WatchfulDeleter


@dataclass
class OnLakeTime:
    """Objects of a bucket as the lake's own clock sees them; local files stay in memory."""

    bucket: ObjectStores
    folders: FolderStores
    clock: MovingClock
    memory: MemoryStore
    written: dict[str, datetime] = field(default_factory=dict)

    def _of(self, path: str) -> Any:
        return self.memory if split_location(path).scheme == "file" else self.bucket

    def write(self, path: str, content: bytes) -> datetime:
        self._of(path).write(path, content)
        self.written[location_key(path)] = self.clock.now()
        return self.clock.now()

    def _shown(self, stored: StoredObject) -> StoredObject:
        at = self.written.get(location_key(stored.path), stored.modified_at)
        return replace(stored, modified_at=at)

    def measure(self, path: str) -> StoredObject | None:
        stored = self._of(path).measure(path)
        return None if stored is None else self._shown(stored)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        return map(self._shown, self._of(prefix).list(prefix))

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
        stats = self._of(paths[0]).stats(paths) if paths else []  # of one store each time
        return [s if s.file is None else replace(s, file=self._shown(s.file)) for s in stats]

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        return list(self._of(paths[0]).delete(paths)) if paths else []

    def level(self, folder: str) -> Level:
        is_local = split_location(folder).scheme == "file"
        return self.memory.level(folder) if is_local else self.folders.level(folder)

    def __getattr__(self, name: str) -> Any:
        def asked(path: str, *more: Any) -> Any:
            return getattr(self._of(path), name)(path, *more)

        return asked


class DeletesThrough(WatchfulDeleter):
    """Holds each delete against the truth, which it reads directly, and sends it by another way."""

    def __init__(self, lake: Lake, way: OnLakeTime) -> None:
        super().__init__(lake)
        self._way = way

    def delete_checked(self, files: Sequence[DepartedObject]) -> Sequence[DeleteOutcome]:
        roots = Confinement(self._lake.config().roots, self._lake.store)
        outcomes = StoreDeleter(self._way, roots.misplaced).delete(files, AT_ONCE)
        self.deleted += [o.path for o in outcomes if not o.error and not o.replaced]
        return outcomes


@dataclass
class BucketLake:
    """A lake in a bucket, run by a way of its own while the tests look at it directly."""

    bucket: str
    direct: Mapping[str, str]

    def __post_init__(self) -> None:
        self.lake = Lake(storage_roots=(self.bucket,), make_store=self._store)

    def _store(self, clock: MovingClock) -> OnLakeTime:
        self.memory = MemoryStore(clock=clock)
        self.straight = OnLakeTime(
            ObjectStores(self.direct), FolderStores(self.direct), clock, self.memory
        )
        return self.straight

    def run(self, properties: Mapping[str, str]) -> Summary:
        """One run of the whole chain, all of whose requests go by that way."""
        straight = self.straight
        stores, folders = ObjectStores(properties), FolderStores(properties)
        way = OnLakeTime(stores, folders, straight.clock, self.memory, straight.written)
        deleter = DeletesThrough(self.lake, way)
        services = self.lake.services(
            store=way, folders=way, writer=way, remover=way, resolver=way, deleter=deleter
        )
        return self.lake.run(services=services)

    def objects(self) -> set[str]:
        """What lies in the bucket, but its mark."""
        paths = {stored.path for stored in self.straight.list(self.bucket)}
        return paths - {mark_of(self.bucket)}
