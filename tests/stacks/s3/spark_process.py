"""Runs `spark_tables` in a process of its own, whose JVM has the environment that a test says."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from meltline.jars.jar_paths import jar_folder


def need_jar(name: str, environ: Mapping[str, str]) -> None:
    """Skips the test where a jar is not there that Spark needs for a store."""
    folder = jar_folder(environ)
    if not list(folder.glob(f"{name}-*.jar")):
        pytest.skip(f"no {name}-*.jar in {folder}: run the set-up with its feature")


def made_by_spark(
    folder: Path, environment: Mapping[str, str], **catalogs: tuple[str, Mapping[str, str]]
) -> dict[str, Any]:
    """What Spark has made in catalogs, each a warehouse and properties: its rows and files."""
    words = {n: {"warehouse": w, "properties": dict(p)} for n, (w, p) in catalogs.items()}
    done = subprocess.run(
        [sys.executable, "-m", "tests.stacks.s3.spark_tables", json.dumps(words), str(folder)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers
