"""Incidents: open until the condition that they report is resolved.

The checks of observe and purge raise them, and end them with these functions.
"""

from collections.abc import Callable, Sequence

from meltline.ports import Incident, IncidentLedger


def standing_incidents(incidents: IncidentLedger, kind: str) -> list[Incident]:
    """Returns the open incidents of one kind."""
    return [incident for incident in incidents.all() if incident.kind == kind]


def end_incidents(
    incidents: IncidentLedger, standing: Sequence[Incident], is_over: Callable[[Incident], bool]
) -> dict[str, str]:
    """Ends resolved incidents. Returns why the tables of the others are kept, by registration."""
    over = {incident.id for incident in standing if is_over(incident)}
    if over:
        incidents.end(sorted(over))
    return {i.table_uuid: f"{i.table}: {i.message}" for i in standing if i.id not in over}
