"""A JVM that the steps of one run share, one process after the other, each with its own session.

The driver starts it, so that a run pays for one start of Spark. Each step joins its context.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from subprocess import Popen, TimeoutExpired
from threading import Thread
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

_END_SECONDS = 10
_OF_STEPS = (
    "meltline.adapters.file_index.file_index",
    "meltline.adapters.file_index.index_reader",
    "meltline.adapters.manifests.fastavro_reader",
    "meltline.adapters.orphan_scan.scanner",
    "meltline.adapters.proofs.proof_cache",
    "meltline.adapters.proofs.proof_reader",
    "meltline.adapters.spark.committer",
)
_REMEMBERS_NOTHING = {"spark.sql.iceberg.executor-cache.enabled": "false"}
"""Disables Iceberg's cache per JVM: a later step must read deletes again."""


@dataclass(frozen=True)
class SharedJvm:
    """A running JVM that processes can join through environment variables.

    Attributes:
        variables: Environment variables by which PySpark finds it.
        process: The JVM's process.
    """

    variables: Mapping[str, str]
    process: "Popen[bytes]"

    def is_alive(self) -> bool:
        """Returns whether it still runs."""
        return self.process.poll() is None


@contextmanager
def shared_jvm(settings: Mapping[str, str]) -> Iterator[SharedJvm]:
    """Starts a JVM that ends with this process at the latest.

    Args:
        settings: Settings of `spark-submit`; no secrets, since its command line shows them.
    """
    conf = SparkConf(loadDefaults=False)
    for key, setting in {**settings, **_REMEMBERS_NOTHING}.items():
        conf.set(key, setting)
    gateway: Any = launch_gateway(conf)  # type: ignore[no-untyped-call]
    parameters = gateway.gateway_parameters
    variables = {
        "PYSPARK_GATEWAY_PORT": str(parameters.port),
        "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
    }
    try:
        yield SharedJvm(variables, gateway.proc)
    finally:
        gateway.proc.terminate()
        try:
            gateway.proc.wait(_END_SECONDS)
        except TimeoutExpired:
            gateway.proc.kill()


@contextmanager
def jvm_for_forks(settings: Mapping[str, str], imports: Callable[[], None]) -> Iterator[SharedJvm]:
    """Starts a JVM while this process imports the modules that its forks will need.

    Args:
        settings: The settings of `shared_jvm`.
        imports: Imports further modules, beside the adapters of steps.
    """

    def import_all() -> None:
        imports()
        for module in _OF_STEPS:
            import_module(module)

    importing = Thread(target=import_all)  # not before: two threads would import the same
    importing.start()
    with shared_jvm(settings) as jvm:
        importing.join()  # before the first fork: a thread does not survive it
        yield jvm


def join_context() -> None:
    """Adopts the JVM's context as this process's own, if an earlier process created one.

    The session is a new one: it has no view of earlier ones, and opens its own catalogs. The cache
    that all sessions share is cleared, so that a step never reads a frame that an earlier step
    persisted.
    """
    if SparkContext._active_spark_context is not None:
        return
    jvm: Any = SparkContext._jvm
    sessions = getattr(jvm, "org.apache.spark.sql.classic.SparkSession")
    default = sessions.getDefaultSession()
    if not default.isDefined() or default.get().sparkContext().isStopped():
        return
    before = default.get()
    context = SparkContext(jsc=jvm.JavaSparkContext.fromSparkContext(before.sparkContext()))
    context.environment["MELTLINE_STEP"] = str(os.getpid())  # its own Python workers
    SparkSession(context, before.newSession()).catalog.clearCache()
