"""Selects and orders the collected test cases of one run; called by `tests/conftest.py`."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.tiers.declared import Tier, group_of, part_of, tier_of_case
from tests.tiers.durations import seconds_of_case

TESTS = Path(__file__).resolve().parents[1]


def file_of(item: pytest.Item) -> str:
    """Returns the path of an item's file: below `tests/`, or in full where a test has made it."""
    is_ours = item.path.is_relative_to(TESTS)
    return item.path.relative_to(TESTS).as_posix() if is_ours else item.path.as_posix()


def part_of_item(item: pytest.Item) -> str:
    """Returns the real part of an item: a marker, a parameter, or a fixture `PART_server`."""
    names = {mark.name for mark in item.iter_markers()}
    names |= {name.removesuffix("_server") for name in getattr(item, "fixturenames", ())}
    if callspec := getattr(item, "callspec", None):
        names |= {value for value in callspec.params.values() if isinstance(value, str)}
    return part_of(names)


def tier_of_item(item: pytest.Item) -> Tier:
    """Returns the tier of an item. A file that a test has made is in the first."""
    if not item.path.is_relative_to(TESTS):
        return Tier.QUICK
    return tier_of_case(file_of(item), part_of_item(item))


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Groups items for `--dist loadgroup`, the longest group first, so that all workers end alike.

    Cases with a shared part go to one worker. All others are grouped by file.
    """
    groups: dict[str, list[pytest.Item]] = {}
    seconds: Counter[str] = Counter()
    for item in items:
        path, part = file_of(item), part_of_item(item)
        group = group_of(path, part)
        item.add_marker(pytest.mark.xdist_group(group))
        groups.setdefault(group, []).append(item)
        seconds[group] += seconds_of_case(path, part)
    longest_first = sorted(groups, key=lambda group: -seconds[group])
    return [item for group in longest_first for item in groups[group]]
