"""Groups: tables that share, or ever shared, files. What stops one stops its group."""

from collections.abc import Iterable, Mapping


class Groups:
    """Which tables belong together, by UUID."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._members: dict[str, set[str]] = {}
        for first, second in pairs:
            joined = self._members.get(first, {first}) | self._members.get(second, {second})
            for member in joined:
                self._members[member] = joined

    def members(self, uuid: str) -> frozenset[str]:
        """Everybody in the table's group, itself included."""
        return frozenset(self._members.get(uuid, {uuid}))

    def key(self, uuid: str) -> str:
        """The group's name, for its lock: its smallest UUID."""
        return min(self.members(uuid))

    def blocked(self, reasons: Mapping[str, str]) -> dict[str, str]:
        """Spreads the reasons of some tables to all members of their groups."""
        spread = dict(reasons)
        for uuid, reason in reasons.items():
            for member in self.members(uuid):
                spread.setdefault(member, f"shares files with a table that was skipped: {reason}")
        return spread
