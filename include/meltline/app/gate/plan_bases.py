"""The metadata files that plans were made on, read again: what a gate demands of the index.

A table may move on between its plan and its gate. What has come since only adds references: the
gate reads it like all else that remains. The index cannot know it, and need not (decision 026).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from meltline.app.catalog.live_catalogs import LiveCatalogs
from meltline.app.catalog.metadata import load_concurrently, load_state
from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import MeltlineError, MetadataMissing
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import ObjectReader, SnapshotKey

Totals = tuple[int, int]


@dataclass(frozen=True)
class Base:
    """The table as its plan saw it; told by the plan alone where that metadata file is gone.

    Attributes:
        snapshots: All that it had.
        heads: Of the branches that the plan leaves.
        error: Why the file could not be read although it may be there.
    """

    snapshots: frozenset[int]
    heads: frozenset[int]
    error: str = ""

    @classmethod
    def of(cls, plan: Plan, state: TableMetadata) -> "Base":
        """By the metadata file."""
        return cls(frozenset(state.snapshots), staying_heads(plan, state.heads))

    @classmethod
    def told_by(cls, plan: Plan, error: str = "") -> "Base":
        """By the plan's header: an engine may delete metadata files once they are replaced."""
        snapshots = frozenset((*plan.snapshots, *plan.heads.values()))
        return cls(snapshots, staying_heads(plan, plan.heads), error)

    def checked_heads(self, plan: Plan, state: TableMetadata) -> frozenset[int]:
        """Heads to check: those of today, and those of the plan's day that are still there."""
        heads = staying_heads(plan, state.heads) | (self.heads & state.snapshots.keys())
        return heads - frozenset(plan.snapshots)  # a head that is planned refuses the plan anyway


def staying_heads(plan: Plan, heads: Mapping[str, int]) -> frozenset[int]:
    """Heads of the branches that a plan leaves."""
    return frozenset(head for name, head in heads.items() if name not in plan.refs)


def read_bases(
    store: ObjectReader, world: LiveCatalogs, plans: Sequence[Plan]
) -> Mapping[str, Base]:
    """Each expiration plan's base, by plan id; a file is read only where its table has moved."""

    def read(plan: Plan) -> Base:
        state = world.of(plan.table_uuid, plan.table)
        try:
            if state is None or state.metadata_location != plan.base_location:
                state = load_state(store, plan.table, plan.base_location)
        except MetadataMissing:
            return Base.told_by(plan)
        except MeltlineError as error:
            return Base.told_by(plan, f"{plan.base_location}: {error.found or error.message}")
        return Base.of(plan, state)

    return dict(zip((plan.id for plan in plans), load_concurrently(read, plans), strict=True))


def differing_heads(
    plan: Plan,
    base: Base,
    state: TableMetadata,
    totals: Mapping[SnapshotKey, Totals],
    indexed: Mapping[SnapshotKey, Totals],
    *,
    is_trusted: bool,
) -> Iterable[str]:
    """Heads whose live files differ between the files, the index and the snapshot's own totals.

    Of a snapshot that the base had, the index must know them; of a newer one, files and totals
    must agree, and the index where it knows it. Of a table whose manifests a person trusts, what
    the two readers have read must agree.
    """
    for head in sorted(base.checked_heads(plan, state)):
        key = SnapshotKey(plan.table_uuid, head)
        files, size = totals.get(key, (-1, -1))
        summary = state.snapshots[head].summary
        counts = [summary.get("total-data-files", ""), summary.get("total-delete-files", "")]
        is_told = not is_trusted and all(total.isdecimal() for total in counts)
        stated = sum(map(int, counts)) if is_told else files
        by_index = indexed.get(key)
        is_newer = by_index is None and head not in base.snapshots
        if stated != files or files < 0 or not (is_newer or by_index == (files, size)):
            yield f"{head}: files {files}/{size} B, index {by_index}, summary {stated}"
