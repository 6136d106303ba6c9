"""Commands about chunks that start no JVM: policies, status, list, doctor (LT-34)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField

from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.cli.chunks.runs import WAYS_OUT
from meltline.cli.main import run
from meltline.domain.chunks.chunk import ChunkDrop, ChunkStatus, Deferral, DropStatus
from meltline.domain.clock import WallClock
from meltline.domain.units import format_instant

TABLE = "lake.air.readings"
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
COLUMNS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "day", DateType(), required=False),
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
CONFIG = """control: sqlite:///control.db
hot: lake
cold: ice
catalogs:
  lake: {type: sql, uri: "sqlite:///catalog.db", warehouse: w}
  ice: {type: sql, uri: "sqlite:///cold.db", warehouse: cold}
"""


def day(age: int) -> str:
    """The name of the chunk of so many days ago."""
    return f"{(TODAY - timedelta(days=age)).date()}"


@dataclass(frozen=True)
class Commands:
    """A lake in a folder with a table of chunks 100, 99 and 1 days old, and the command line."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str) -> tuple[int, Any]:
        code, text = self.text(*words, "--json")
        return code, json.loads(text)

    def text(self, *words: str) -> tuple[int, str]:
        """What a person sees."""
        self.capsys.readouterr()
        code = run([*words, "--config", str(self.folder / "meltline.yaml")])
        return code, self.capsys.readouterr().out

    def error(self, *words: str) -> tuple[int, str]:
        """An exit code and the type of the error."""
        code, document = self(*words)
        assert document["error"]["next"]
        return code, document["error"]["type"]

    def findings(self) -> dict[str, Any]:
        """What doctor says of chunks, by code."""
        _, document = self("doctor")
        return {f["code"]: f for f in document["findings"] if f["code"].startswith("chunks")}


@pytest.fixture
def meltline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Commands]:
    for name, folder in (("lake", "w"), ("ice", "cold")):
        (tmp_path / folder).mkdir()
        database = "catalog" if name == "lake" else "cold"
        catalog = SqlCatalog(
            name, uri=f"sqlite:///{tmp_path}/{database}.db", warehouse=f"file://{tmp_path}/{folder}"
        )
        if name == "lake":
            catalog.create_namespace("air")
            table = catalog.create_table("air.readings", COLUMNS, partition_spec=BY_DAY)
            for id, age in enumerate((100, 99, 1)):
                date = (TODAY - timedelta(days=age)).date()
                table.append(pa.table({"id": [id], "day": pa.array([date], pa.date32())}))
        catalog.close()
    ledger = sql_control_ledger(f"sqlite:///{tmp_path}/control.db", WallClock())
    ledger.database.prepare()
    ledger.database.close()
    (tmp_path / "meltline.yaml").write_text(CONFIG)
    yield Commands(tmp_path, capsys)


def test_a_policy_says_at_once_which_chunks_go_and_when(meltline: Commands) -> None:
    code, added = meltline("chunks", "tier-and-drop", TABLE, "7d", "90 days", "--keep-latest", "1")
    assert code == 0
    assert (added["type"], added["tier_after"], added["drop_after"]) == (
        "tiered_retention",
        "7d",
        "90d",
    )
    assert (added["first_chunk"], added["chunks_to_tier"], added["chunks_to_drop"]) == (
        day(100),
        2,
        2,
    )
    assert added["first_at"] == format_instant(TODAY - timedelta(days=92))
    assert added["bytes_to_drop"] > 0 and "not synced" in added["notices"][0]
    code, listed = meltline("chunks", "policies", TABLE)
    (policy,) = listed["policies"]
    assert code == 0 and policy["sentence"] == "tier after 7d, drop after 90d, keep the latest 1"


def test_a_person_reads_which_chunk_is_first_and_how_to_act_now(meltline: Commands) -> None:
    code, text = meltline.text("chunks", "drop-after", TABLE, "90d")
    assert code == 0
    assert f"The first chunk is {day(100)}, old enough at" in text
    assert "Old enough to be dropped now: 2 chunks" in text
    assert f"`meltline chunks drop {TABLE}` does it at once" in text


