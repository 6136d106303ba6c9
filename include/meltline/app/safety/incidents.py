"""Incidents: each stands until what it tells of is as it should be."""

from collections.abc import Callable, Sequence

from meltline.ports import Incident, IncidentLedger


def standing_incidents(incidents: IncidentLedger, kind: str) -> list[Incident]:
    """Those of one kind that have not ended."""
    return [incident for incident in incidents.all() if incident.kind == kind]


def end_incidents(
    incidents: IncidentLedger, standing: Sequence[Incident], is_over: Callable[[Incident], bool]
) -> dict[str, str]:
    """Ends those that are over. Returns why the tables of the others are kept, by registration."""
    over = {incident.id for incident in standing if is_over(incident)}
    if over:
        incidents.end(sorted(over))
    return {i.table_uuid: f"{i.table}: {i.message}" for i in standing if i.id not in over}
