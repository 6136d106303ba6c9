"""A window requested for one run of one table: it lengthens the policy's, and never shortens it.

`VACUUM ... RETAIN n HOURS` asks for one.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from meltline.domain.errors import RetentionOutOfRange
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.policy import INFINITE, LONGEST_DAYS, Retention
from meltline.domain.safe_text import quote

_HOUR = timedelta(hours=1)
_MOST_HOURS = 24 * LONGEST_DAYS


@dataclass(frozen=True)
class LongerWindow:
    """The minimum retention of one table in one run.

    Attributes:
        table: The table; for others the policy alone applies.
        window: How long superseded snapshots are kept at least.
    """

    table: TableName
    window: timedelta

    @classmethod
    def of_hours(cls, table: TableName, hours: int, policy: Retention) -> "LongerWindow":
        """Creates it from whole hours, which may not be shorter than the table's policy.

        Raises:
            RetentionOutOfRange: They are shorter, or leave the calendar.
        """
        if hours > _MOST_HOURS:
            raise _out_of_range(table, hours, policy, f"at most {_MOST_HOURS} hours")
        window = hours * _HOUR
        if policy.window is None or window < policy.window:
            least = INFINITE if policy.window is None else f"{policy.window // _HOUR} hours"
            raise _out_of_range(
                table, hours, policy, f"at least {least}, as {policy.source} says of {table}"
            )
        return cls(table, window)

    def over(self, table: TableName, policy: Retention) -> Retention:
        """Returns a table's policy in this run: for the requested table, the longer of both."""
        if table != self.table or policy.window is None:
            return policy
        return replace(policy, window=max(policy.window, self.window))


def _out_of_range(
    table: TableName, hours: int, policy: Retention, expected: str
) -> RetentionOutOfRange:
    return RetentionOutOfRange(
        f"{table} cannot be vacuumed with RETAIN {hours} HOURS: "
        f"its retention is {_days(policy)}, by {policy.source}",
        object=str(table),
        expected=expected,
        found=f"RETAIN {hours} HOURS",
        next=f"leave RETAIN out, or change the policy: `meltline policy show {quote(table)}`",
    )


def _days(policy: Retention) -> str:
    return policy.days if isinstance(policy.days, str) else f"{policy.days} days"
