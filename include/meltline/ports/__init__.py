"""The protocols behind which catalogs, object stores, ledgers, committers and gates stand."""

from meltline.ports.catalogs import Catalog, CatalogEntry, CatalogListing, CommitOutcome, Committer
from meltline.ports.control_ledger import (
    Approval,
    AuditEntry,
    ControlLedger,
    KnownTable,
    Lease,
    Lock,
    RunRecord,
    StopSwitch,
)
from meltline.ports.file_ledger import (
    DepartingFile,
    FileLedger,
    IndexedFile,
    IndexedSnapshot,
    IngestRequest,
    LedgerContents,
    LedgerReader,
    SnapshotKey,
)
from meltline.ports.gates import GateEngine
from meltline.ports.readers import ManifestReader, ProofReader, ProofResult, ProofSnapshot
from meltline.ports.stores import DeleteOutcome, Deleter, ObjectStore, StoredObject

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
    "KnownTable",
    "Lease",
    "LedgerContents",
    "LedgerReader",
    "Lock",
    "ManifestReader",
    "ObjectStore",
    "ProofReader",
    "ProofResult",
    "ProofSnapshot",
    "RunRecord",
    "SnapshotKey",
    "StopSwitch",
    "StoredObject",
]
