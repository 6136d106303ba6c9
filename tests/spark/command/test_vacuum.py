"""VACUUM on a real lake: by the command and in a program, for one table."""

import json
from datetime import timedelta
from typing import Any

import pytest

import meltline
from meltline.cli.main import run
from meltline.domain.units import format_instant
from tests.spark.setups.warehouse import TODAY, Warehouse

pytestmark = pytest.mark.spark

LONGER = 20 * 24


def test_a_table_is_vacuumed_by_command_and_in_a_program(
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = Warehouse.empty(tmp_path_factory.mktemp("vacuum"), "vacuumed")
    for table in ("t", "u"):
        lake.create(table)
        lake.overwrite(table, *range(0, 80, 10))
        lake.stage(table, timedelta(days=30), timedelta(days=1))
    monkeypatch.setenv("MELTLINE_CONFIG", str(lake.yaml))
    monkeypatch.setenv("MELTLINE_NOW", format_instant(TODAY))
    assert run(["init", "--sandbox"]) == 0

    def command(text: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = run(["sql", text, "--in", "vacuumed.n", "--json"])
        return code, json.loads(capsys.readouterr().out)

    def row(text: str) -> tuple[int, dict[str, Any]]:
        code, answer = command(text)
        names = [column["name"] for column in answer["columns"]]
        return code, dict(zip(names, answer["rows"][0], strict=True))

    code, refused = command("VACUUM t RETAIN 167 HOURS")
    assert code == 2 and refused["error"]["type"] == "RetentionOutOfRange"
    assert "by profile" in refused["error"]["message"]
    code, dry = row("VACUUM `n`.`t` DRY RUN")
    assert code == 0 and dry["state"] == "dry run"
    before, contents = lake.snapshots("t"), lake.contents("t")

    code, longer = row(f"VACUUM t RETAIN {LONGER} HOURS")
    kept = lake.snapshots("t")
    assert code == 0 and (longer["state"], longer["retained_hours"]) == ("ok", LONGER)
    assert longer["snapshots_expired"] == len(before) - len(kept) > 0
    start = timedelta(days=20) + timedelta(days=29) / 7  # what was current at the window's start
    assert len(kept) == sum(
        timedelta(days=30) - timedelta(days=29) / 7 * n <= start for n in range(8)
    )

    (frame_row,) = meltline.sql(lake.spark, "VACUUM vacuumed.n.t", config=lake.yaml).collect()
    assert frame_row.retained_hours == 7 * 24 and frame_row.state == "ok"
    assert frame_row.snapshots_expired == len(kept) - len(lake.snapshots("t")) > 0
    assert {id: contents[id] for id in lake.snapshots("t")} == lake.contents("t")
    assert len(lake.snapshots("u")) == 8, "nobody asked for the other table"
    assert lake.reachable() <= lake.disk().keys()
