"""Classes of the JVM by their names."""

from functools import reduce
from typing import Any

from pyspark.sql import SparkSession


class JavaClasses:
    """Finds each class once: to find one takes a round trip for each part of its name."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._found: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        """The class of a full name, such as `java.nio.ByteBuffer`."""
        if name not in self._found:
            self._found[name] = reduce(getattr, name.split("."), self._jvm)
        return self._found[name]
