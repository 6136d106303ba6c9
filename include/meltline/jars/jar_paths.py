"""Finds the folder of the jars, and the jars that every app needs."""

from collections.abc import Collection, Mapping
from pathlib import Path

from meltline.domain.errors import SetupMissing
from meltline.jars.listed import own_jars

_NEEDED = ("iceberg-spark-runtime-", "spark-avro_", "sqlite-jdbc-", "postgresql-")

_CLOUDS = ("aws", "gcp", "azure")


def jar_folder(environ: Mapping[str, str]) -> Path:
    """Returns the folder of the jars: `MELTLINE_JARS`, else in the cache folder."""
    if folder := environ.get("MELTLINE_JARS"):
        return Path(folder)
    return cache_folder(environ) / "jars"


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Returns the folder for files that can be fetched again: `MELTLINE_CACHE`, else the user's."""
    if folder := environ.get("MELTLINE_CACHE"):
        return Path(folder)
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "meltline"


def jar_paths(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the jars that every Meltline app needs; of several versions the tested one.

    Raises:
        SetupMissing: A jar is missing.
    """
    folder = jar_folder(environ)
    tested = {jar.name for jar in own_jars()}
    paths: list[str] = []
    for prefix in _NEEDED:
        jars = _jar(folder, prefix, tested)
        if not jars:
            raise SetupMissing(
                f"the jar {prefix}*.jar is missing",
                object=str(folder),
                expected="the jars that `meltline jars list` names",
                found=", ".join(sorted(jar.name for jar in folder.glob("*.jar"))) or "no jars",
                next="`meltline jars fetch`, or set MELTLINE_JARS to the folder that has them",
            )
        paths += jars
    for cloud in _CLOUDS:  # fetched only where a store of it is used
        paths += _jar(folder, f"iceberg-{cloud}-bundle-", tested)
    return tuple(paths)


def _jar(folder: Path, prefix: str, tested: Collection[str]) -> list[str]:
    """Returns the jar with a prefix, or none; a custom folder may have only another version."""
    jars = sorted(folder.glob(f"{prefix}*.jar"), key=lambda jar: (jar.name in tested, jar.name))
    return [str(jar) for jar in jars[-1:]]


def java_options() -> str:
    """Options for short apps: less compiling and one collector thread (docs/decisions/006)."""
    return "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
