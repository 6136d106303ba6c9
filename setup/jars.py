"""Have the jars of the package's list and of ours, as far as MELTLINE_FEATURES asks for them.

As a script: `python setup/jars.py`, with pyspark installed. What fetches is the package's own, of
the standard library alone: `meltline jars fetch` does the same where Meltline is installed.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import java
from steps import SetupError, say

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "include"))

from meltline.domain.errors import SetupMissing
from meltline.jars.fetched import JarFetcher
from meltline.jars.jar_paths import jar_folder
from meltline.jars.listed import jars_of, own_jars, wanted

LIST = Path(__file__).with_name("jars.txt")


def ensure(java_home: Path, pyspark: Path) -> Path:
    """Have every wanted jar in the directory, verified; return the directory."""
    into = jar_folder(os.environ).absolute()
    settings = os.environ.get("MELTLINE_IVY_SETTINGS", "")
    features = os.environ.get("MELTLINE_FEATURES", "").split(",")
    jars = wanted([*own_jars(), *jars_of(LIST.read_text())], features)
    try:
        JarFetcher(into, java_home, pyspark, settings, say).ensure(jars)
    except SetupMissing as missing:
        raise SetupError("\n".join(missing.lines)) from missing
    return into


if __name__ == "__main__":
    try:
        spec = importlib.util.find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise SetupError("pyspark is not installed: install requirements.txt first.")
        ensure(java.find() or java.install(), Path(spec.origin).parent)
    except SetupError as error:
        sys.exit(f"setup: {error}")
