"""What `doctor` says of catalogs that show only a part of what is needed."""

from meltline.app.ownership.half_seen import half_seen_sentences
from meltline.app.safety.findings import Finding
from meltline.domain.deletion.withheld import MOVE_AWAY
from meltline.ports import PlaceReader


def half_seen_findings(places: PlaceReader) -> list[Finding]:
    """A warning for each, with the places where nothing is deleted."""
    return [
        Finding("warning", "catalog_half_seen", name, text, MOVE_AWAY)
        for name, text in half_seen_sentences(places)
    ]
