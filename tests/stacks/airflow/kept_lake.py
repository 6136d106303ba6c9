"""One small lake for all tests, its control ledger in Postgres, brought back as it was built."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.domain.clock import WallClock
from meltline.ports.control.runs import RunRecord
from tests.dags.small_lake import small_lake
from tests.stacks.airflow.databases import Database


@dataclass(frozen=True)
class KeptLake:
    """A lake that tests change one after the other; metadata names paths, so its own stays."""

    config: Path
    kept: Path
    ledger: Database

    @classmethod
    def build(cls, folder: Path, ledger: Database) -> "KeptLake":
        """Builds it; each table is a batch of its own."""
        config = small_lake(folder / "lake", files_per_app=1, control=ledger.url)
        kept = shutil.copytree(config.parent, folder / "kept")
        ledger.keep()
        return cls(config, kept, ledger)

    def restore(self) -> None:
        """Makes it what it was, with its ledger; nobody may work on it."""
        shutil.rmtree(self.config.parent)
        shutil.copytree(self.kept, self.config.parent)
        self.ledger.restore()

    def runs(self) -> dict[str, RunRecord]:
        """What the ledger has of each run."""
        control = sql_control_ledger(self.ledger.url, WallClock())
        try:
            records = control.runs.newest(None)
        finally:
            control.database.close()
        assert len({record.id for record in records}) == len(records)
        return {record.id: record for record in records}
