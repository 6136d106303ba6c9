"""What a newcomer is given: a commented configuration, and Airflow's DAG files."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from meltline.cli.main import run
from meltline.config.load import load_config

ROOT = Path(__file__).resolve().parents[3]


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = run([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_example_is_a_configuration_with_the_schema_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "meltline.yaml"
    assert asked(capsys, "init", "--example", "--config", str(path))[0] == 0
    assert load_config(path, {}, tmp_path).hot == "lake"
    schema = json.loads((path.parent / "meltline.schema.json").read_text())
    jsonschema.validate(yaml.safe_load(path.read_text()), schema)
    assert "$schema=meltline.schema.json" in path.read_text()
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "meltline.schema.json", "meltline.yaml"
    ]  # fmt: skip


def test_a_configuration_that_is_there_is_never_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "meltline.yaml"
    path.write_text("mine")
    monkeypatch.setenv("MELTLINE_CONFIG", str(path))
    code, said = asked(capsys, "init", "--example")
    assert (code, said["error"]["type"], path.read_text()) == (2, "UsageInvalid", "mine")
    assert list(tmp_path.iterdir()) == [path]


def test_the_dag_files_are_those_of_the_checkout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "dags"
    for _ in range(2):  # again: nothing is different
        code, said = asked(capsys, "airflow", "init", str(folder))
        assert code == 0 and any("AIRFLOW_CONN_SPARK_DEFAULT" in line for line in said["next"])
    written = {file.name: file.read_text() for file in folder.iterdir()}
    assert written == {file.name: file.read_text() for file in (ROOT / "dags").glob("*.py")}


def test_one_dag_file_is_written_where_it_is_asked_for_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = asked(capsys, "airflow", "init", str(tmp_path), "--only", "lifecycle")
    assert (code, said["files"]) == (0, ["meltline_lifecycle.py"])
    assert [file.name for file in tmp_path.iterdir()] == ["meltline_lifecycle.py"]
    code, said = asked(capsys, "airflow", "init", str(tmp_path), "--only", "life")
    assert (code, said["error"]["found"]) == (2, "life")
    assert "approval, chunks, holds, lifecycle" in said["error"]["expected"]


def test_a_dag_file_that_somebody_has_changed_stays_and_none_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "meltline_holds.py"
    mine.write_text("mine")
    code, said = asked(capsys, "airflow", "init", str(tmp_path))
    assert (code, said["error"]["found"], mine.read_text()) == (2, "meltline_holds.py", "mine")
    assert list(tmp_path.iterdir()) == [mine]
