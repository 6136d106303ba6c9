"""Random lives in which a copy of the installation runs on the same storage.

A copy has the catalog, the control ledger and the file ledger of the moment at which it was made,
as staging has that was restored from dumps of production.
"""

import copy
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from meltline.app.safety.installations import mark_of
from meltline.domain.errors import LedgerOutOfStep
from tests.lake.lake import DAY, WAREHOUSE, Lake
from tests.lives.recorded import rule
from tests.lives.restored_ledgers import RestoredLedgers, backup_of, restore

CATALOG = ("_tables", "_namespaces")
NO_ROWS = ("store", "guard")
DESTROYS = ("run ", "a step by itself")


@dataclass(frozen=True)
class Installation:
    """What belongs to an installation and not to the storage, at one moment."""

    ledger: dict[str, Any]
    catalog: dict[str, Any]
    files: dict[str, Any]

    @classmethod
    def of(cls, lake: Lake) -> "Installation":
        catalog, files = vars(lake.catalogs["lake"]), vars(lake.file_tables)
        return cls(
            backup_of(lake),
            {name: copy.deepcopy(catalog[name]) for name in CATALOG},
            {name: copy.deepcopy(rows) for name, rows in files.items() if name not in NO_ROWS},
        )

    def put_into(self, lake: Lake) -> None:
        """Has the lake be that installation; the storage stays as it is."""
        restore(lake, self.ledger)
        vars(lake.catalogs["lake"]).update(copy.deepcopy(self.catalog))
        vars(lake.file_tables).update(copy.deepcopy(self.files))


def destructions(lake: Lake) -> int:
    """How many epochs have begun with a destruction, and not with a person's decision."""
    epochs = lake.control.epochs.since(0)
    return sum(epoch.confirmed and epoch.why.startswith(DESTROYS) for epoch in epochs)


def mark(lake: Lake) -> bytes:
    """What the warehouse says of the installation that last destroyed something."""
    path = mark_of(WAREHOUSE)
    return lake.store.read(path) if lake.store.size(path) is not None else b""


class CopiedInstallations(RestoredLedgers):
    """One such lake's life. The copy is never the first to destroy something after it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.copied: Installation | None = None
        self.known = 0

    @rule()
    def installation_is_copied(self) -> None:
        self.copied, self.known = Installation.of(self.lake), destructions(self.lake)

    @rule(days=st.integers(0, 40))
    def copy_runs(self, days: int) -> None:
        """It is refused, however late it comes, once its original has destroyed something."""
        if self.copied is None or destructions(self.lake) == self.known:
            return
        ours, present = Installation.of(self.lake), self.lake.clock.moment
        deleted = len(self.lake.deleter.deleted)
        self.copied.put_into(self.lake)
        self.lake.clock.moment += days * DAY
        with suppress(LedgerOutOfStep):
            self.lake.run()
            raise AssertionError("a copied installation was not refused")
        assert len(self.lake.deleter.deleted) == deleted
        self.lake.clock.moment = present
        ours.put_into(self.lake)
        self.lake.check()
