"""Doctor's findings about the installation: Spark, its jars, and Java.

`meltline doctor` calls it first: it needs no ledger.
"""

from collections.abc import Callable, Iterator, Mapping

from meltline.app.safety.findings import Finding
from meltline.domain.errors import ConnectRefused, MeltlineError, MissingExtra, SetupMissing
from meltline.extras import VersionOf, installed_version, refuse_connect, require_spark
from meltline.jars.jar_paths import jar_paths
from meltline.jars.java import java_home


def installation_findings(
    environ: Mapping[str, str], version_of: VersionOf = installed_version
) -> list[Finding]:
    """Checks that Spark, its jars and Java are installed, and that Spark's packages match.

    An environment without Spark is not an error: commands that only read do not need it.

    Args:
        environ: The environment with the paths of Java and of the jars.
        version_of: Returns the version of an installed package.
    """
    try:
        require_spark(version_of)
    except MissingExtra as absent:
        message = f"{absent.message}; commands that start Spark do not run here"
        return [Finding("info", "spark_absent", absent.object, message, absent.next)]
    except SetupMissing as mixed:
        return [_error("spark_overwritten", mixed)]
    return [
        *_refusals("spark_connect", refuse_connect, environ),
        *_refusals("jars_missing", jar_paths, environ),
        *_refusals("java_missing", java_home, environ),
    ]


def _refusals(
    code: str, look: Callable[[Mapping[str, str]], object], environ: Mapping[str, str]
) -> Iterator[Finding]:
    try:
        look(environ)
    except (SetupMissing, ConnectRefused) as missing:
        yield _error(code, missing)


def _error(code: str, error: MeltlineError) -> Finding:
    return Finding("error", code, error.object, f"{error.message}: {error.found}", error.next)
