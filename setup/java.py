"""Find a Java that Spark 4.1 runs on, or install one where we may."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from steps import SetupError, debian_package

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "include"))

from meltline.domain.errors import SetupMissing
from meltline.jars.java import java_home

PACKAGE = "openjdk-17-jre-headless"


def find() -> Path | None:
    """The first home of a supported Java."""
    try:
        return java_home(os.environ)
    except SetupMissing:
        return None


def install() -> Path:
    debian_package(PACKAGE)
    try:
        return java_home(os.environ)
    except SetupMissing as missing:
        raise SetupError("\n".join(missing.lines)) from missing
