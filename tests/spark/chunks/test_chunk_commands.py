"""The life of a table's chunks by its commands alone: copied, flagged, dropped, late, read back."""

import json
import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import meltline
from meltline.cli.main import run
from meltline.domain.errors import MeltlineError
from meltline.domain.units import format_instant
from tests.spark.setups.warehouse import TODAY, Warehouse, quoted

pytestmark = pytest.mark.spark

MIDNIGHT = TODAY.replace(hour=0, minute=0, second=0)
OLD, LATER, NEW = ((MIDNIGHT - timedelta(days=n)).date().isoformat() for n in (100, 99, 1))


class Lake:
    """A table partitioned by day in hot, a cold catalog, and the command line over both."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        mark = uuid4().hex[:8]
        cold = f"ice_{mark}"
        (root / "cold").mkdir()
        self.hot = Warehouse.empty(
            root,
            f"hot_{mark}",
            config=f"  {cold}:\n    type: sql\n    uri: sqlite:///cold.db\n    warehouse: cold\n"
            f"cold: {cold}\n",
        )
        self.table = f"{self.hot.catalog}.n.readings"
        self.cold = quoted(cold, "meltline_synced", "n", "readings")
        self.is_simulated = True
        self._capsys = capsys

    def __call__(self, *words: str, days: float = 0) -> tuple[int, Any]:
        code, text = self.text(*words, "--json", days=days)
        return code, json.loads(text)

    def text(self, *words: str, days: float = 0) -> tuple[int, str]:
        """What a person sees, so many days from now."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MELTLINE_CONFIG", str(self.hot.yaml))
            if self.is_simulated:
                patch.setenv("MELTLINE_NOW", format_instant(TODAY + timedelta(days=days)))
            self._capsys.readouterr()
            code = run([*words])
        return code, self._capsys.readouterr().out

    def insert(self, day: str, *ids: int) -> None:
        """Rows of a day."""
        rows = ", ".join(f"({id}, TIMESTAMP '{day} 06:00:00')" for id in ids)
        self.hot.sql(f"INSERT INTO {{readings}} VALUES {rows}")

    def ids(self, table: str = "") -> list[int]:
        """The rows that a query finds, in hot unless said otherwise."""
        name = table or self.hot.name("readings")
        return [
            row.id for row in self.hot.spark.sql(f"SELECT id FROM {name} ORDER BY id").collect()
        ]


@pytest.fixture
def lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Lake]:
    made = Lake(tmp_path, capsys)
    made.hot.sql(
        "CREATE TABLE {readings} (id BIGINT, at TIMESTAMP) USING iceberg PARTITIONED BY (days(at))"
    )
    for day, id in ((OLD, 1), (LATER, 3), (NEW, 5)):
        made.insert(day, id, id + 1)
    assert made("init", "--sandbox")[0] == 0
    yield made


def test_a_table_is_synced_tiered_and_dropped_by_age_and_cold_has_every_row(lake: Lake) -> None:
    code, synced = lake("chunks", "sync", lake.table)
    assert code == 0, synced
    assert (synced["state"], synced["rows_copied"], synced["verified"]) == ("STREAMING", 6, True)
    assert lake.ids(lake.cold) == lake.ids() == [1, 2, 3, 4, 5, 6]

    code, added = lake("chunks", "tier-and-drop", lake.table, "7d", "90d", "--max-lateness", "2d")
    assert code == 0 and isinstance(added["id"], int)
    assert (added["first_chunk"], added["chunks_to_tier"], added["chunks_to_drop"]) == (OLD, 2, 2)

    code, first_day = lake("chunks", "run")
    assert code == 0, first_day
    assert first_day["tables"][0]["chunks_tiered"] == 2 and lake.ids() == [1, 2, 3, 4, 5, 6]
    assert "its policy is new" in first_day["notices"][0]
    assert statuses(lake) == {OLD: "tiered", LATER: "tiered", NEW: "active"}

    code, done = lake("chunks", "run", "--once", "for this test", days=2)
    assert code == 0, done
    (drop,) = done["drops"]
    assert drop["chunks"] == [OLD, LATER] and lake.ids() == [5, 6]
    assert drop["out_of_hot"] < drop["out_of_history"] < drop["gone"]
    assert lake.ids(lake.cold) == [1, 2, 3, 4, 5, 6]

    lake.insert(OLD, 7)
    code, late = lake("chunks", "drop", lake.table, days=2.01)
    assert code == 0 and [line["reason"] for line in late.get("deferred", ())] == ["BEHIND"], late
    assert statuses(lake, days=2.01)[OLD] == "reopened"
    code, passed = lake("chunks", "replicate", "--tables", "*.readings", days=2.02)
    assert code == 0 and passed["syncs"][0]["rows_copied"] == 1, passed
    code, again = lake("chunks", "run", days=2.03)
    assert code == 0, again
    assert again["drops"][0]["chunks"] == [OLD]
    assert lake.ids() == [5, 6] and lake.ids(lake.cold) == [1, 2, 3, 4, 5, 6, 7]

    code, stands = lake("chunks", "status", days=2.03)
    (line,) = stands["tables"]
    assert (line["dropped_chunks"], line["active_chunks"], line["pending_chunks"]) == (2, 1, 0)
    assert line["cdf_status"] == "STREAMING"
    code, run_shown = lake("show", "run", "last", days=2.03)
    assert code == 0 and run_shown["plans"][0]["kind"] == "drop_chunks"


