"""Failures of the JVM at chosen calls: the real Java exception, raised as Py4J raises it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from meltline.adapters.spark.jvm import ENGINE_FAILURES, java_exception

_CALLS = ("c\n", "i\n")  # methods and constructors; a lookup of a name raises nothing of Java's
_RAISED = "xr"  # an error, by reference


@dataclass
class JvmCalls:
    """Counts calls into the JVM, and has one of them raise instead of doing anything.

    Attributes:
        fails_at: The how manieth; 0 is none.
        failure: The Java exception that it raises.
        count: The calls so far.
    """

    fails_at: int = 0
    failure: Any = None
    count: int = field(default=0, init=False)

    @property
    def has_failed(self) -> bool:
        """Whether the call has been reached."""
        return 0 < self.fails_at <= self.count

    @contextmanager
    def of(self, spark: SparkSession) -> Iterator["JvmCalls"]:
        """Listens to a session's calls."""
        client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
        send = client.send_command

        def listen(command: str, *words: Any, **named: Any) -> Any:
            if not command.startswith(_CALLS):
                return send(command, *words, **named)
            self.count += 1
            if self.count == self.fails_at:
                return f"{_RAISED}{self.failure._target_id}"
            return send(command, *words, **named)

        client.send_command = listen
        try:
            yield self
        finally:
            client.send_command = send


def raised(work: Callable[[], object]) -> Any:
    """Returns the Java exception that some work raises."""
    try:
        work()
    except ENGINE_FAILURES as failure:
        return java_exception(failure)
    raise AssertionError("nothing was raised")


def java_failures(spark: SparkSession) -> dict[str, Any]:
    """Returns an exception of each Java class that PySpark converts, and of others that it keeps.

    Those of Spark are raised by what raises them: their constructors change with its versions.
    """
    jvm: Any = spark._jvm
    made = {
        name: getattr(jvm.java.lang, name)("made by a test")
        for name in (
            "IllegalArgumentException",
            "NumberFormatException",
            "ArithmeticException",
            "UnsupportedOperationException",
            "ArrayIndexOutOfBoundsException",
            "IllegalStateException",
            "NullPointerException",
            "StackOverflowError",
        )
    }
    made["DateTimeException"] = jvm.java.time.DateTimeException("made by a test")
    made["UncheckedIOException"] = jvm.java.io.UncheckedIOException(
        jvm.java.io.IOException("made by a test")
    )
    nothing = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 0)  # type: ignore[union-attr]
    of_iceberg = jvm.org.apache.iceberg.exceptions
    made["ValidationException"] = of_iceberg.ValidationException("made by a test", nothing)
    made["NoSuchTableException"] = of_iceberg.NoSuchTableException("made by a test", nothing)
    made["ParseException"] = raised(lambda: spark.sql("SELEC"))
    made["AnalysisException"] = raised(lambda: spark.sql("SELECT nothing_there"))
    told = spark.sql("SELECT raise_error('made by a test')")
    made["SparkRuntimeException"] = raised(told.collect)
    return made
