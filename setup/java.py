"""Find a Java that Spark 4.1 runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from steps import SetupError, debian_package

SUPPORTED = (17, 21)
PACKAGE = "openjdk-17-jre-headless"
INSTALLED = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")


def find() -> Path | None:
    """The first home of a supported Java: JAVA_HOME, then PATH, then where packages put it."""
    return next((home for home in homes() if major_version(home) in SUPPORTED), None)


def homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent
    for pattern in INSTALLED:
        yield from sorted(Path("/").glob(pattern.lstrip("/")))


def major_version(home: Path) -> int | None:
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    try:  # the file every JDK since 9 carries; starting a JVM to ask is slow
        text = (home / "release").read_text()
    except OSError:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        text = asked.stderr
    found = re.search(r'version "?(\d+)|JAVA_VERSION="(\d+)', text)
    return int(found[1] or found[2]) if found else None


def install() -> Path:
    debian_package(PACKAGE)
    if home := find():
        return home
    seen = [f"{major} in {home}" for home in homes() if (major := major_version(home))]
    raise SetupError(
        f"no Java 17 or 21 found; Spark 4.1 runs on no other. Found: {', '.join(seen) or 'none'}.\n"
        f"Install one (Debian: apt-get install {PACKAGE}) or set JAVA_HOME to one, then run again."
    )
