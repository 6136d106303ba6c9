"""Findings of `doctor` about foreign owners, and about those that operators have allowed."""

from collections.abc import Iterator

from meltline.app.ownership.foreign_owners import not_allowed
from meltline.app.safety.findings import Finding
from meltline.domain.safe_text import quote
from meltline.domain.units import format_instant
from meltline.ports import ForeignOwnerReader


def foreign_findings(owners: ForeignOwnerReader) -> Iterator[Finding]:
    """Yields a finding for each foreign owner that blocks a folder, and for each allowed one."""
    allowed = owners.allowed()
    for sign in not_allowed(owners.signs(), allowed):
        stays = "nothing is swept there"
        if sign.stops_named_files:
            stays += ", and nothing is purged"
        message = f"{sign.message}; {stays} since {format_instant(sign.seen_at)}"
        yield Finding("warning", "foreign_owner", sign.stops, message, sign.fix)
    for owner in allowed:
        at = format_instant(owner.at)
        message = f"{owner.who} says since {at} that it needs nothing: {owner.reason}"
        fix = f"`meltline sweep disallow {quote(owner.id)}` takes the word back"
        yield Finding("info", "owner_allowed", owner.id, message, fix)
