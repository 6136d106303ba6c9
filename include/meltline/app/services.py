"""What a step works with: the ports, wired once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from meltline.config import Config
from meltline.domain.clock import Clock
from meltline.ports import (
    Catalog,
    Committer,
    ControlLedger,
    Deleter,
    FileLedger,
    GateEngine,
    LedgerReader,
    ManifestReader,
    ObjectStore,
    ProofReader,
)


@dataclass(frozen=True)
class Ledgers:
    """What needs no JVM: enough to look, to decide on a policy, to stop and to go.

    Attributes:
        catalogs: By name, every one of `meltline.yaml`.
        reader: The file ledger's tables, read only.
        progress: Tells a person what is going on; never part of the answer.
        who: Under whose name decisions are recorded.
    """

    config: Config
    clock: Clock
    catalogs: Mapping[str, Catalog]
    store: ObjectStore
    manifests: ManifestReader
    control: ControlLedger
    reader: LedgerReader
    progress: Callable[[str], None]
    who: str


@dataclass(frozen=True)
class Services(Ledgers):
    """Everything the steps of the chain may touch."""

    files: FileLedger
    committer: Committer
    deleter: Deleter
    proofs: ProofReader
    gate: GateEngine
