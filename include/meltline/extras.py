"""Checks which optional dependencies (extras) are installed, and builds the errors if not.

Code calls it before it imports a package of an extra, so that the error names the extra.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from meltline.domain.errors import ConnectRefused, MissingExtra, SetupMissing

_EXTRA_OF: Mapping[str, str] = {
    "airflow": "airflow",
    "boto3": "s3",
    "botocore": "s3",
    "fastapi": "airflow",
    "great_expectations": "gx",
    "psycopg": "postgres",
    "py4j": "spark",
    "pyspark": "spark",
    "starlette": "airflow",
    "thrift": "hive",
}
"""Maps a third-party module to the extra that installs it; boto3 comes with `glue` as well."""

VersionOf = Callable[[str], str | None]
"""Returns the version of an installed package; None if it is not installed."""


def installed_version(package: str) -> str | None:
    """Returns the version of a package in this environment; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def require_module(module: str, extra: str = "") -> None:
    """Fails if a module of an extra is not installed.

    Args:
        module: The third-party module.
        extra: The extra that needs it, if several extras install it.

    Raises:
        MissingExtra: It is not installed.
    """
    if _is_absent(module, installed_version):
        raise _missing(module, extra)


def require_spark(version_of: VersionOf = installed_version) -> None:
    """Fails if Spark is not installed, or if another package has overwritten its files.

    pyspark-client installs most of pyspark's files into the same folder, but neither a JVM's jars
    nor `spark-submit`. An import succeeds, and later calls fail.

    Raises:
        MissingExtra: pyspark is not installed.
        SetupMissing: It is installed beside a pyspark-client of another version.
    """
    if _is_absent("pyspark", version_of):
        raise _missing("pyspark")
    spark, client = version_of("pyspark"), version_of("pyspark-client")
    if client and client != spark:
        raise SetupMissing(
            "pyspark and pyspark-client are of two versions, and write over each other's files",
            object="pyspark",
            expected="one version of both",
            found=f"pyspark {spark}, pyspark-client {client}",
            next=f"pip install --force-reinstall pyspark=={spark} pyspark-client=={spark}",
        )


def refuse_connect(environ: Mapping[str, str]) -> None:
    """Fails if a session opened now would be one of Spark Connect.

    Args:
        environ: The environment of the process that opens the session.

    Raises:
        ConnectRefused: An environment variable asks for Spark Connect.
    """
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if name in environ:
            raise _connect(f"{name} is set", f"unset {name}")  # not its value: may be a token
    if environ.get("SPARK_API_MODE", "").lower() == "connect":
        raise _connect("SPARK_API_MODE=connect", "unset SPARK_API_MODE")
    if environ.get("MELTLINE_MASTER", "").startswith("sc://"):
        raise _connect("a MELTLINE_MASTER that begins with sc://", "name the cluster's master")


def refuse_connect_object(thing: object) -> None:
    """Fails if a session or DataFrame belongs to Spark Connect. Raises ConnectRefused."""
    if type(thing).__module__.startswith("pyspark.sql.connect."):
        raise _connect(f"a {type(thing).__qualname__} of Spark Connect", "pass a classic one")


def _connect(found: str, remedy: str) -> ConnectRefused:
    return ConnectRefused(
        "Spark Connect is not supported: Meltline commits through the JVM of its session, and a "
        "client of Spark Connect has none",
        object="Spark's session",
        expected="a classic session: MELTLINE_MASTER, or Airflow's Spark connection, names the "
        "master (local[2], spark://host:7077, yarn, k8s://…)",
        found=found,
        next=f"{remedy}; docs/clusters.md says how to use a cluster",
    )


def explained(error: BaseException) -> MissingExtra | None:
    """Returns the error to report if a missing package caused this one; else None."""
    for cause in _causes(error):
        module = (cause.name or "").partition(".")[0] if isinstance(cause, ImportError) else ""
        if module in _EXTRA_OF and _is_absent(module, installed_version):
            return _missing(module)
    return None


def _is_absent(module: str, version_of: VersionOf) -> bool:
    client_alone = version_of("pyspark-client") and not version_of("pyspark")
    return find_spec(module) is None or (module == "pyspark" and bool(client_alone))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _missing(module: str, extra: str = "") -> MissingExtra:
    extra = extra or _EXTRA_OF[module]
    return MissingExtra(
        f"{module} is not installed, which Meltline's extra {extra} brings",
        object=module,
        expected=f"Meltline with its extra {extra}",
        found="Meltline without it",
        next=f"pip install 'meltline[{extra}]'",
    )
