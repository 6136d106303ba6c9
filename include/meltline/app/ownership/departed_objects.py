"""Tells the objects that departed from later objects at the same paths.

Purge, its gate and `explain` call it: only the object that departed may be deleted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial

from meltline.app.safety.preconditions import keeps_our_time
from meltline.app.services import ReadContext
from meltline.domain.clock import CLOCK_TOLERANCE, Clock
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.orphans import FLOOR
from meltline.domain.iceberg.files import SWEPT, Departure
from meltline.ports import ObjectReader


@dataclass
class DepartedObjects:
    """Departures, and what identifies their objects.

    Attributes:
        departures: By path.
        sandbox: Whether files may be written, expire and be deleted within minutes, on one machine.
        keeps_our_time: Returns whether the store's clock agrees with ours.
    """

    departures: Mapping[str, Departure]
    store: ObjectReader
    clock: Clock
    sandbox: bool
    keeps_our_time: Callable[[], bool]

    @classmethod
    def of(cls, context: ReadContext, departures: Mapping[str, Departure]) -> "DepartedObjects":
        """Builds it with the store and clock of a step."""
        times = partial(keeps_our_time, context)
        return cls(departures, context.store, context.clock, context.config.sandbox, times)

    def at(self, path: str) -> DepartedObject:
        """Returns the object that departed from a path.

        In a sandbox the store's clock is not behind.
        """
        departure = self.departures[path]
        behind = timedelta(0) if self.sandbox else CLOCK_TOLERANCE
        since = departure.departed_at - behind
        return DepartedObject(path, departure.bytes, since, self._known_times)

    def replaced(self, paths: Sequence[str]) -> dict[str, int]:
        """Returns paths that have another object now, with its size in bytes."""
        return {
            stat.path: stat.file.bytes
            for stat in self.store.stats([p for p in paths if p in self.departures])
            if stat.file is not None
            and self.at(stat.path).unlike(stat.file.bytes, stat.file.modified_at)
        }

    def young_orphans(self) -> list[str]:
        """Returns files that a sweep recorded although they were younger than an orphan may be.

        The age is by the store's current time of the object. A path with another object is
        ignored, because that object stays anyway.
        """
        stats = self.store.stats([path for path in self.departures if self.is_swept(path)])
        return [
            stat.path
            for stat in stats
            if stat.file is not None
            and stat.file.modified_at > self.departures[stat.path].departed_at - FLOOR
            and not self.at(stat.path).unlike(stat.file.bytes, stat.file.modified_at)
        ]

    def is_swept(self, path: str) -> bool:
        """Returns whether a sweep recorded it: its path in cold then has another file's copy."""
        departure = self.departures.get(path)
        return departure is not None and departure.plan_id.startswith(SWEPT)

    @cached_property
    def _known_times(self) -> datetime | None:
        """The latest store time that is meaningful; none in a sandbox with another day's clock."""
        if not self.clock.simulated:
            return None
        return self.clock.now() if self.keeps_our_time() else datetime.min.replace(tzinfo=UTC)


def left_alone(context: ReadContext, departures: Sequence[Departure]) -> list[Departure]:
    """Returns departures that a purge left and whose replaced object still exists, with its size.

    If it is gone, or is as it was recorded again, the file may be deleted like any other.
    """
    by_path = {departure.path: departure for departure in departures if departure.was_left}
    sizes = DepartedObjects.of(context, by_path).replaced(list(by_path))
    return [replace(by_path[path], bytes=size) for path, size in sizes.items()]
