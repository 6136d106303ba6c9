"""Whether a catalog whose server writes the metadata may be managed: what a probe of it said.

The verdict stands in the catalog itself, as a property of the ledger's namespace, with what the
server said of itself then. Behind the same name may stand another server tomorrow, or another
release of it: nothing of its tables expires until it is probed too (decision 048).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from meltline.config.load import CatalogConfig, Config
from meltline.domain.units import format_instant, parse_instant
from meltline.ports import CatalogListing

PROBED = "meltline.probed"
"""The namespace property that has the verdict."""


SECOND_CHECK_AFTER = timedelta(minutes=10)
_TEXTS = ("reason", "server", "at", "dropped", "checked")


@dataclass(frozen=True)
class ServerVerdict:
    """What a probe came to.

    Attributes:
        reason: Why its tables are not managed; empty where they are.
        server: What the server said of itself, as `CatalogListing.server`.
        at: When, in UTC.
        half_seen: Where its tables may lie, if it shows only a part of them.
        dropped: The metadata file of a scratch table that the probe dropped; empty once the second
            check has looked for it.
        checked: When a second check found such a file untouched, in UTC; empty before the first.
    """

    reason: str
    server: str
    at: str
    half_seen: tuple[str, ...] = ()
    dropped: str = ""
    checked: str = ""

    @property
    def is_open(self) -> bool:
        """Whether its tables are only read until a second check is made."""
        return not self.reason and not self.checked

    @property
    def due(self) -> datetime:
        """When the second check is due: servers delete in the background, within minutes."""
        return parse_instant(self.at) + SECOND_CHECK_AFTER

    @property
    def written(self) -> str:
        """As the catalog keeps it."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def read(cls, text: str) -> "ServerVerdict | None":
        """What `written` was; None where it is anything else."""
        try:
            fields = json.loads(text)
            half_seen = tuple(map(str, fields.get("half_seen", ())))
            texts = {key: str(fields[key]) for key in _TEXTS}
            verdict = cls(half_seen=half_seen, **texts)
            return verdict if not verdict.is_open or (verdict.dropped and verdict.due) else None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


HALF_SEEN = "it shows one of its own branches only, and nobody can tell what the others need"


def half_seen_by(config: Config, listing: CatalogListing) -> tuple[str, ...]:
    """Where a catalog shows only a part: by its own word, or by what a probe once came to.

    What is behind the same name now may be another server; its places are not safe by that.
    """
    verdict = verdict_of(config, listing)
    return listing.half_seen or (verdict.half_seen if verdict else ())


def verdict_of(config: Config, listing: CatalogListing) -> ServerVerdict | None:
    """The verdict that a catalog keeps; None where its server was never probed."""
    properties: Mapping[str, str] = listing.namespaces.get((config.ledger_namespace,), {})
    return ServerVerdict.read(properties.get(PROBED, ""))


def unmanaged_reason(config: Config, name: str, listing: CatalogListing) -> str:
    """Why nothing of a catalog's tables expires or is let go; empty where it does.

    Args:
        config: Names the catalog's type, and the namespace of the ledger.
        name: The catalog.
        listing: What it has.
    """
    catalog: CatalogConfig = config.catalogs[name]
    if not catalog.server_commits:
        return ""
    if listing.half_seen:
        return HALF_SEEN
    verdict = verdict_of(config, listing)
    if verdict is None:
        return "its server was never probed"
    if verdict.server != listing.server:
        return "its server is not the one that was probed, or is configured otherwise"
    if verdict.is_open:
        return f"its probe waits for its second check until {format_instant(verdict.due)}"
    return verdict.reason


def is_probe_open(config: Config, listing: CatalogListing) -> bool:
    """Whether a catalog is not managed for no other reason than a second check to come."""
    verdict = verdict_of(config, listing)
    is_same = verdict is not None and verdict.server == listing.server
    return verdict is not None and is_same and verdict.is_open and not listing.half_seen
