"""A JVM that several processes use, one after the other, each with a session of its own."""

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
"""Deletes that one step has read are read again by another: Iceberg keeps them for a JVM."""


@dataclass(frozen=True)
class SharedJvm:
    """The JVM, for those who are told its variables.

    Attributes:
        variables: Of the environment: by them pyspark finds it.
        process: Its own.
    """

    variables: Mapping[str, str]
    process: "Popen[bytes]"

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None


@contextmanager
def shared_jvm(settings: Mapping[str, str]) -> Iterator[SharedJvm]:
    """Starts a JVM that ends with this process at the latest.

    Args:
        settings: What `spark-submit` is told; nothing secret, since its command line shows it.
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
    """Starts a JVM while this process imports what its forks will need.

    Args:
        settings: As of `shared_jvm`.
        imports: Imports what is not an adapter of steps.
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
    """Makes the context of the JVM this process's own, where a process before has made one.

    The session is a new one: it has no view of those before, and opens its own catalogs. What all
    sessions of a JVM share is thrown away: a frame that a step has persisted does not answer the
    question of the next one.
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
