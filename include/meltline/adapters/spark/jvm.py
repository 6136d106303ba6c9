"""Access to the JVM of a session: its classes by name, and its exceptions in this process.

Every adapter that calls Iceberg's Java library uses it. PySpark raises some Java exceptions, such
as `IllegalArgumentException`, as classes of its own, and leaves the others to Py4J; callers catch
both.
"""

from functools import reduce
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from meltline.domain.redaction import discreet

ENGINE_FAILURES = (Py4JError, PySparkException)
"""Everything that a call into the JVM may raise, also if the JVM has ended."""

CONFLICT = "CommitFailedException"
"""Iceberg's exception if another commit came first."""

_LONGEST = 500


def kind_of(failure: Exception) -> str:
    """Returns the simple name of the Java class; of an exception that has none, Python's."""
    java = java_exception(failure)
    try:
        return type(failure).__name__ if java is None else str(java.getClass().getSimpleName())
    except Py4JError:  # the JVM has ended since
        return type(failure).__name__


def shown_failure(failure: Exception) -> str:
    """Returns the class and the first line of its message, in at most 500 letters.

    A message that starts with a condition of Spark, such as `[TABLE_OR_VIEW_NOT_FOUND]`, is
    returned without the class, because the condition is more precise.
    """
    java = java_exception(failure)
    try:
        message = str(failure if java is None else java.getMessage() or "")
    except Py4JError:
        message = ""
    line = next(iter(message.strip().splitlines()), "")
    if not line.startswith("["):
        line = f"{kind_of(failure)}: {line}" if line else kind_of(failure)
    return discreet(line)[:_LONGEST]


def java_exception(failure: Exception) -> Any | None:
    """Returns the exception of the JVM; None if the failure is of this process."""
    # Py4J has it as `java_exception`, PySpark's own classes as `_origin`.
    return getattr(failure, "java_exception", None) or getattr(failure, "_origin", None)


class JavaClasses:
    """Looks up each class once: a lookup takes one round trip per part of the name."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._found: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        """Returns the class of a full name, such as `java.nio.ByteBuffer`."""
        if name not in self._found:
            self._found[name] = reduce(getattr, name.split("."), self._jvm)
        return self._found[name]
