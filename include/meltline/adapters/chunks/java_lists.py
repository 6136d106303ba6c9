"""Bulk operations on lists in the JVM: one round trip per list instead of one per element.

`cold_branch` and `dropper` use it: 10,000 files one by one would take seconds.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from pyspark.sql import SparkSession

from meltline.adapters.spark.jvm import JavaClasses

_BETWEEN = "\0"  # in no path: no store or file system allows it


class JavaLists:
    """Calls a Java method for every element of a list, in as many round trips as for one."""

    def __init__(self, spark: SparkSession) -> None:
        self._java = JavaClasses(spark)
        self._gateway: Any = spark.sparkContext._gateway

    def taken(self, iterable: Any) -> Any:
        """Returns the elements of an Iceberg iterable as a list, and closes the iterable."""
        lists = self._java("org.apache.iceberg.relocated.com.google.common.collect.Lists")
        try:
            return lists.newArrayList(iterable)
        finally:
            iterable.close()

    def each(self, elements: Any, type: str, method: str) -> Any:
        """Returns the results of a method without parameters for each element, in order."""
        return elements.stream().map(self._method(type, method)).toList()

    def each_static(self, elements: Any, type: str, method: str, parameter: str) -> Any:
        """Returns the results of a static method that takes the element, in order."""
        return elements.stream().map(self._method(type, method, parameter)).toList()

    def flat(self, lists: Any) -> Any:
        """Returns the elements of all lists of a list, in order."""
        stream = self._method("java.util.Collection", "stream")
        return lists.stream().flatMap(stream).toList()

    def chosen(self, elements: Any, chosen: Sequence[bool]) -> Any:
        """Returns the chosen elements, copied by runs, since there are few runs."""
        result = self._java("java.util.ArrayList")()
        start = 0
        for is_chosen, stretch in groupby(chosen):
            end = start + len(list(stretch))
            if is_chosen:
                result.addAll(elements.subList(start, end))
            start = end
        return result

    def texts(self, elements: Any) -> list[str]:
        """Returns every element as text, null as `null`, in one round trip."""
        words = self.each_static(elements, "java.lang.String", "valueOf", "java.lang.Object")
        joined = str(self._java("java.lang.String").join(_BETWEEN, words))
        return joined.split(_BETWEEN) if elements.size() else []

    def _method(self, type: str, name: str, *parameters: str) -> Any:
        # In Java: `FileScanTask::file`.
        classes = self._gateway.new_array(self._java("java.lang.Class"), len(parameters))
        for at, parameter in enumerate(parameters):
            classes[at] = self._class(parameter)
        handles = self._java("java.lang.invoke.MethodHandles").publicLookup()
        handle = handles.unreflect(self._class(type).getMethod(name, classes))
        proxies = self._java("java.lang.invoke.MethodHandleProxies")
        return proxies.asInterfaceInstance(self._class("java.util.function.Function"), handle)

    def _class(self, name: str) -> Any:
        return self._java("py4j.reflection.ReflectionUtil").classForName(name)
