"""Each extra alone, all of them, and the lowest versions, in environments with nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stacks.package.environments import EXTRAS, ROOT, Environment, with_extras

IMPORT = """
import importlib, json, meltline
from pathlib import Path
from meltline.extras import explained
root = Path(meltline.__file__).parent
files = (file.relative_to(root.parent).with_suffix("") for file in root.rglob("*.py"))
absent, broken, count = set(), {}, 0
for parts in sorted(file.parts for file in files):
    if {"dags", "plugins", "spark_apps"} & {*parts[1:2]} or parts[-2:] == ("migrations", "env"):
        continue
    count += 1
    try:
        importlib.import_module(".".join(part for part in parts if part != "__init__"))
    except Exception as error:
        missing = explained(error)
        if missing is None:
            broken[".".join(parts)] = repr(error)
        else:
            absent.add(missing.next.partition("[")[2].partition("]")[0])
print(json.dumps({"place": str(root), "count": count, "absent": sorted(absent), "broken": broken}))
"""
"""Imports every module: each works, or an extra that it needs is named."""

IMPORTED = {"airflow", "gx", "hive", "s3", "spark"}
"""Extras without which some module cannot be imported; the others are asked for when used."""
SAME = {"glue": "s3"}
"""An extra that brings what another one is named for."""
BRING = {"airflow": "airflow", "glue": "boto3", "gx": "great_expectations", "hive": "thrift",
         "postgres": "psycopg", "s3": "boto3", "spark": "pyspark"}  # fmt: skip


def require_imports(environment: Environment, folder: Path, extras: set[str]) -> None:
    said = environment.answer("python", "-c", IMPORT, cwd=folder, AIRFLOW_HOME=str(folder))
    assert said["broken"] == {}
    assert said["count"] > 500
    assert set(said["absent"]) == IMPORTED - extras - {SAME.get(extra) for extra in extras}
    assert Path(said["place"]).is_relative_to(environment.folder)
    script = "; ".join(f"import {BRING[extra]}" for extra in extras) or "pass"
    code, _, err = environment.run("python", "-c", script, cwd=folder, AIRFLOW_HOME=str(folder))
    assert code == 0, err


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_with_one_extra_every_module_works_or_names_the_extra_that_it_needs(
    extra: str, environment: Callable[..., Environment], tmp_path: Path
) -> None:
    extras = (extra,) if extra else ()
    require_imports(environment(*extras), tmp_path, {*extras})


def test_with_all_extras_every_module_works_and_spark_is_of_one_version(
    environment: Callable[..., Environment], tmp_path: Path
) -> None:
    everything = environment(*EXTRAS)
    require_imports(everything, tmp_path, {*EXTRAS})
    script = (
        "import json; from meltline.extras import installed_version, require_spark; "
        "require_spark(); print(json.dumps({'spark': installed_version('pyspark')}))"
    )
    spark = everything.answer("python", "-c", script, cwd=tmp_path)["spark"]
    assert spark.startswith("4.1.")


def test_with_the_lowest_versions_every_module_works(wheel: Path, tmp_path: Path) -> None:
    lowest = Environment.create(tmp_path / "venv")
    chosen = ("--resolution", "lowest-direct", "--all-extras")
    lowest.install(*chosen, "--requirements", str(ROOT / "pyproject.toml"))
    lowest.install("--no-deps", with_extras(wheel))
    require_imports(lowest, tmp_path, {*EXTRAS})
