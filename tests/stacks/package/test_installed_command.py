"""The command of an installed Meltline, outside of any checkout."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stacks.package.environments import Environment

Environments = Callable[..., Environment]


@pytest.fixture
def meltline(environment: Environments) -> Environment:
    return environment("spark", "gx")


def test_help_the_example_and_doctor(meltline: Environment, tmp_path: Path) -> None:
    code, out, _ = meltline.run("meltline", "--help", cwd=tmp_path)
    assert code == 0 and "Start here" in out
    assert meltline.run("meltline", "init", "--example", cwd=tmp_path)[0] == 0
    assert (tmp_path / "meltline.yaml").is_file()
    code, out, err = meltline.run("meltline", "doctor", "--json", cwd=tmp_path)
    codes = [finding["code"] for finding in json.loads(out)["findings"]]
    assert (code, codes) == (1, ["not_initialised"]), err


@pytest.mark.slow("an environment with Spark is installed")
def test_a_lake_is_looked_at_rehearsed_and_run(meltline: Environment, lake: Path) -> None:
    def document(*words: str) -> object:
        return meltline.answer("meltline", *words, "--json", cwd=lake)

    document("init")
    rehearsed = document("run", "--dry-run")
    (plan,) = rehearsed["plans"]  # type: ignore[index]
    assert (plan["kind"], plan["snapshots"], plan["state"]) == ("expire", 2, "planned")
    done = document("run", "--once", "a first look")
    (table,) = done["tables"]  # type: ignore[index]
    assert (table["snapshots_expired"], table["files_departed"] > 0) == (2, True)
    assert not (lake / "spark-warehouse").exists()


def test_the_jars_are_fetched_by_their_coordinates(meltline: Environment, tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    shutil.copytree(os.environ["MELTLINE_JARS"], jars, copy_function=os.link)
    (missing,) = jars.glob("spark-avro_*.jar")
    missing.unlink()
    (jars / ".verified.json").unlink(missing_ok=True)
    place = {"MELTLINE_JARS": str(jars)}
    assert meltline.run("meltline", "init", "--example", cwd=tmp_path)[0] == 0
    _, out, _ = meltline.run("meltline", "doctor", "--json", cwd=tmp_path, **place)
    assert "jars_missing" in {finding["code"] for finding in json.loads(out)["findings"]}
    said = meltline.answer("meltline", "jars", "fetch", "--json", cwd=tmp_path, **place)
    assert missing.name in said["jars"] and missing.is_file()


@pytest.mark.parametrize(
    ("extras", "words", "settings", "named"),
    [
        ((), ("init",), {}, "spark"),
        ((), ("jars", "fetch"), {}, "spark"),
        ((), ("doctor",), {"control": "postgresql://nobody@127.0.0.1:1/x"}, "postgres"),
        (("spark",), ("audit",), {"control": "postgresql://nobody@127.0.0.1:1/x"}, "postgres"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
@pytest.mark.slow("environments are installed")
def test_an_extra_that_is_missing_is_named_and_no_trace_is_shown(
    extras: tuple[str, ...],
    words: tuple[str, ...],
    settings: dict[str, str],
    named: str,
    environment: Environments,
    tmp_path: Path,
) -> None:
    control = settings.get("control", "sqlite:///control.db")
    (tmp_path / "meltline.yaml").write_text(
        f"control: {control}\nhot: lake\ncatalogs:\n  lake:\n    type: sql\n"
        "    uri: sqlite:///catalog.db\n    warehouse: w\n"
    )
    code, out, err = environment(*extras).run("meltline", *words, "--json", cwd=tmp_path)
    error = json.loads(out)["error"]
    assert (code, error["type"]) == (1, "MissingExtra"), err
    assert f"meltline[{named}]" in error["next"] and "Traceback" not in out + err


@pytest.mark.slow("environments are installed")
def test_without_great_expectations_nothing_is_judged_and_nothing_destroyed(
    environment: Environments, lake: Path
) -> None:
    spark = environment("spark")
    assert spark.run("meltline", "init", cwd=lake)[0] == 0
    code, out, _ = spark.run("meltline", "run", "--once", "a try", "--json", cwd=lake)
    (table,) = json.loads(out)["tables"]
    assert (code, table["snapshots_expired"]) == (3, 0)
    assert "extra gx" in table["refused"]
