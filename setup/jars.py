"""Fetch the jars named in jars.txt, by coordinates, and refuse any that is not the recorded one.

The Ivy that pyspark ships does the fetching: its default resolver is Maven Central, and
MELTLINE_IVY_SETTINGS (an ivysettings.xml) sends it to a mirror instead. As a script, for images:
`python setup/jars.py`, with pyspark installed and JAVA_HOME or PATH leading to a Java.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import java
from steps import SetupError, cache_dir, say

LIST = Path(__file__).with_name("jars.txt")


class Jar(NamedTuple):
    """One line of jars.txt."""

    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def name(self) -> str:
        """The file name, also what the Spark session looks for."""
        parts = (self.artifact, self.version, self.classifier)
        return "-".join(part for part in parts if part) + ".jar"

    @property
    def ivy_file(self) -> str:
        """The jar as Ivy's module descriptor has it: its command line knows no classifiers."""
        classifier = f' m:classifier="{self.classifier}"' if self.classifier else ""
        return (
            '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
            '<info organisation="meltline" module="jars"/><dependencies>'
            f'<dependency org="{self.group}" name="{self.artifact}" rev="{self.version}"'
            ' transitive="false">'
            f'<artifact name="{self.artifact}" type="jar" ext="jar"{classifier}/>'
            "</dependency></dependencies></ivy-module>"
        )


def directory() -> Path:
    """Where the jars lie; the Spark session follows the same rule."""
    return Path(os.environ.get("MELTLINE_JARS") or cache_dir() / "jars").absolute()


def wanted() -> list[Jar]:
    features = {"", *os.environ.get("MELTLINE_FEATURES", "").split(",")}
    jars = []
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            coordinates, sha256, feature = (*line.split(), "")[:3]
            if feature in features:
                group, artifact, version, classifier = (*coordinates.split(":"), "")[:4]
                jars.append(Jar(group, artifact, version, classifier, sha256))
    return jars


def ensure(java_home: Path, pyspark: Path) -> Path:
    """Have every wanted jar in the directory, verified; return the directory."""
    into = directory()
    into.mkdir(parents=True, exist_ok=True)
    # Hashing 60 MB on each start is slow. What was verified is remembered with the file's size
    # and time, so that a file which changed since is verified again.
    memory = into / ".verified.json"
    verified = read_memory(memory)
    for jar in wanted():
        path = into / jar.name
        if not path.exists():
            fetch(jar, into, java_home, pyspark)
        if verified.get(jar.name) != fingerprint(jar, path):
            verify(jar, path, "Delete it, then run again: it is fetched anew.")
            verified[jar.name] = fingerprint(jar, path)
            replace(memory, json.dumps(verified, indent=2))
    return into


def fetch(jar: Jar, into: Path, java_home: Path, pyspark: Path) -> None:
    coordinates = f"{jar.group}:{jar.artifact}:{jar.version}"
    say(f"fetching {coordinates}")
    ivy = next((pyspark / "jars").glob("ivy-*.jar"), None)
    if ivy is None:
        raise SetupError(f"no Ivy in {pyspark}: remove .venv, then run again to install it anew.")
    settings = os.environ.get("MELTLINE_IVY_SETTINGS")
    # Beside its destination, so that the last step is a rename: nobody sees half a jar.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=into) as scratch:
        Path(scratch, "ivy.xml").write_text(jar.ivy_file)
        result = subprocess.run(
            [
                *(java_home / "bin" / "java", "-jar", ivy, "-warn"),
                *(("-settings", settings) if settings else ()),
                *("-cache", f"{scratch}/cache", "-types", "jar", "-ivy", f"{scratch}/ivy.xml"),
                *("-retrieve", f"{scratch}/[artifact]-[revision](-[classifier]).[ext]"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        fetched = Path(scratch) / jar.name
        if not fetched.exists():
            reason = "\n".join(line for line in result.stdout.splitlines() if line.strip(" .\t"))
            raise SetupError(
                f"could not fetch {coordinates}:\n{reason}{result.stderr}\n"
                "Check the network, or set MELTLINE_IVY_SETTINGS to an ivysettings.xml that names "
                f"your mirror, or put {jar.name} into {into} yourself; then run again."
            )
        verify(jar, fetched, "Ask whoever runs the repository it came from; ours is in jars.txt.")
        fetched.replace(into / jar.name)


def verify(jar: Jar, path: Path, next_step: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != jar.sha256:
        raise SetupError(
            f"{jar.name} is not the recorded one and will not be used ({path}).\n"
            f"  expected sha256 {jar.sha256}\n"
            f"  found    sha256 {found}\n"
            f"{next_step}"
        )


def fingerprint(jar: Jar, path: Path) -> list[str | int]:
    status = path.stat()
    return [jar.sha256, status.st_size, status.st_mtime_ns]


def read_memory(path: Path) -> dict[str, list[str | int]]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def replace(path: Path, text: str) -> None:
    """Write the file in one step: other checkouts read it at the same time."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text)
    new.replace(path)


if __name__ == "__main__":
    try:
        spec = importlib.util.find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise SetupError("pyspark is not installed: install requirements.txt first.")
        ensure(java.find() or java.install(), Path(spec.origin).parent)
    except SetupError as error:
        sys.exit(f"setup: {error}")
