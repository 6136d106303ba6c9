"""Second lakes: a copy of a lake with a hot warehouse of its own, and the same cold tier.

A life of two lakes is told turn by turn. Whichever lake acts sees cold as the other one left it.
"""

import copy
from typing import Any, TypeVar

from meltline.domain.iceberg.locations import split_location
from tests.doubles.control.ledger import memory_control_ledger
from tests.lake.lake import COLD_WAREHOUSE, Lake
from tests.lives.restored_ledgers import backup_of, restore

AnyLake = TypeVar("AnyLake", bound=Lake)
_APART = 100_000  # ids of commits and files of two lakes
_COLD = split_location(COLD_WAREHOUSE).path


def second_lake(first: AnyLake, **facts: Any) -> AnyLake:
    """A copy of a lake with a new control ledger, which nobody has adopted yet."""
    lake = type(first)(has_cold=True, sandbox=True, **facts)
    lake.clock.moment = first.clock.moment
    lake._ids = first._ids + _APART
    lake.store._objects = dict(first.store._objects)
    lake.manifests, lake.facts = dict(first.manifests), dict(first.facts)
    for name, catalog in first.catalogs.items():
        _point(lake.catalogs[name], catalog)
    _point(lake.cold, first.cold)
    return lake


def with_ledger_of(lake: AnyLake, first: Lake) -> AnyLake:
    """The second lake, with a copy of the first one's control ledger."""
    restore(lake, backup_of(first))
    return lake


def lose_ledger(lake: Lake) -> None:
    """Puts an empty control ledger in the place of a lake's own."""
    lake.control = memory_control_ledger(
        lake.clock, database=lake.clock, lease_time=lake.lease_time
    )


def see_cold_of(lake: Lake, other: Lake) -> None:
    """Has a lake find cold as the other one left it."""
    objects = lake.store._objects
    lake.store._objects = {at: held for at, held in objects.items() if not _is_cold(at.path)} | {
        at: held for at, held in other.store._objects.items() if _is_cold(at.path)
    }
    lake.facts |= other.facts
    _point(lake.cold, other.cold)


def _is_cold(path: str) -> bool:
    return path.startswith(f"{_COLD}/")


def _point(catalog: Any, other: Any) -> None:
    catalog._tables = dict(other._tables)
    catalog._namespaces = copy.deepcopy(other._namespaces)