def test_a_second_policy_of_the_kind_or_a_shorter_drop_is_refused(meltline: Commands) -> None:
    assert meltline("chunks", "drop-after", TABLE, "90d")[0] == 0
    assert meltline.error("chunks", "drop-after", TABLE, "30d") == (2, "PolicyExists")
    assert meltline.error("chunks", "tier-and-drop", TABLE, "7d", "90d") == (2, "PolicyExists")
    assert meltline.error("chunks", "tier-after", TABLE, "90d") == (2, "InvalidHorizons")
    assert meltline.error("chunks", "tier-after", TABLE, "soon") == (2, "InvalidHorizons")
    assert meltline("chunks", "tier-after", TABLE, "7d")[0] == 0


def test_a_policy_that_is_forgotten_leaves_its_chunks_as_they_are(meltline: Commands) -> None:
    meltline("chunks", "drop-after", TABLE, "90d")
    assert meltline.error("chunks", "forget-policy", TABLE, "tiering") == (2, "NotChunked")
    assert meltline("chunks", "forget-policy", TABLE, "retention")[0] == 0
    assert meltline("chunks", "policies")[1] == {"policies": []}
    assert len(meltline("chunks", "list", TABLE)[1]["chunks"]) == 3


def test_status_and_list_say_what_waits_and_why(meltline: Commands) -> None:
    meltline("chunks", "tier-and-drop", TABLE, "7d", "90d")
    code, document = meltline("chunks", "status")
    (line,) = document["tables"]
    assert code == 0
    assert (line["schema_name"], line["table_name"]) == ("air", "readings")
    assert (line["active_chunks"], line["pending_chunks"], line["cdf_status"]) == (3, 2, "NONE")
    assert line["caught_up"] is False and line["after"] == "tier after 7d, drop after 90d"
    assert line["lag"] is None
    code, listed = meltline("chunks", "list", TABLE)
    first, *_ = listed["chunks"]
    assert (first["chunk"], first["status"], first["rows"]) == (day(100), "active", 1)
    assert first["waits"]["reason"] == "NOT_SYNCED"
    assert meltline("chunks", "status", "lake.sea.*") == (4, {"tables": []})


def test_a_person_reads_how_much_is_pending_and_that_nothing_is_on_disk_before_a_drop(
    meltline: Commands,
) -> None:
    meltline("chunks", "tier-and-drop", TABLE, "7d", "90d")
    (line,) = meltline("chunks", "status")[1]["tables"]
    assert line["pending_since"] == format_instant(TODAY - timedelta(days=92))
    assert (line["on_disk_bytes"], line["on_disk_until"], line["reclaimed_bytes"]) == (0, None, 0)
    code, text = meltline.text("chunks", "status")
    words = " ".join(text.split())
    assert code == 0 and "92 days late" in words and "freed" in words, text


def test_a_declared_sync_counts_for_nothing_until_it_has_copied(meltline: Commands) -> None:
    code, begun = meltline("chunks", "sync", TABLE, "--later")
    assert code == 0
    assert (begun["state"], begun["verified"], begun["cold"]) == (
        "COPYING",
        False,
        "ice.meltline_synced.air.readings",
    )
    assert meltline("chunks", "status")[1]["tables"][0]["cdf_status"] == "COPYING"
    assert "has not ended" in meltline.findings()["chunks_sync_silent"]["message"]
    code, stopped = meltline("chunks", "stop-sync", TABLE)
    assert code == 0 and stopped["state"] == "STOPPED"
    assert meltline.findings() == {}


def test_doctor_names_a_policy_that_does_nothing(meltline: Commands) -> None:
    meltline("chunks", "tier-after", TABLE, "7d")
    idle = meltline.findings()["chunks_policy_idle"]
    assert idle["object"] == TABLE and idle["fix"] == f"`meltline chunks sync {TABLE}`"


