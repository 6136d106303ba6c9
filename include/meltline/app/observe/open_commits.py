"""Obstacles to expiration: unproven commits, flawed metadata, and settings that prevent proof.

Observe and doctor call it. A ref that was created while an expiration was committed
over REST may be lost until the next run has restored it (decision 048). Until then its files look
unreferenced.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from meltline.config.load import CatalogConfig
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.deletion.refused_heads import BEGIN_ANEW, load_refusal
from meltline.domain.deletion.short_logs import KEEP_VERSIONS, deletes_soon
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import PlanReader


def unproven_commits(
    plans: PlanReader,
    catalogs: Mapping[str, CatalogConfig],
    states: Sequence[TableMetadata],
    concluded: Collection[str] = (),
) -> dict[str, str]:
    """Returns why tables are blocked until an expiration of theirs is proven, by UUID.

    Args:
        plans: Has the plans that were begun.
        catalogs: Say whose commits need proof.
        states: The current tables; a table that was not read is blocked in any case.
        concluded: Plans whose commit was proven just now, and is not recorded yet.
    """
    standing = {state.uuid: state for state in states}
    return {
        plan.table_uuid: f"{plan.table}: it is not known yet which refs came while plan {plan.id} "
        "was committed; the next run finds out"
        for plan in plans.find(states=[PlanState.APPLYING])
        if plan.id not in concluded
        and _needs_proof(plan, catalogs)
        and not _is_untouched(plan, standing.get(plan.table_uuid))
    }


_MEND = (
    "set those refs anew with the engine that writes it, or register its last sound metadata file"
)


@dataclass(frozen=True)
class Obstacle:
    """A reason why a table's snapshots cannot be expired.

    Attributes:
        code: The code of the finding in `doctor`.
        reason: The reason, for output.
        fix: The remedy for the owner.
    """

    code: str
    reason: str
    fix: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.fix}"


def obstacles(
    catalogs: Mapping[str, CatalogConfig], states: Sequence[TableMetadata]
) -> dict[str, Obstacle]:
    """Returns why tables' snapshots cannot be expired, by UUID."""
    return {state.uuid: found for state in states for found in _obstacles(catalogs, state)}


def _obstacles(catalogs: Mapping[str, CatalogConfig], state: TableMetadata) -> Iterator[Obstacle]:
    catalog = catalogs.get(state.name.catalog)
    if catalog is not None and catalog.server_commits and (why := deletes_soon(state.properties)):
        # The outcome of a commit might never be known.
        yield Obstacle("old_metadata_deleted", why, KEEP_VERSIONS)
    if state.flaws:
        yield Obstacle(
            "metadata_flawed", f"its metadata is flawed: {', '.join(state.flaws)}", _MEND
        )
    if why := load_refusal(state):
        yield Obstacle("head_refused_by_iceberg", why, BEGIN_ANEW)


def _needs_proof(plan: Plan, catalogs: Mapping[str, CatalogConfig]) -> bool:
    catalog = catalogs.get(plan.table.catalog)
    is_expiration = plan.kind is PlanKind.EXPIRE and bool(plan.snapshots or plan.refs)
    return is_expiration and (catalog is None or catalog.server_commits)


def _is_untouched(plan: Plan, state: TableMetadata | None) -> bool:
    """Returns whether a table still has all planned snapshots and refs: commits are atomic."""
    if state is None:
        return False
    return state.snapshots.keys() >= set(plan.snapshots) and state.refs.keys() >= set(plan.refs)
