"""What `doctor` says about rollups, by the ledger alone: the last refresh says what was wrong."""

from collections.abc import Iterator, Sequence

from meltline.app.safety.findings import Finding
from meltline.domain.chunks.rollup import Rollup
from meltline.domain.safe_text import quote
from meltline.domain.units import counted, format_instant


def rollup_findings(rollups: Sequence[Rollup]) -> Iterator[Finding]:
    """Rollups that cannot be refreshed, and those with rows that came too late for their bucket."""
    for rollup in rollups:
        if rollup.problem:
            since = rollup.last_refreshed_at
            stood = f"as it was at {format_instant(since)}" if since else "without a row"
            yield Finding(
                "error",
                "rollup_failed",
                rollup.name,
                f"it stands {stood}, and chunks of {rollup.source} wait: {rollup.problem}",
                f"`meltline rollups refresh {quote(rollup.name)}` tries again, as the next run "
                "does; "
                f"`meltline rollups drop {quote(rollup.name)}` lets the chunks go without it",
            )
        if rollup.missed:
            buckets = counted(rollup.buckets.count(rollup.missed), "bucket")
            yield Finding(
                "warning",
                "rollup_missed",
                rollup.name,
                f"rows of {rollup.source} came for {buckets} whose source was dropped before, the "
                f"newest until {format_instant(rollup.missed[-1].end)}: they keep their values",
                "write with `meltline sql`, which refuses such rows; or choose a longer drop age",
            )
