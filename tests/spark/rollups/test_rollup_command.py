"""`meltline rollups refresh`: what it did, and what stands in the way of one of them."""

import json
from pathlib import Path

import pytest

from meltline.cli.main import run
from tests.spark.rollups.lake_of_rollups import DAILY, HOURLY, RollupLake

pytestmark = pytest.mark.spark


def test_a_refresh_says_of_each_rollup_what_it_did_or_what_stopped_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = RollupLake.empty(tmp_path)
    lake.lake.create("t")
    lake.lake.insert("t", 2, 1)
    lake.declare("hourly", HOURLY.format(table="t"))
    lake.declare("daily", DAILY.format(table="_rollup_hourly"))

    def meltline(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run(["rollups", *words, "--config", str(lake.lake.w.yaml)])
        return code, capsys.readouterr().out

    lake.lake.insert("t", 1)
    code, text = meltline("refresh", "daily", "--json")
    hourly, daily = json.loads(text)["rollups"]
    assert (code, hourly["name"], daily["name"]) == (0, "hourly", "daily")
    assert (hourly["buckets"], daily["buckets"], daily["everything"]) == (1, 1, False)

    code, text = meltline("refresh", "hourly")
    assert code == 0 and "nothing was new" in text and "daily" not in text

    lake.lake.insert("t", 1)
    lake.lake.w.sql("ALTER TABLE {t} DROP COLUMN v")
    code, text = meltline("refresh", "--json")
    hourly, daily = json.loads(text)["rollups"]
    assert (code, hourly["error"]["type"], daily["error"]) == (4, "RollupRefused", None)
    (line, _) = json.loads(meltline("list", "--json")[1])["rollups"]
    assert line["problem"] and line["lag"] == 1
