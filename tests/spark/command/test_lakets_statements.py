"""The statements of LakeTS as its users write them, in Spark and by the command (LT-34)."""

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
from meltline.domain.errors import (
    ChunkNotFound,
    InvalidHorizons,
    PolicyExists,
    SqlUnreadable,
    StatementUnsupported,
)
from tests.spark.setups.warehouse import TODAY, Warehouse, quoted

pytestmark = pytest.mark.spark

OLD, LATER, NEW = (f"{TODAY - timedelta(days=n):%Y-%m-%d}" for n in (100, 99, 1))


class Lake:
    """Table `metrics` by day in hot, a cold catalog, and a session that stands in its schema."""

    def __init__(
        self, root: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        mark = uuid4().hex[:8]
        cold = f"ice_{mark}"
        (root / "cold").mkdir()
        self.hot = Warehouse.empty(
            root,
            f"hot_{mark}",
            config=f"  {cold}:\n    type: sql\n    uri: sqlite:///cold.db\n    warehouse: cold\n"
            f"cold: {cold}\n",
        )
        self.full = f"{self.hot.catalog}.n.metrics"
        self.cold = quoted(cold, "meltline_synced", "n", "metrics")
        self.notices: list[str] = []
        self._capsys, self._caplog = capsys, caplog

    def rows(self, text: str) -> list[dict[str, Any]]:
        """`meltline.sql`; its warnings are kept: what judges has them go to the log."""
        self._caplog.clear()
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            frame = meltline.sql(self.hot.spark, text, config=self.hot.yaml)
        logged = [r.getMessage() for r in self._caplog.records if r.name == "py.warnings"]
        ours = [str(w.message) for w in raised if w.filename == __file__]
        self.notices = [*ours, *(message for message in logged if __file__ in message)]
        return [row.asDict() for row in frame.collect()]

    def value(self, call: str) -> Any:
        """SELECT lakets.call: one row, one column, called like the function."""
        (row,) = self.rows(f"SELECT lakets.{call}")
        assert list(row) == [call.partition("(")[0]]
        return next(iter(row.values()))

    def command(self, text: str) -> tuple[int, Any]:
        """`meltline sql`, where short names are of the schema."""
        self._capsys.readouterr()
        code = run(
            ["sql", text, "--in", f"{self.hot.catalog}.n", "--json", "--config", str(self.hot.yaml)]
        )
        return code, json.loads(self._capsys.readouterr().out)

    def insert(self, day: str, *ids: int) -> None:
        """Rows of a day."""
        rows = ", ".join(f"({id}, TIMESTAMP '{day} 06:00:00')" for id in ids)
        self.hot.sql(f"INSERT INTO {{metrics}} VALUES {rows}")

    def ids(self, table: str = "") -> list[int]:
        """The rows that a query finds, in hot unless said otherwise."""
        name = table or self.hot.name("metrics")
        found = self.hot.spark.sql(f"SELECT id FROM {name} ORDER BY id").collect()
        return [row.id for row in found]


@pytest.fixture
def lake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Iterator[Lake]:
    made = Lake(tmp_path, capsys, caplog)
    made.hot.sql(
        "CREATE TABLE {metrics} (id BIGINT, at TIMESTAMP) USING iceberg PARTITIONED BY (days(at))"
    )
    for day, id in ((OLD, 1), (LATER, 3), (NEW, 5)):
        made.insert(day, id, id + 1)
    assert run(["init", "--sandbox", "--config", str(made.hot.yaml)]) == 0
    spark = made.hot.spark
    before = spark.catalog.currentCatalog()
    spark.sql(f"USE {made.hot.catalog}.n")
    yield made
    spark.catalog.setCurrentCatalog(before)


@pytest.mark.slow("many statements, each a command with Spark")
def test_the_life_of_a_table_in_the_words_of_the_source(lake: Lake) -> None:
    policy = lake.value("add_tiered_retention_policy('metrics', '7 days', '90 days');")
    assert isinstance(policy, int) and "not synced" in lake.notices[0]  # LT-9
    assert lake.value("execute_retention('metrics')") == 0
    assert any("NOT_SYNCED" in notice for notice in lake.notices)  # LT-20

    assert lake.value("enable_sync('metrics')") == ""
    assert lake.ids(lake.cold) == lake.ids() == [1, 2, 3, 4, 5, 6]
    assert lake.value("enable_sync('metrics')") == "" and "already" in lake.notices[0]
    assert lake.value(f"tier_chunk('metrics@{OLD}')") is True
    assert lake.value("tier_chunk('metrics@1999-01-01')") is False
    (stands,) = lake.rows("SELECT * FROM lakets.show_tiering_status()")
    assert (stands["table_name"], stands["tiered_chunks"], stands["cdf_status"]) == (
        "metrics",
        1,
        "STREAMING",
    )
    assert lake.value(f"untier_chunk('{lake.full}@{OLD}')") == ""
    with pytest.raises(ChunkNotFound):
        lake.value(f"untier_chunk('metrics@{OLD}')")

    lake.insert(OLD, 7)
    assert lake.value("execute_retention('metrics')") == 1  # LT-21
    assert any(f"{OLD} waits: BEHIND" in notice for notice in lake.notices)
    assert lake.ids() == [1, 2, 5, 6, 7]
    assert lake.value("execute_retention('metrics', p_force => TRUE)") == 1  # LT-22
    assert f"dropped by force: {OLD}" in lake.notices[0] and "BEHIND" in lake.notices[1]
    assert lake.ids() == [5, 6] and lake.ids(lake.cold)[:6] == [1, 2, 3, 4, 5, 6]

    (stands,) = lake.rows("SELECT * FROM lakets.show_tiering_status('metrics')")
    assert stands["on_disk_bytes"] > 0 and stands["reclaimed_bytes"] == 0
    assert stands["last_run_at"] is not None
    assert lake.value("disable_sync('metrics')") == ""
    assert lake.value("remove_retention_policy('metrics')") == ""
    assert lake.value("execute_retention('metrics')") == 0


@pytest.mark.slow("many statements, each a command with Spark")
def test_policies_are_said_in_every_way_of_postgres(lake: Lake) -> None:
    ways = [
        "add_tiering_policy('metrics', '7 days')",
        "add_tiering_policy('n.metrics', INTERVAL '7 days')",
        f"add_tiering_policy('{lake.full}', '7 days'::interval)",
        "add_tiering_policy(p_table_name => 'metrics', p_after => '7 days')",
        "add_tiering_policy('metrics', p_after := '7 days', p_schema_name := 'n')",
        "add_tiering_policy($$metrics$$, '1 week', 'n')",
    ]
    ids = []
    for way in ways:
        ids.append(lake.value(way))
        (shown,) = lake.rows("SELECT * FROM lakets.show_tiering_policy('metrics');")
        assert list(shown) == ["policy_id", "after", "enabled", "last_run_at"]
        assert (shown["policy_id"], shown["after"], shown["enabled"]) in (
            (ids[-1], "7d", True),
            (ids[-1], "1w", True),
        )
        with pytest.raises(PolicyExists):
            lake.value(way)
        assert lake.value("remove_tiering_policy(p_table_name => 'metrics')") == ""
    assert len(set(ids)) == len(ways)
    lake.value("add_retention_policy('metrics', p_drop_after => '90 days')")
    (shown,) = lake.rows("SELECT * FROM lakets.show_retention_policy('metrics') AS p")
    assert (shown["policy_type"], shown["drop_after"], shown["tier_after"]) == (
        "retention",
        "90d",
        None,
    )
    assert lake.value("execute_retention('metrics')") == 2 and lake.ids() == [5, 6]  # LT-19


def test_what_is_not_right_is_refused_before_anything_is_done(lake: Lake) -> None:
    with pytest.raises(InvalidHorizons):
        lake.value("add_tiered_retention_policy('metrics', '90 days', '7 days')")  # LT-24
    with pytest.raises(SqlUnreadable, match="line 1, column"):
        lake.value("add_tiering_policy('metrics')")
    with pytest.raises(StatementUnsupported) as refused:
        lake.rows("SELECT lakets.time_bucket('1 hour', at) AS b, count(*) FROM metrics GROUP BY 1")
    assert "date_trunc" in refused.value.next
    with pytest.raises(StatementUnsupported) as refused:
        lake.rows("SELECT lakets.create_chronotable('metrics', 'at', '1 day')")
    assert "PARTITIONED BY" in refused.value.next
    assert lake.rows("SELECT * FROM lakets.show_tiering_status()") == []
    assert lake.ids() == [1, 2, 3, 4, 5, 6]


def test_the_command_runs_the_same_statements(lake: Lake) -> None:
    code, answer = lake.command("SELECT lakets.disable_sync('metrics')")
    assert (code, answer["warnings"]) == (0, [f"{lake.full} is not synced"]), answer
    code, answer = lake.command("SELECT lakets.enable_sync('metrics')")
    assert (code, answer["rows"]) == (0, [[""]]), answer
    code, answer = lake.command(
        "SELECT lakets.add_tiered_retention_policy('metrics',\n"
        "'7 days', -- tier_after: validate + flag (data stays in Lakebase)\n"
        "'90 days'); -- drop_after: remove the Lakebase partition (gated)"
    )
    assert code == 0 and answer["columns"] == [
        {"name": "add_tiered_retention_policy", "type": "int"}
    ]
    code, answer = lake.command("SELECT lakets.execute_retention('metrics', p_force => FALSE)")
    assert (code, answer["rows"]) == (0, [[2]]), answer
    assert lake.ids() == [5, 6] and lake.ids(lake.cold) == [1, 2, 3, 4, 5, 6]
    code, answer = lake.command("SELECT * FROM lakets.show_tiering_status('metrics')")
    row = dict(zip((c["name"] for c in answer["columns"]), answer["rows"][0], strict=True))
    assert code == 0 and (row["cdf_status"], row["cdf_lag_bytes"]) == ("STREAMING", None)
