"""The protocols behind which catalogs, object stores, ledgers, committers and gates stand."""

from meltline.ports.catalogs import (
    Catalog,
    CatalogEntry,
    CatalogListing,
    CommitOutcome,
    Committer,
    TableEdit,
    TableMove,
)
from meltline.ports.control_ledger import (
    Approval,
    AuditEntry,
    ControlLedger,
    KnownTable,
    Lease,
    Lock,
    RememberedMetadata,
    RunRecord,
    StopSwitch,
    WantedBack,
)
from meltline.ports.file_ledger import (
    DepartingFile,
    FileLedger,
    IndexedFile,
    IndexedSnapshot,
    IngestRequest,
    LedgerContents,
    LedgerReader,
    Neighbourhood,
    SnapshotKey,
)
from meltline.ports.gates import GateEngine
from meltline.ports.readers import ManifestReader, ProofReader, ProofResult, ProofSnapshot
from meltline.ports.stores import DeleteOutcome, Deleter, ObjectStore, StoredObject
from meltline.ports.sweep import Inventory, Listing, Sweeper

__all__ = [
    "Approval",
    "AuditEntry",
    "Catalog",
    "CatalogEntry",
    "CatalogListing",
    "CommitOutcome",
    "Committer",
    "ControlLedger",
    "DeleteOutcome",
    "Deleter",
    "DepartingFile",
    "FileLedger",
    "GateEngine",
    "IndexedFile",
    "IndexedSnapshot",
    "IngestRequest",
    "Inventory",
    "KnownTable",
    "Lease",
    "LedgerContents",
    "LedgerReader",
    "Listing",
    "Lock",
    "ManifestReader",
    "Neighbourhood",
    "ObjectStore",
    "ProofReader",
    "ProofResult",
    "ProofSnapshot",
    "RememberedMetadata",
    "RunRecord",
    "SnapshotKey",
    "StopSwitch",
    "StoredObject",
    "Sweeper",
    "TableEdit",
    "TableMove",
    "WantedBack",
]
