"""What the start of a session leaves to other threads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_home import make_home

pytestmark = pytest.mark.spark

SCRIPT = """
import json, os, sys
from pathlib import Path
from meltline.adapters.spark.session import open_session
from meltline.config.load import load_config

config, before = load_config(Path(sys.argv[1]), os.environ, Path()), set(sys.modules)
session = open_session(config, "test")
print(json.dumps(sorted(set(sys.modules) - before)))
session.stop()
"""


def test_a_session_that_starts_imports_a_driver_alone_so_that_another_thread_may_import(
    tmp_path: Path,
) -> None:
    config = make_home(tmp_path).folder / "meltline.yaml"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(config)], capture_output=True, text=True, check=True
    )
    modules = json.loads(done.stdout.splitlines()[-1])
    driver = ("sqlalchemy.dialects.", "sqlalchemy.connectors", "sqlite3", "_sqlite3")
    assert [module for module in modules if not module.startswith(driver)] == []


@pytest.mark.slow("a command that starts Spark")
def test_a_command_that_starts_spark_says_nothing_but_its_own_progress(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    command = [sys.executable, "-c", "from meltline.cli.main import main; main()"]
    words = ["init", "--json", "--config", str(home.folder / "meltline.yaml")]
    environ = {k: v for k, v in os.environ.items() if k != "MELTLINE_DEBUG"}
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, check=True, env=environ
    )
    assert done.stderr.splitlines() == ["starting Spark"]
    assert json.loads(done.stdout)["generation"] == 1
