"""What may be deleted under the paths of departures: the objects that departed, and no others."""

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
    """Some departures, and how their objects can be told from others.

    Attributes:
        departures: By path.
        sandbox: Whether files may be written, expire and go within minutes, on one machine.
        keeps_our_time: Tells whether the store's clock is ours.
    """

    departures: Mapping[str, Departure]
    store: ObjectReader
    clock: Clock
    sandbox: bool
    keeps_our_time: Callable[[], bool]

    @classmethod
    def of(cls, context: ReadContext, departures: Mapping[str, Departure]) -> "DepartedObjects":
        """Departures by the store that their objects lie in."""
        times = partial(keeps_our_time, context)
        return cls(departures, context.store, context.clock, context.config.sandbox, times)

    def at(self, path: str) -> DepartedObject:
        """What departed from a path.

        In a sandbox the store's clock is not behind.
        """
        departure = self.departures[path]
        behind = timedelta(0) if self.sandbox else CLOCK_TOLERANCE
        since = departure.departed_at - behind
        return DepartedObject(path, departure.bytes, since, self._known_times)

    def replaced(self, paths: Sequence[str]) -> dict[str, int]:
        """Those of some paths under which another object lies by now, with its bytes."""
        return {
            stat.path: stat.file.bytes
            for stat in self.store.stats([p for p in paths if p in self.departures])
            if stat.file is not None
            and self.at(stat.path).unlike(stat.file.bytes, stat.file.modified_at)
        }

    def young_orphans(self) -> list[str]:
        """Those that a sweep let depart although they were younger than any orphan may be.

        By the time that the store gives them now. What lies there instead of what departed, and is
        left alone for that, says nothing of it.
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
        """Whether a sweep let it depart: what lies in its copy's place is of another file."""
        departure = self.departures.get(path)
        return departure is not None and departure.plan_id.startswith(SWEPT)

    @cached_property
    def _known_times(self) -> datetime | None:
        """Until when the store's times say something; none do where ours is of another day."""
        if not self.clock.simulated:
            return None
        return self.clock.now() if self.keeps_our_time() else datetime.min.replace(tzinfo=UTC)


def left_alone(context: ReadContext, departures: Sequence[Departure]) -> list[Departure]:
    """Returns those that a purge left and that are still there, with the bytes that they have.

    One that is gone, or is again as it was recorded, may go like any other.
    """
    by_path = {departure.path: departure for departure in departures if departure.was_left}
    sizes = DepartedObjects.of(context, by_path).replaced(list(by_path))
    return [replace(by_path[path], bytes=size) for path, size in sizes.items()]
