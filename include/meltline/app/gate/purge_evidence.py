"""What a purge must show: its files are due, nobody's, and nobody has stopped them."""

from collections.abc import Mapping
from datetime import datetime

from meltline.app.gate.cases import Case, Measures
from meltline.domain.deletion.plan import PlanState
from meltline.domain.iceberg.files import Departure, DepartureState, PlannedFile


def purge_measures(
    case: Case, departures: Mapping[str, Departure], claimed: Mapping[str, str]
) -> Measures:
    """What was found of a purge.

    Args:
        case: The plan.
        departures: Of all planned files, by path.
        claimed: Paths that purges are deleting, and by which plan.
    """
    plan, around = case.plan, case.around
    refused = around.roots.refused(case.paths)
    return {
        **case.common_measures(refused, case.errors({"", *case.members})),
        **_failsafe_measures(case, departures),
        "planned_held": _held_owners(case),
        "planned_guarded": case.owners & around.guarded,
        "planned_contested": [p for p in case.paths if p in around.contested],
        "planned_claimed": [p for p in case.paths if claimed.get(p, plan.id) != plan.id],
    }


def _failsafe_measures(case: Case, departures: Mapping[str, Departure]) -> Measures:
    """Whether the files wait in failsafe, and whether that is over."""
    waiting = _in_state(DepartureState.FAILSAFE, case, departures)
    expected = set(waiting)
    if case.plan.state is PlanState.APPLYING:  # it has deleted some already, and not once more
        expected |= _in_state(DepartureState.DELETED, case, departures).keys()
    return {
        "planned_not_due": [
            file.path
            for file in case.files
            if file.path in waiting and not _is_due(file, waiting[file.path], case.around.now)
        ],
        "planned_not_in_failsafe": [path for path in case.paths if path not in expected],
        "planned_young_orphans": case.around.sources.objects(waiting).young_orphans(),
    }


def _in_state(
    state: DepartureState, case: Case, departures: Mapping[str, Departure]
) -> Mapping[str, Departure]:
    ours = {path: departures[path] for path in case.paths if path in departures}
    return {path: departure for path, departure in ours.items() if departure.state is state}


def _is_due(file: PlannedFile, departure: Departure, now: datetime) -> bool:
    """Whether a file's failsafe is over, both by the plan and by the ledger."""
    return file.due_at is not None and max(departure.due_at, file.due_at) <= now


def _held_owners(case: Case) -> set[str]:
    """Owners of planned files on whose group a hold lies: nothing of it may be purged."""
    around = case.around
    return {
        owner for owner in case.owners if not around.held.isdisjoint(around.groups.members(owner))
    }
