"""Converts Spark's errors on creating a catalog's first tables to an error of ours.

`session` and the ledger's tables use it during `meltline init`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from meltline.adapters.spark.jvm import ENGINE_FAILURES, java_exception, shown_failure
from meltline.domain.errors import SetupMissing

_DEPTH = 20  # causes have causes, and a cycle of them has no end
_LONGEST = 500


@contextmanager
def preparing(catalog: str) -> Iterator[None]:
    """Converts Spark's errors to an error that names the catalog.

    Raises:
        SetupMissing: The tables, or their namespace, could not be created.
    """
    try:
        yield
    except ENGINE_FAILURES as failure:
        raise SetupMissing(
            f"Spark could not make Meltline's tables in catalog {catalog}",
            object=catalog,
            expected="a catalog and a warehouse in which this user may make tables",
            found=_deepest(failure),
            next="mend what was found, or correct the catalog in meltline.yaml, and run "
            "`meltline init` again",
        ) from failure


def _deepest(failure: Exception) -> str:
    """Returns the root cause, because the exceptions around it only name the request."""
    java = java_exception(failure)
    if java is None:
        return shown_failure(failure)
    for _ in range(_DEPTH):
        if java.getCause() is None:
            break
        java = java.getCause()
    words = str(java.getMessage() or "").strip().partition("\n")[0]
    return f"{java.getClass().getSimpleName()}: {words}"[:_LONGEST]
