"""The jars by coordinates: fetched where they are missing, and only the recorded ones are used."""

import hashlib
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from meltline.cli.main import run
from meltline.domain.errors import SetupMissing
from meltline.jars.fetched import JarFetcher
from meltline.jars.jar_paths import jar_folder, jar_paths
from meltline.jars.java import java_home
from meltline.jars.listed import Jar, jars_of, own_jars, wanted

_JAVA = """#!/bin/sh
exec "{python}" - "$@" <<'SCRIPT'
import re, sys
from pathlib import Path
words = sys.argv[1:]
known = Path("{repository}")
pattern, ivy = words[words.index("-retrieve") + 1], Path(words[words.index("-ivy") + 1]).read_text()
fact = dict(re.findall('(org|name|rev|m:classifier)="([^"]+)"', ivy))
name = "-".join(filter(None, [fact["name"], fact["rev"], fact.get("m:classifier")])) + ".jar"
with (known / "asked").open("a") as asked:
    asked.write(name + "\\n")
if (known / name).exists():
    Path(pattern).with_name(name).write_bytes((known / name).read_bytes())
else:
    print("unresolved dependency: " + name)
SCRIPT
"""
"""A stand-in for Ivy and the repository behind it; the real ones are in tests/stacks/package."""


class Repository:
    """What can be fetched, and what was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "java"
        java = self.home / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(
            _JAVA.replace("{python}", sys.executable).replace("{repository}", f"{folder}")
        )
        java.chmod(0o755)
        (folder / "pyspark" / "jars").mkdir(parents=True)
        (folder / "pyspark" / "jars" / "ivy-2.jar").touch()
        self.said: list[str] = []

    def holds(self, coordinates: str, content: bytes) -> Jar:
        jar = Jar(coordinates, hashlib.sha256(content).hexdigest())
        (self.folder / jar.name).write_bytes(content)
        return jar

    def asked(self) -> list[str]:
        file = self.folder / "asked"
        return file.read_text().splitlines() if file.exists() else []

    def fetcher(self, into: Path) -> JarFetcher:
        return JarFetcher(into, self.home, self.folder / "pyspark", "", self.said.append)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_what_is_missing_is_fetched_once(repository: Repository, tmp_path: Path) -> None:
    jars = [repository.holds("org.a:b_2.13:1.0", b"b"), repository.holds("org.a:c:2:all", b"c")]
    fetcher = repository.fetcher(tmp_path / "jars")
    fetcher.ensure(jars)
    assert sorted(path.name for path in (tmp_path / "jars").glob("*")) == [
        ".verified.json", "b_2.13-1.0.jar", "c-2-all.jar"
    ]  # fmt: skip
    fetcher.ensure(jars)
    assert repository.asked() == ["b_2.13-1.0.jar", "c-2-all.jar"]
    assert repository.said == ["fetching org.a:b_2.13:1.0", "fetching org.a:c:2:all"]


def test_a_jar_that_is_not_the_recorded_one_is_not_taken(
    repository: Repository, tmp_path: Path
) -> None:
    jar = replace(repository.holds("org.a:b:1", b"altered"), sha256="0" * 64)
    with pytest.raises(SetupMissing, match="not the recorded one"):
        repository.fetcher(tmp_path / "jars").ensure([jar])
    assert list((tmp_path / "jars").glob("*.jar")) == []


def test_a_jar_that_was_changed_where_it_lies_is_found_out(
    repository: Repository, tmp_path: Path
) -> None:
    jar = repository.holds("org.a:b:1", b"good")
    fetcher = repository.fetcher(tmp_path / "jars")
    fetcher.ensure([jar])
    (tmp_path / "jars" / jar.name).write_bytes(b"evil")
    with pytest.raises(SetupMissing) as refused:
        fetcher.ensure([jar])
    assert "delete it" in refused.value.next


def test_a_jar_that_cannot_be_had_is_named_with_three_ways_out(
    repository: Repository, tmp_path: Path
) -> None:
    with pytest.raises(SetupMissing) as refused:
        repository.fetcher(tmp_path / "jars").ensure([Jar("org.a:none:1", "0" * 64)])
    assert refused.value.found == "unresolved dependency: none-1.jar"
    assert "network" in refused.value.next and "MELTLINE_IVY_SETTINGS" in refused.value.next
    assert f"put none-1.jar into {tmp_path / 'jars'}" in refused.value.next


def test_a_list_has_coordinates_checksums_and_features() -> None:
    text = "# a comment\norg.a:b:1  00\norg.a:c:2:all  11  s3\n"
    plain, featured = jars_of(text)
    assert (plain.name, plain.feature, featured.name) == ("b-1.jar", "", "c-2-all.jar")
    assert wanted([plain, featured], []) == [plain]
    assert wanted([plain, featured], ["s3"]) == [plain, featured]


def test_the_list_that_is_shipped_has_what_every_app_needs(tmp_path: Path) -> None:
    for jar in wanted(own_jars(), []):
        assert len(jar.sha256) == 64
        (tmp_path / jar.name).touch()
    assert len(jar_paths({"MELTLINE_JARS": str(tmp_path)})) == 4
    assert {jar.feature for jar in own_jars()} == {"", "s3", "azure", "gcp"}


def test_of_several_versions_the_tested_one_is_taken_and_one_alone_is_taken_as_it_is(
    tmp_path: Path,
) -> None:
    for jar in wanted(own_jars(), []):
        (tmp_path / jar.name).touch()
    (tmp_path / "sqlite-jdbc-9.9.9.jar").touch()
    (tmp_path / "iceberg-gcp-bundle-9.9.9.jar").touch()
    names = [Path(path).name for path in jar_paths({"MELTLINE_JARS": str(tmp_path)})]
    tested = [jar.name for jar in wanted(own_jars(), [])]
    assert names == [*tested, "iceberg-gcp-bundle-9.9.9.jar"]


def test_the_command_lists_the_jars_and_says_which_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MELTLINE_JARS", str(tmp_path))
    (tmp_path / own_jars()[0].name).touch()
    assert run(["jars", "list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["folder"] == str(tmp_path)
    assert [jar["there"] for jar in document["jars"]][:2] == ["yes", "no"]


def test_the_command_verifies_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for jar in wanted(own_jars(), []):
        shutil.copy(jar_folder(os.environ) / jar.name, tmp_path)
    monkeypatch.setenv("MELTLINE_JARS", str(tmp_path))
    assert run(["jars", "fetch"]) == 0
    assert "4 jars are in" in capsys.readouterr().out
    (tmp_path / own_jars()[1].name).write_bytes(b"evil")
    assert run(["jars", "fetch"]) == 1
    assert "not the recorded one" in capsys.readouterr().err


def test_a_java_that_spark_does_not_run_on_is_passed_over(tmp_path: Path) -> None:
    for version in ("11", "17"):
        home = tmp_path / version
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").touch(mode=0o755)
        (home / "release").write_text(f'JAVA_VERSION="{version}.0.2"')
    both = {"JAVA_HOME": str(tmp_path / "11"), "PATH": str(tmp_path / "17" / "bin")}
    assert java_home(both) == tmp_path / "17"