def statuses(lake: Lake, days: float = 0) -> dict[str, str]:
    code, listed = lake("chunks", "list", lake.table, days=days)
    assert code == 0
    return {line["chunk"]: line["status"] for line in listed["chunks"]}


def test_a_plan_of_drops_goes_through_its_gate_and_is_applied_by_hand(lake: Lake) -> None:
    assert lake("chunks", "drop-after", lake.table, "90d")[0] == 0
    code, planned = lake("plan", "drops")
    (plan,) = planned["plans"]
    assert code == 0 and plan["chunks"] == [OLD, LATER]
    code, verdict = lake("gate", plan["id"])
    assert code == 0 and verdict["passed"], verdict
    assert OLD in lake.text("show", "plan", plan["id"])[1]
    code, applied = lake("apply", plan["id"])
    assert code == 0 and applied["chunks_dropped"] == [OLD, LATER], applied
    assert lake.ids() == [5, 6]


def test_force_shows_what_is_at_risk_and_drops_what_nobody_has_proved(lake: Lake) -> None:
    assert lake("chunks", "sync", lake.table)[0] == 0
    assert lake("chunks", "tier", f"{lake.table}@{OLD}")[1]["tiered"]
    lake.insert(OLD, 8)
    code, flag = lake("chunks", "tier", f"{lake.table}@{OLD}")
    assert (code, flag["tiered"], flag["reason"]) == (3, False, "BEHIND")
    words = ("chunks", "drop", lake.table, "--force", "--chunks", OLD, "--reason", "case 17")
    code, would = lake(*words, "--dry-run")
    assert code == 0 and would["at_risk"][0]["rows"] == 3 and lake.ids()[-1] == 8
    code, done = lake(*words)
    assert code == 0, done
    assert done["drops"][0]["chunks"] == [OLD] and 8 not in lake.ids()


def test_a_program_does_the_same_by_the_names_that_people_know(lake: Lake) -> None:
    config, chunk = lake.hot.yaml, f"{lake.table}@{OLD}"
    with pytest.warns(UserWarning, match="not synced"):
        first = meltline.add_tiered_retention_policy(lake.table, "7 days", "90 days", config=config)
    with pytest.raises(MeltlineError, match="has a policy already"):
        meltline.add_retention_policy(lake.table, "1 year", config=config)
    assert [p.id for p in meltline.show_tiered_retention_policy(config=config)] == [first]
    with pytest.raises(UserWarning, match="NOT_SYNCED"), warnings.catch_warnings():
        warnings.filterwarnings(
            "error", category=UserWarning
        )  # the engine that judges has warnings go to the log
        meltline.execute_retention(lake.table, config=config)

    synced = meltline.enable_sync(lake.table, config=config)
    assert synced.state == "STREAMING" and lake.ids(lake.cold) == lake.ids()
    assert meltline.tier_chunk(chunk, config=config)
    assert not meltline.tier_chunk(f"{lake.table}@1999-01-01", config=config)
    (stands,) = meltline.show_tiering_status(lake.table, config=config)
    assert (stands.tiered_chunks, stands.pending_chunks, stands.caught_up) == (1, 2, True)
    meltline.untier_chunk(chunk, config=config)
    with pytest.raises(MeltlineError, match="is not tiered"):
        meltline.untier_chunk(chunk, config=config)

    assert meltline.execute_retention(lake.table, config=config) == 2
    assert lake.ids() == [5, 6] and lake.ids(lake.cold) == [1, 2, 3, 4, 5, 6]
    assert meltline.disable_sync(lake.table, config=config).state == "STOPPED"
    meltline.remove_tiered_retention_policy(lake.table, config=config)
    assert meltline.execute_retention(lake.table, config=config) == 0


def test_large_deletes_by_others_wait_for_a_word_and_runs_say_so(lake: Lake) -> None:
    assert lake("chunks", "sync", lake.table)[0] == 0
    lake.hot.sql("DELETE FROM {readings} WHERE id IN (1, 2)")
    code, refused = lake("chunks", "replicate")
    assert code == 3 and refused["syncs"][0]["reason"] == "LARGE_DELETES", refused
    assert lake("show", "run", "last")[1]["outcome"] == "refused"
    _, document = lake("doctor")
    findings = {f["code"]: f for f in document["findings"]}
    assert "--deletes mirror" in findings["chunks_sync_failed"]["fix"]
    assert "cold_foreign_commit" not in findings
    code, kept = lake("chunks", "replicate", "--deletes", "keep")
    assert code == 0 and kept["syncs"][0]["state"] == "STREAMING", kept
    assert lake.ids() == [3, 4, 5, 6] and lake.ids(lake.cold) == [1, 2, 3, 4, 5, 6]
    assert statuses(lake)[OLD] == "dropped"


def test_nothing_is_dropped_by_hand_in_a_catalog_that_nobody_has_armed(lake: Lake) -> None:
    lake.hot.yaml.write_text(lake.hot.yaml.read_text().replace("sandbox: true", "sandbox: false"))
    lake.is_simulated = False
    assert lake("chunks", "drop-after", lake.table, "90d")[0] == 0
    code, text = lake.text("chunks", "drop", lake.table)
    assert code == 3 and "arm" in text.splitlines()[0] and lake.ids()[0] == 1, text
    code, done = lake("chunks", "drop", lake.table, "--once", "looked at it")
    assert code == 0 and done["drops"][0]["chunks"] == [OLD, LATER], done
    assert lake.ids() == [5, 6]
