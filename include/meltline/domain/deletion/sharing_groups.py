"""Sharing groups: tables that share, or ever shared, files. A failure of one blocks its group.

Observation, planning, gates and locks treat the tables of a group as a unit.
"""

from collections.abc import Iterable, Mapping


class Groups:
    """Maps tables to their groups, by UUID; all members of a group get the same set."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        joined: dict[str, set[str]] = {}
        for pair in pairs:
            first, second = (joined.setdefault(uuid, {uuid}) for uuid in pair)
            if first is not second:
                fewer, more = sorted((first, second), key=len)
                more |= fewer
                joined.update(dict.fromkeys(fewer, more))
        groups = {id(group): frozenset(group) for group in joined.values()}
        self._members = {uuid: groups[id(group)] for uuid, group in joined.items()}
        self._keys = {group: min(group) for group in groups.values()}

    def members(self, uuid: str) -> frozenset[str]:
        """Returns all tables of the table's group, itself included."""
        return self._members.get(uuid) or frozenset({uuid})

    def key(self, uuid: str) -> str:
        """Returns the group's name, for its lock: its smallest UUID."""
        return self._keys[self._members[uuid]] if uuid in self._members else uuid

    def together(self, uuids: Iterable[str]) -> frozenset[str]:
        """Returns all tables in the groups of some tables."""
        return frozenset[str]().union(*{self.members(uuid) for uuid in uuids})

    def blocked(self, reasons: Mapping[str, str]) -> dict[str, str]:
        """Spreads the reasons of some tables to all members of their groups."""
        first: dict[frozenset[str], str] = {}
        for uuid, reason in reasons.items():
            first.setdefault(self.members(uuid), reason)
        spread = {
            member: f"shares files with a table that was skipped: {reason}"
            for group, reason in first.items()
            for member in group
        }
        return spread | dict(reasons)
