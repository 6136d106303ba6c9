"""Kills a worker while one of its executors works, at a step that a test chooses."""

import os
import signal
import time
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

from pyspark.sql import SparkSession

from tests.stacks.cluster.standalone import Cluster, Worker

_PATIENCE = 90


@dataclass
class WorkerKill:
    """A block during which the worker dies whose executor is first given a task.

    The processes of executors stand still at first: a task that one of them is given cannot end
    before its worker is killed, and the executor with it, as where a machine is lost. Then the
    others go on.

    Attributes:
        victim: The executor that had a task and died; empty where none had any.
    """

    cluster: Cluster
    spark: SparkSession
    victim: str = ""
    _over: Event = field(default_factory=Event)

    def __enter__(self) -> "WorkerKill":
        self._standing = {
            id: (worker, pid)
            for worker in self.cluster.alive()
            for id, pid in worker.executors().items()
        }
        for _, pid in self._standing.values():
            os.kill(pid, signal.SIGSTOP)
        self._watcher = Thread(target=self._watch)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()
        if not self.victim:  # the step has done without executors: a worker dies all the same
            worker, pid = next(iter(self._standing.values()))
            self._go_on()
            _kill(worker, pid)
        self.cluster.start_worker()
        self._await_two_executors()

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            tasks = {executor.id(): executor.activeTasks() for executor in executors(self.spark)}
            for id, (worker, pid) in self._standing.items():
                if tasks.get(id):
                    _kill(worker, pid)
                    del self._standing[id]
                    self._go_on()
                    self.victim = id
                    return

    def _go_on(self) -> None:
        for _, pid in self._standing.values():
            os.kill(pid, signal.SIGCONT)

    def _await_two_executors(self) -> None:
        until = time.monotonic() + _PATIENCE
        while len(executors(self.spark)) < 2:
            assert time.monotonic() < until, "no executor came on the new worker"
            time.sleep(0.1)


def executors(spark: SparkSession) -> list[Any]:
    """What Spark's driver knows of its executors, itself left out."""
    known = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    return [e for e in map(known.apply, range(known.size())) if e.id() != "driver"]


def _kill(worker: Worker, pid: int) -> None:
    """As where its machine is lost: the worker, and the executor that it has started."""
    worker.process.kill()
    os.kill(pid, signal.SIGKILL)
    worker.process.wait(timeout=30)
