"""Who is asked again for the keys to a table's files, once those that a server gave have ended."""

from collections.abc import Sequence
from dataclasses import dataclass

from meltline.adapters.catalogs.rest.connection import connect
from meltline.adapters.catalogs.rest.protocol import LoadedTable, RestProtocol
from meltline.adapters.object_store.vended import vended
from meltline.config.load import CatalogConfig
from meltline.domain.iceberg.names import TableName
from meltline.ports import VendedCredentials


@dataclass(frozen=True)
class TableVendor:
    """The port `CredentialVendor` for one table. Executors have it, and connect by themselves."""

    config: CatalogConfig
    name: TableName

    def __call__(self, location: str) -> Sequence[VendedCredentials]:
        """All that the server gives with the table. See the port."""
        protocol = RestProtocol(self.config.name, lambda: connect(self.config))
        return credentials_of(protocol.load(self.name, refs_only=True))


def credentials_of(table: LoadedTable) -> Sequence[VendedCredentials]:
    """What a server gave with a table."""
    return vended(
        {
            "metadata-location": table.metadata_location,
            "metadata": table.metadata,
            "config": table.config,
            "storage-credentials": table.credentials,
        }
    )