def test_explain_says_which_chunk_goes_next_and_what_keeps_it(meltline: Commands) -> None:
    meltline("chunks", "tier-and-drop", TABLE, "7d", "90d")
    code, explained = meltline("explain", TABLE)
    assert code == 0
    first, second = explained["chunks"]
    assert first.startswith("chunks: 3 in hot") and "0 chunks dropped" in first
    assert second.startswith(f"chunk {day(100)} of {TABLE} is active: tier after 7d, drop after")
    assert "it waits: NOT_SYNCED" in second


@pytest.mark.parametrize(
    ("words", "type"),
    [
        (("untier", f"{TABLE}@{day(100)}"), "ChunkNotFound"),
        (("untier", f"{TABLE}@1999-01-01"), "ChunkNotFound"),
        (("untier", "2026-01-01"), "UsageInvalid"),
        (("tier", TABLE), "UsageInvalid"),
        (("drop", TABLE, "--chunks", day(100)), "UsageInvalid"),
        (("drop", TABLE, "--reason", "case 17"), "UsageInvalid"),
        (("drop", TABLE, "--force", "--chunks", day(100)), "UsageInvalid"),
        (("drop", TABLE, "--force", "--reason", "case 17"), "UsageInvalid"),
        (("stop-sync", TABLE), "NotChunked"),
        (("list", "lake.air.none"), "TableNotFound"),
        (("sync", "lake.air.none"), "TableNotFound"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else part,
)
def test_what_cannot_be_done_is_refused_before_spark_is_started(
    words: tuple[str, ...], type: str, meltline: Commands
) -> None:
    meltline("chunks", "drop-after", TABLE, "90d")
    code, document = meltline("chunks", *words)
    assert code in (1, 2) and document["error"]["type"] == type, document


def test_every_reason_to_wait_has_its_way_out() -> None:
    assert WAYS_OUT.keys() == set(Deferral)


def test_a_table_that_nobody_has_cut_has_no_chunks_to_list_or_drop(meltline: Commands) -> None:
    assert meltline.error("chunks", "list", TABLE) == (2, "NotChunked")
    assert meltline.error("chunks", "drop", TABLE) == (2, "NotChunked")
    assert "No table is cut into chunks" in meltline.text("chunks", "status")[1]


def forget_how_a_drop_stands(meltline: Commands, name: str) -> None:
    """As if history had expired between two looks."""
    ledger = sql_control_ledger(f"sqlite:///{meltline.folder}/control.db", WallClock())
    (tracked,) = ledger.chunks.tracked()
    chunk = ledger.chunks.of(tracked.table_uuid)[name]
    drop = ChunkDrop(77, 0, None, DropStatus.UNKNOWN)
    unknown = replace(chunk, status=ChunkStatus.UNKNOWN, drops=(drop,), dropped_rows=1)
    ledger.chunks.advance(tracked, tracked, [unknown])
    ledger.database.close()


def test_a_drop_that_nobody_can_tell_is_shown_with_its_evidence_and_answered_once(
    meltline: Commands,
) -> None:
    assert meltline.text("chunks", "drop-after", TABLE, "3650d")[0] == 0
    assert meltline.text("chunks", "settle", TABLE)[1].startswith("Nothing of lake.air.readings")
    forget_how_a_drop_stands(meltline, day(100))
    assert meltline.findings()["chunks_unknown_drops"]["fix"].startswith("`meltline chunks settle")
    assert meltline("chunks", "status")[1]["tables"][0]["unknown_chunks"] == 1
    code, evidence = meltline("chunks", "settle", TABLE)
    assert code == 0
    assert [(c["chunk"], c["hot_rows"], c["dropped_rows"]) for c in evidence["chunks"]] == [
        (day(100), 1, 1)
    ]
    assert day(100) in meltline.text("chunks", "settle", TABLE)[1]
    code, answer = meltline("chunks", "settle", TABLE, "--drops", "undone", "--reason", "seen")
    assert (code, answer["chunks"]) == (0, [day(100)])
    assert "chunks_unknown_drops" not in meltline.findings()
    assert meltline("chunks", "status")[1]["tables"][0]["unknown_chunks"] == 0
