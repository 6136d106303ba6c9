"""Expirations that are not to be made, and those of which nobody knows yet what came of them.

A ref that came while one was made over REST may be lost until the next run has put it back
(decision 048). Until then its files look as if nothing referred to them.
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


_MEND = (
    "set those refs anew with the engine that writes it, or register its last sound metadata file"
)


@dataclass(frozen=True)
class Obstacle:
    """What keeps snapshots of a table from being expired.

    Attributes:
        code: As `doctor` names it.
        reason: Why, in words.
        fix: What the owner can do.
    """

    code: str
    reason: str
    fix: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.fix}"


def obstacles(
    catalogs: Mapping[str, CatalogConfig], states: Sequence[TableMetadata]
) -> dict[str, Obstacle]:
    """Returns what keeps snapshots of tables from being expired, by UUID."""
    return {state.uuid: found for state in states for found in _obstacles(catalogs, state)}


def _obstacles(catalogs: Mapping[str, CatalogConfig], state: TableMetadata) -> Iterator[Obstacle]:
    catalog = catalogs.get(state.name.catalog)
    if catalog is not None and catalog.server_commits and (why := deletes_soon(state.properties)):
        # What a commit came to might never be known.
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
    """Whether a table has all that was to go: a commit is made wholly or not at all."""
    if state is None:
        return False
    return state.snapshots.keys() >= set(plan.snapshots) and state.refs.keys() >= set(plan.refs)
