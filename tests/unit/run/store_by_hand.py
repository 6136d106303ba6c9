"""A policy store whose answers a test gives by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from meltline.domain.errors import PolicyUnread
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.stated_policies import Stated, StatedPolicy, TablePolicies

UNREAD = PolicyUnread("the policies of t could not be read", object="t", found="HTTP 403", next="x")


@dataclass
class StoreByHand:
    """What is said of each table, by its bare name, now; and what was said a while ago.

    Attributes:
        now: Said to who asks anew; to others, too, unless `before` has an answer.
        before: Said to who takes what was said some minutes ago.
        asked: Names of tables that were asked for anew.
    """

    now: dict[str, Stated] = field(default_factory=dict)
    before: dict[str, Stated] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def of(self, tables: Sequence[TableName], *, anew: bool = False) -> Mapping[TableName, Stated]:
        assert all(name.catalog == "lake" and name.namespace == ("air",) for name in tables)
        if anew:
            self.asked += [name.name for name in tables]
        known = self.now if anew else {**self.now, **self.before}
        return {name: known.get(name.name, TablePolicies()) for name in tables}


def expiry(days: int | None = None, **more: object) -> TablePolicies:
    """A policy for snapshots."""
    return TablePolicies(expiry=StatedPolicy("Polaris policy p", days=days, **more))  # type: ignore[arg-type]


def removal(days: int | None = None, **more: object) -> TablePolicies:
    """A policy for orphans."""
    return TablePolicies(removal=StatedPolicy("Polaris policy p", days=days, **more))  # type: ignore[arg-type]
