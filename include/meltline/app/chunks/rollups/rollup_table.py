"""A rollup's own table: the position of its last refresh, and whether others changed it since.

`rollup_snapshot` and `waits` read it. It is apart from `rollup_snapshot` because the planner needs
the table without the source.
"""

from dataclasses import dataclass

from meltline.app.catalog.resolve import read_table
from meltline.app.chunks.tracking import changes_of
from meltline.app.observe.own_drops import own_drop
from meltline.app.services import ReadSources
from meltline.domain.chunks.rollup import (
    NO_SNAPSHOT,
    ROLLUP_HEAD,
    ROLLUP_OF,
    ROLLUP_SNAPSHOT,
    Rollup,
)
from meltline.domain.chunks.sync import DROP_PLAN
from meltline.domain.errors import RollupRefused, TableNotFound
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.domain.safe_text import quote


@dataclass(frozen=True)
class RollupTable:
    """A rollup with the current state of its own table.

    Attributes:
        is_as_left: Whether its rows are those of the last refresh. A compaction changes none, and
            an own drop of its old chunks is what a policy has requested.
    """

    rollup: Rollup
    state: TableMetadata
    is_as_left: bool

    @classmethod
    def load(cls, context: ReadSources, rollup: Rollup) -> "RollupTable":
        """Reads the current table.

        Raises:
            RollupRefused: No table, or another one, has its name.
            MetadataUnreadable: A manifest of a possible own drop cannot be read.
        """
        try:
            state = read_table(context, rollup.table)
        except TableNotFound as missing:
            raise RollupRefused(
                f"{rollup.table}, the table of rollup {rollup.name}, is gone",
                object=str(rollup.table),
                expected="the table that its declaration made",
                found="none",
                next=f"`meltline undrop {quote(rollup.table)}` brings a dropped one back; "
                f"`meltline rollups drop {quote(rollup.name)}` forgets the rollup",
            ) from missing
        is_own = state.properties.get(ROLLUP_OF) == rollup.source_uuid
        if state.uuid != rollup.table_uuid or not is_own:
            raise RollupRefused(
                f"{rollup.table} is not the table of rollup {rollup.name}",
                object=str(rollup.table),
                expected=f"the registration {rollup.table_uuid}, over {rollup.source_uuid}",
                found=f"{state.uuid}, over {state.properties.get(ROLLUP_OF) or 'nothing'}",
                next="bring its own table back under that name, or drop the rollup by "
                f"`SELECT lakets.drop_rollup('{rollup.name}')` and declare it anew",
            )
        return cls(rollup, state, _is_as_left(context, state))

    @property
    def was_refreshed(self) -> bool:
        """Whether the table records a position."""
        return _number(self.state, ROLLUP_SNAPSHOT) is not None

    @property
    def snapshot_id(self) -> int | None:
        """The source's snapshot up to which it is refreshed; None before the source's first."""
        number = _number(self.state, ROLLUP_SNAPSHOT)
        return None if number == NO_SNAPSHOT else number


def _is_as_left(context: ReadSources, state: TableMetadata) -> bool:
    left, head = _number(state, ROLLUP_HEAD), state.current_snapshot_id
    if left is None:
        return False
    for snapshot in state.ancestry(head) if head is not None else ():
        if snapshot.snapshot_id == left:
            return True
        is_compaction = snapshot.summary.get("operation") == "replace"
        if not is_compaction and not _is_own_drop(context, state.uuid, snapshot):
            return False
    return head is None and left == NO_SNAPSHOT


def _is_own_drop(context: ReadSources, table_uuid: str, snapshot: Snapshot) -> bool:
    """Whether a commit removed exactly a plan's files; its summary alone is no proof."""
    if DROP_PLAN not in snapshot.summary:
        return False
    for tracked in context.control.chunks.tracked([table_uuid]):
        (change,) = changes_of(context.chunk_files, tracked.layout, [snapshot], 0)
        return own_drop(context.control.plans, change, table_uuid) is not None
    return False


def _number(state: TableMetadata, key: str) -> int | None:
    text = state.properties.get(key, "")
    return int(text) if text.removeprefix("-").isdecimal() else None
