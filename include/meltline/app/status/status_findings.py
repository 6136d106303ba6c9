"""Doctor's finding that purging has stopped in the whole lake.

`doctor` calls it; the causes come from `status/purge_status.py`.
"""

from collections.abc import Iterator

from meltline.app.safety.findings import Finding
from meltline.app.services import ReadContext
from meltline.app.status.purge_status import purge_status
from meltline.domain.units import format_instant


def stopped_findings(context: ReadContext) -> Iterator[Finding]:
    """Yields each cause for which nothing is deleted anywhere.

    An operator's decision is not included: `stopped` and `not_armed` are findings of their own.
    """
    for halt in purge_status(context).defects:
        yield Finding(
            "error",
            "purging_stopped",
            str(halt.reason),
            f"nothing is deleted in the whole lake since {format_instant(halt.since)}: {halt.why}",
            halt.next,
        )
