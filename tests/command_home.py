"""A lake for commands, in a folder: one table that says it has a million files and has none."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalogBaseTable
from sqlalchemy import create_engine, text

from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.domain.clock import WallClock
from meltline.domain.units import to_millis

TABLE = "lake.air.`it's t`"
COMMITS = 4
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def committed_at(number: int) -> datetime:
    """One commit a day; the last one was yesterday."""
    return TODAY - timedelta(days=COMMITS - number)


def a_million_files(location: str) -> dict[str, Any]:
    """The metadata of a table that was written to once a day, a quarter of a million files each."""
    moments = [to_millis(committed_at(number)) for number in range(COMMITS)]
    return {
        "format-version": 3,
        "table-uuid": "0b0c2a52-6a2a-4f6c-8f5e-2f3c1d1b7a10",
        "location": location,
        "last-sequence-number": COMMITS,
        "last-updated-ms": moments[-1],
        "next-row-id": 0,
        "properties": {},
        "current-snapshot-id": COMMITS,
        "snapshots": [
            {
                "snapshot-id": number + 1,
                **({"parent-snapshot-id": number} if number else {}),
                "sequence-number": number + 1,
                "timestamp-ms": at,
                "manifest-list": f"{location}/metadata/nobody-may-read-{number}.avro",
                "summary": {
                    "operation": "append",
                    "added-data-files": "250000",
                    "added-records": "2500000",
                    "added-files-size": "1000000000",
                    "total-data-files": str(250_000 * (number + 1)),
                    "total-delete-files": "0",
                    "total-records": str(2_500_000 * (number + 1)),
                    "total-files-size": str(1_000_000_000 * (number + 1)),
                },
            }
            for number, at in enumerate(moments)
        ],
        "snapshot-log": [
            {"snapshot-id": number + 1, "timestamp-ms": at} for number, at in enumerate(moments)
        ],
        "metadata-log": [],
        "refs": {
            "main": {"snapshot-id": COMMITS, "type": "branch"},
            "wip": {"snapshot-id": COMMITS, "type": "branch"},
        },
    }


@dataclass(frozen=True)
class Home:
    """A lake in a folder: a SQL catalog, one table, a prepared control ledger."""

    folder: Path

    def document(self) -> dict[str, Any]:
        """The table's current metadata."""
        engine = create_engine(f"sqlite:///{self.folder}/catalog.db")
        with engine.connect() as connection:
            at = connection.execute(text("SELECT metadata_location FROM iceberg_tables")).scalar()
        engine.dispose()
        found: dict[str, Any] = json.loads(Path(str(at).removeprefix("file://")).read_text())
        return found


def make_home(folder: Path) -> Home:
    """Makes it, ready for commands."""
    location = f"{folder}/w/air/t"
    metadata = Path(location) / "metadata" / "00000-a.metadata.json"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(json.dumps(a_million_files(f"file://{location}")))
    engine = create_engine(f"sqlite:///{folder}/catalog.db")
    SqlCatalogBaseTable.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name,"
                " metadata_location) VALUES ('lake', 'air', 'it''s t', :at)"
            ),
            {"at": f"file://{metadata}"},
        )
    engine.dispose()
    ledger = sql_control_ledger(f"sqlite:///{folder}/control.db", WallClock())
    ledger.database.prepare()
    ledger.database.close()
    (folder / "meltline.yaml").write_text(
        "control: sqlite:///control.db\nhot: lake\ncatalogs:\n  lake:\n    type: sql\n"
        "    uri: sqlite:///catalog.db\n    warehouse: w\n"
    )
    return Home(folder)
