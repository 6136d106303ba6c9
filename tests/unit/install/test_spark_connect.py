"""Spark Connect is refused by name, wherever a session would be opened or is handed over."""

import os
from pathlib import Path

import pytest

from meltline.adapters.spark.session import jvm_settings, open_session
from meltline.app.doctor.installation import installation_findings
from meltline.cli.main import run
from meltline.config.load import load_config
from meltline.domain.errors import ConnectRefused
from meltline.extras import refuse_connect, refuse_connect_object
from meltline.wiring import Wiring

CONFIG = (
    "control: sqlite:///control.db\nhot: lake\ncatalogs:\n  lake:\n    type: sql\n"
    "    uri: sqlite:///catalog.db\n    warehouse: warehouse\n"
)
TOKEN = "a-token-that-nobody-may-see"
REMOTE = {"SPARK_REMOTE": f"sc://host:15002/;token={TOKEN}"}


@pytest.mark.parametrize(
    "variables",
    [
        REMOTE,
        {"SPARK_CONNECT_MODE_ENABLED": "1"},
        {"SPARK_API_MODE": "Connect"},
        {"MELTLINE_MASTER": REMOTE["SPARK_REMOTE"]},
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_each_variable_that_asks_for_connect_is_named_and_not_what_it_says(
    variables: dict[str, str],
) -> None:
    with pytest.raises(ConnectRefused) as refused:
        refuse_connect(variables)
    assert refused.value.exit_code == 2
    assert next(iter(variables)) in refused.value.found
    assert TOKEN not in str(refused.value.as_json())


def test_a_classic_environment_is_not_refused() -> None:
    refuse_connect({"SPARK_API_MODE": "classic", "MELTLINE_MASTER": "spark://host:7077"})


def test_no_session_is_opened_and_no_jvm_started_where_connect_is_asked_for(
    tmp_path: Path,
) -> None:
    (tmp_path / "meltline.yaml").write_text(CONFIG)
    config = load_config(tmp_path / "meltline.yaml", os.environ, tmp_path)
    with pytest.raises(ConnectRefused):
        open_session(config, "test", {**os.environ, **REMOTE})
    submitted = {**os.environ, **REMOTE, "PYSPARK_GATEWAY_PORT": "1"}
    with pytest.raises(ConnectRefused):
        open_session(config, "test", submitted)
    with pytest.raises(ConnectRefused):
        jvm_settings("local[2]", {**os.environ, **REMOTE})
    with pytest.raises(ConnectRefused):
        jvm_settings("sc://host", os.environ)


def test_a_command_that_would_start_spark_says_so_and_exits_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "meltline.yaml").write_text(CONFIG)
    monkeypatch.setenv("SPARK_REMOTE", REMOTE["SPARK_REMOTE"])
    assert run(["observe", "--config", str(tmp_path / "meltline.yaml")]) == 2
    said = capsys.readouterr().err
    assert "ConnectRefused" in said and "unset SPARK_REMOTE" in said and TOKEN not in said


def test_doctor_names_it() -> None:
    codes = {f.code: f for f in installation_findings({**os.environ, **REMOTE})}
    assert codes["spark_connect"].level == "error"
    assert "unset SPARK_REMOTE" in codes["spark_connect"].fix


class Remote:
    """What a session of Spark Connect is, as far as anybody can tell without a server."""


Remote.__module__ = "pyspark.sql.connect.session"


def test_a_session_and_rows_of_connect_are_refused(tmp_path: Path) -> None:
    (tmp_path / "meltline.yaml").write_text(CONFIG)
    wiring = Wiring(load_config(tmp_path / "meltline.yaml", os.environ, tmp_path), os.environ)
    with pytest.raises(ConnectRefused):
        wiring.sql_engine_of(Remote())
    with pytest.raises(ConnectRefused):
        wiring.guarded_writer(Remote())
    refuse_connect_object(object())
