"""Whether a catalog whose server writes the metadata may be managed: what a probe of it said.

The verdict stands in the catalog itself, as a property of the ledger's namespace, with what the
server said of itself then. Behind the same name may stand another server tomorrow, or another
release of it: nothing of its tables expires until it is probed too (decision 048).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from meltline.config.load import CatalogConfig, Config
from meltline.ports import CatalogListing

PROBED = "meltline.probed"
"""The namespace property that has the verdict."""


@dataclass(frozen=True)
class ServerVerdict:
    """What a probe came to.

    Attributes:
        reason: Why its tables are not managed; empty where they are.
        server: What the server said of itself, as `CatalogListing.server`.
        at: When, in UTC.
        half_seen: Where its tables may lie, if it shows only a part of them.
    """

    reason: str
    server: str
    at: str
    half_seen: tuple[str, ...] = ()

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
            return cls(str(fields["reason"]), str(fields["server"]), str(fields["at"]), half_seen)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


HALF_SEEN = "it shows one of its own branches only, and nobody can tell what the others need"


def half_seen_by(config: Config, listing: CatalogListing) -> tuple[str, ...]:
    """Where a catalog shows only a part: by its own word, or by what a probe once came to.

    What is behind the same name now may be another server; its places are not safe by that.
    """
    verdict = _verdict(config, listing)
    return listing.half_seen or (verdict.half_seen if verdict else ())


def _verdict(config: Config, listing: CatalogListing) -> ServerVerdict | None:
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
    verdict = _verdict(config, listing)
    if verdict is None:
        return "its server was never probed"
    if verdict.server != listing.server:
        return "its server is not the one that was probed, or is configured otherwise"
    return verdict.reason
