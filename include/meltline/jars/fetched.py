"""Fetches jars by coordinates, and refuses any with a different checksum.

It runs the Ivy that pyspark ships: its default resolver is Maven Central, and
`MELTLINE_IVY_SETTINGS` (an ivysettings.xml) sends it to a mirror instead.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from meltline.domain.errors import SetupMissing
from meltline.extras import require_spark
from meltline.jars.jar_paths import jar_folder
from meltline.jars.java import java_home
from meltline.jars.listed import Jar

_Memory = dict[str, list[str | int]]


@dataclass(frozen=True)
class JarFetcher:
    """Fetches jars into a folder and verifies them.

    Attributes:
        folder: The folder of the jars.
        java_home: Home of a Java that runs Ivy.
        pyspark: The folder of the package that ships Ivy.
        settings: An ivysettings.xml; empty for Ivy's own.
        say: Prints a line for the operator.
    """

    folder: Path
    java_home: Path
    pyspark: Path
    settings: str
    say: Callable[[str], object]

    @classmethod
    def here(cls, environ: Mapping[str, str], say: Callable[[str], object]) -> "JarFetcher":
        """Builds a fetcher that uses the pyspark of this environment.

        Raises:
            SetupMissing: pyspark is not installed, or no supported Java was found.
        """
        require_spark()
        spec = find_spec("pyspark")
        assert spec is not None and spec.origin is not None  # else `require_spark` raises
        return cls(
            jar_folder(environ).absolute(),
            java_home(environ),
            Path(spec.origin).parent,
            environ.get("MELTLINE_IVY_SETTINGS", ""),
            say,
        )

    def ensure(self, jars: Collection[Jar]) -> None:
        """Fetches missing jars, and verifies each jar that changed since it was verified.

        Raises:
            SetupMissing: A jar cannot be fetched, or has a different checksum.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        # Hashing 60 MB on each start is slow. So a verified jar is recorded with the file's size
        # and time, and a file that changed since is verified again.
        memory = self.folder / ".verified.json"
        verified = _remembered(memory)
        for jar in jars:
            path = self.folder / jar.name
            if not path.exists():
                self._fetch(jar)
            if verified.get(jar.name) != _fingerprint(jar, path):
                _verify(jar, path, "delete it, then run again: it is fetched anew")
                verified[jar.name] = _fingerprint(jar, path)
                _replace(memory, json.dumps(verified, indent=2))

    def _fetch(self, jar: Jar) -> None:
        self.say(f"fetching {jar.coordinates}")
        # Beside its destination, so that the last step is a rename: no reader sees half a jar.
        with TemporaryDirectory(prefix=".fetch-", dir=self.folder) as scratch:
            reason = self._retrieved(jar, Path(scratch))
            path = Path(scratch, jar.name)
            if not path.exists():
                raise SetupMissing(
                    f"{jar.coordinates} could not be fetched",
                    object=jar.name,
                    expected="the jar, from Maven Central or your mirror",
                    found=reason,
                    next="check the network, or set MELTLINE_IVY_SETTINGS to an ivysettings.xml "
                    f"that names your mirror, or put {jar.name} into {self.folder} yourself",
                )
            _verify(jar, path, "ask whoever runs the repository that it came from")
            path.replace(self.folder / jar.name)

    def _retrieved(self, jar: Jar, scratch: Path) -> str:
        """Runs Ivy to fetch the jar; returns its output."""
        descriptor = scratch / "ivy.xml"
        descriptor.write_text(jar.ivy_file)
        said = subprocess.run(
            [
                *(self.java_home / "bin" / "java", "-jar", self._ivy(), "-warn"),
                *(("-settings", self.settings) if self.settings else ()),
                *("-cache", f"{scratch}/cache", "-types", "jar", "-ivy", descriptor),
                *("-retrieve", f"{scratch}/[artifact]-[revision](-[classifier]).[ext]"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [*said.stdout.splitlines(), *said.stderr.splitlines()]
        return "\n".join(line for line in lines if line.strip(" .\t"))

    def _ivy(self) -> Path:
        if ivy := next((self.pyspark / "jars").glob("ivy-*.jar"), None):
            return ivy
        raise SetupMissing(
            "there is no Ivy in pyspark",
            object=str(self.pyspark),
            expected="jars/ivy-*.jar",
            found="none",
            next="install pyspark anew",
        )


def _verify(jar: Jar, path: Path, next_step: str) -> None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != jar.sha256:
        raise SetupMissing(
            f"{jar.name} is not the recorded one and will not be used",
            object=str(path),
            expected=f"sha256 {jar.sha256}",
            found=f"sha256 {digest}",
            next=next_step,
        )


def _fingerprint(jar: Jar, path: Path) -> list[str | int]:
    status = path.stat()
    return [jar.sha256, status.st_size, status.st_mtime_ns]


def _remembered(path: Path) -> _Memory:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def _replace(path: Path, text: str) -> None:
    """Writes the file atomically: other processes read it at the same time."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text)
    new.replace(path)
