"""Finds a Java that Spark 4.1 runs on, for set-up, `meltline doctor` and the jar fetcher."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from meltline.domain.errors import SetupMissing

_SUPPORTED = (17, 21)
_INSTALLED = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")


def java_home(environ: Mapping[str, str]) -> Path:
    """Returns the first home of a supported Java: JAVA_HOME, then PATH, then the usual folders.

    Raises:
        SetupMissing: No supported Java was found.
    """
    homes = list(_homes(environ))
    versions = [(home, _major_version(home)) for home in homes]
    for home, version in versions:
        if version in _SUPPORTED:
            return home
    seen = [f"{version} in {home}" for home, version in versions if version]
    raise SetupMissing(
        "there is no Java that Spark 4.1 runs on",
        object="JAVA_HOME",
        expected="Java 17 or 21",
        found=", ".join(seen) or "none",
        next="install one (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME",
    )


def _homes(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home)
    if on_path := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield Path(on_path).resolve().parent.parent
    for pattern in _INSTALLED:
        yield from sorted(Path("/").glob(pattern.lstrip("/")))


def _major_version(home: Path) -> int | None:
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    try:  # read the file of every JDK since 9; starting a JVM is slow
        text = (home / "release").read_text()
    except OSError:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        text = asked.stderr
    version = re.search(r'version "?(\d+)|JAVA_VERSION="(\d+)', text)
    return int(version[1] or version[2]) if version else None
