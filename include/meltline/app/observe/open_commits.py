"""Expirations over REST that were begun and of which nobody knows yet what came of them.

A ref that came while one was made may be lost until the next run has put it back (decision 048).
Until then its files look as if nothing referred to them.
"""

from collections.abc import Collection, Mapping, Sequence

from meltline.config.load import CatalogConfig
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.deletion.short_logs import KEEP_VERSIONS, deletes_soon
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import PlanReader


def unproven_commits(
    plans: PlanReader,
    catalogs: Mapping[str, CatalogConfig],
    states: Sequence[TableMetadata],
    concluded: Collection[str] = (),
) -> dict[str, str]:
    """Why nothing of tables departs or is purged until a commit of theirs is proven, by UUID.

    Args:
        plans: Those that were begun.
        catalogs: Tell of which catalogs a commit has to be proven.
        states: The tables as they stand; of one that was not read all is kept in any case.
        concluded: Plans whose commit was proven just now, and not recorded yet.
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


def unprovable_tables(
    catalogs: Mapping[str, CatalogConfig], states: Sequence[TableMetadata]
) -> dict[str, str]:
    """Why no snapshot of tables expires, by UUID: what a commit came to might never be known."""
    return {
        state.uuid: f"{why}; {KEEP_VERSIONS}"
        for state in states
        if (catalog := catalogs.get(state.name.catalog)) is not None
        and catalog.server_commits
        and (why := deletes_soon(state.properties))
    }


def _needs_proof(plan: Plan, catalogs: Mapping[str, CatalogConfig]) -> bool:
    catalog = catalogs.get(plan.table.catalog)
    is_expiration = plan.kind is PlanKind.EXPIRE and bool(plan.snapshots or plan.refs)
    return is_expiration and (catalog is None or catalog.server_commits)


def _is_untouched(plan: Plan, state: TableMetadata | None) -> bool:
    """Whether a table has all that was to go: a commit is made wholly or not at all."""
    if state is None:
        return False
    return state.snapshots.keys() >= set(plan.snapshots) and state.refs.keys() >= set(plan.refs)
