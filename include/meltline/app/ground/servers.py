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
    """

    reason: str
    server: str
    at: str

    @property
    def written(self) -> str:
        """As the catalog keeps it."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def read(cls, text: str) -> "ServerVerdict | None":
        """What `written` was; None where it is anything else."""
        try:
            fields = json.loads(text)
            return cls(str(fields["reason"]), str(fields["server"]), str(fields["at"]))
        except (ValueError, KeyError, TypeError):
            return None


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
    properties: Mapping[str, str] = listing.namespaces.get((config.ledger_namespace,), {})
    verdict = ServerVerdict.read(properties.get(PROBED, ""))
    if verdict is None:
        return "its server was never probed"
    if verdict.server != listing.server:
        return "its server is not the one that was probed, or is configured otherwise"
    return verdict.reason
