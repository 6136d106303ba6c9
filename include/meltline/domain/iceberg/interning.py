"""What the snapshots of a table have in common, held once: a fleet has millions of them.

A summary has a dozen entries, most of them alike; an id stands in a snapshot, in its child and in
the snapshot log, and the time of a commit in two of these.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from meltline.domain.units import from_millis


class SnapshotSummary(Mapping[str, str]):
    """A snapshot's summary. Its keys are those of its neighbours, and are held once for all."""

    __slots__ = ("_keys", "_values")

    def __init__(self, keys: tuple[str, ...], values: tuple[str, ...]) -> None:
        self._keys = keys
        self._values = values

    def __getitem__(self, key: str) -> str:
        try:
            return self._values[self._keys.index(key)]
        except ValueError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return repr(dict(self))


class SharedFacts:
    """Makes the facts of one metadata file; equal ones are one object."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._texts: dict[str, str] = {}
        self._ids: dict[int, int] = {}
        self._instants: dict[int, datetime] = {}

    def id(self, snapshot_id: int) -> int:
        """The same id."""
        return self._ids.setdefault(snapshot_id, snapshot_id)

    def instant(self, millis: int) -> datetime:
        """The instant so many milliseconds after 1970."""
        if millis not in self._instants:
            self._instants[millis] = from_millis(millis)
        return self._instants[millis]

    def summary(self, raw: Mapping[object, object]) -> SnapshotSummary:
        """The summary as the spec's JSON has it; what is no text becomes one."""
        keys = tuple(map(str, raw))
        values = (str(text) for text in raw.values())
        shared = tuple(self._texts.setdefault(text, text) for text in values)
        return SnapshotSummary(self._keys.setdefault(keys, keys), shared)
