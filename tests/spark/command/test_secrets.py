"""What other users of the machine, and readers of Spark's pages and logs, learn of the secrets."""

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from meltline.jars.jar_paths import jar_paths

pytestmark = pytest.mark.spark

SECRETS = {
    "credential": "client:Q1-opens-doors",
    "token": "Q2-opens-doors",
    "adls.account-key": "Q3-opens-doors",
    "adls.sas-token.account.dfs.core.windows.net": "Q4-opens-doors",
    "s3.secret-access-key": "Q5-opens-doors",
    "s3.access-key-id": "Q6-opens-doors",
    "gcs.oauth2.token": "Q7-opens-doors",
    "header.X-Api": "Q8-opens-doors",
    "never-heard-of": "Q9-opens-doors",
}
PASSWORD = "Q0-opens-doors"
MINE = "Q10-opens-doors"
"""What an administrator hides with a `spark.redaction.regex` of their own."""

SETTINGS = ["--conf", "spark.redaction.regex=my.mark", "--conf", f"spark.my.mark={MINE}"]
SUBMIT = [
    "spark-submit",
    "--master",
    "local[2]",
    "--jars",
    ",".join(jar_paths(os.environ)),
    *SETTINGS,
]
STARTS = {
    "by itself": (
        [sys.executable],
        {"PYSPARK_SUBMIT_ARGS": " ".join([*SETTINGS, "pyspark-shell"])},
    ),
    "by spark-submit": (SUBMIT, {}),
}


@pytest.fixture(scope="module", params=STARTS)
def seen(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What could be seen of a real session, while it lived and afterwards."""
    root = tmp_path_factory.mktemp("lake")
    properties = "".join(f"    {key}: '{value}'\n" for key, value in SECRETS.items())
    config = root / "meltline.yaml"
    config.write_text(
        "hot: lake\ncatalogs:\n  lake:\n    type: sql\n    uri: sqlite:///catalog.db\n"
        f"    warehouse: warehouse\n{properties}"
        "  server:\n    type: sql\n    warehouse: s3://bucket/w\n    observe-only: true\n"
        f"    uri: postgresql://reader:{PASSWORD}@db.example/lake\n"
        "  rest:\n    type: rest\n    observe-only: true\n"
        f"    uri: https://reader:{PASSWORD}@rest.example\n"
    )
    logs = root / "logs"
    logs.mkdir()
    start, environ = STARTS[request.param]
    done = subprocess.run(
        [*start, "tests/spark/setups/secret_session.py", str(config), str(logs), "ui"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environ},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    log = "".join(path.read_text() for path in sorted(logs.rglob("*")) if path.is_file())
    return {**json.loads(done.stdout.splitlines()[-1]), "log": log}


def told(text: object) -> list[str]:
    """Which secrets stand in a text."""
    return [value for value in (*SECRETS.values(), PASSWORD, MINE) if value in str(text)]


def test_no_secret_stands_on_a_command_line(seen: dict[str, Any]) -> None:
    assert any("java" in line and "SparkSubmit" in line for line in seen["commands"])
    assert told(seen["commands"]) == [MINE]  # which the tests put there


def test_no_secret_stands_on_sparks_page_of_settings(seen: dict[str, Any]) -> None:
    assert "spark.sql.catalog.lake.credential" in seen["page"]
    settings = json.loads(seen["page"])["sparkProperties"]
    assert any(key == "spark.my.mark" for key, _ in settings)
    assert told(settings) == []
    assert set(told(seen["page"])) <= {MINE}  # on the JVM's command line, by the tests


def test_no_secret_stands_in_sparks_event_log(seen: dict[str, Any]) -> None:
    assert "SparkListenerJobStart" in seen["log"]
    log = re.sub(r'"sun.java.command":"[^"]*"', "", seen["log"])  # MINE is there, by the tests
    assert "spark.sql.catalog.lake.credential" in seen["log"]
    assert told(log) == []


def test_no_secret_is_an_answer_of_sql(seen: dict[str, Any]) -> None:
    assert any(key == "spark.sql.catalog.lake.credential" for key, _ in seen["settings"])
    assert told(seen["settings"]) == []


def test_spark_knows_them_all_the_same(seen: dict[str, Any]) -> None:
    known = dict(seen["known"])
    for key, value in SECRETS.items():
        assert known[f"spark.sql.catalog.lake.{key}"] == value
    assert known["spark.sql.catalog.server.jdbc.password"] == PASSWORD


def test_what_is_no_secret_stays_readable_on_the_page(seen: dict[str, Any]) -> None:
    settings = dict(json.loads(seen["page"])["sparkProperties"])
    assert settings["spark.sql.catalog.lake.warehouse"].endswith("/warehouse")
    assert settings["spark.sql.catalog.lake.catalog-impl"].endswith("JdbcCatalog")
