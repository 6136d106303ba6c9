"""Spark standalone on the loopback: a master and two workers, each a process of its own."""

import contextlib
import os
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
import pytest

from tests.stacks.s3.processes import free_port, running

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_PACKAGES = Path(pyspark.__file__).parents[1]
_PATIENCE = 90
_MEMORY = "1500m"
_DEFAULTS = "spark.executor.memory 800m\nspark.cores.max 2\nspark.locality.wait 0\n"
"""What the site says of applications: an executor with one core on each worker."""


@dataclass(frozen=True)
class Worker:
    """A worker, and what it has started."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def executors(self) -> Mapping[str, int]:
        """The process ids of its executors, by the ids that Spark knows them by."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        pids = [int(pid) for file in children for pid in _words(file)]
        executors: dict[str, int] = {}
        for pid in pids:
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                if "--executor-id" in words:
                    executors[words[words.index("--executor-id") + 1]] = pid
        return executors


def _words(file: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return file.read_text().split()
    return []


@dataclass
class Cluster:
    """A running cluster.

    Attributes:
        port: Of its master.
        folder: For what its processes write.
        python: What its executors' Python is: it has every package, and no Meltline.
        workers: Those that were started, dead ones too.
    """

    port: int
    folder: Path
    python: Path
    workers: list[Worker] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start_worker(self) -> Worker:
        """One more, with one core: for one executor of one application."""
        number = len(self.workers)
        log = self.folder / f"worker-{number}.log"
        words = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1"]
        words += ["--memory", _MEMORY, "--webui-port", str(free_port())]
        words += ["--work-dir", str(self.folder / f"work-{number}"), self.master]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [_SPARK_CLASS, *words], env=bare(), stdout=output, stderr=subprocess.STDOUT
            )
        worker = Worker(process, log)
        self.workers.append(worker)
        _wait_for(worker, "Successfully registered with master")
        return worker

    def alive(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.process.poll() is None]

    def environment(self, **more: str) -> dict[str, str]:
        """What a driver's environment says: how to reach the cluster, and its executors' Python."""
        return {
            **os.environ,
            "MELTLINE_MASTER": self.master,
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **more,
        }

    def stop(self) -> None:
        for worker in self.alive():
            worker.process.terminate()
        for worker in self.workers:
            worker.process.wait(timeout=30)


def bare() -> dict[str, str]:
    """The environment of a machine on which nobody has installed Meltline."""
    own = ("PYTHONPATH", "MELTLINE_", "PYSPARK_", "VIRTUAL_ENV")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(own)}
    return {**environment, "SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": "127.0.0.1"}


def bare_python(folder: Path) -> Path:
    """A Python that has this one's packages, and no Meltline.

    A `.pth` names their folder; the one that lies there, which names this checkout, is not read.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "packages.pth").write_text(f"{_PACKAGES}\n")
    return folder / "bin" / "python"


@contextlib.contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Starts a cluster that ends with the block."""
    python = bare_python(folder / "python")
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(_DEFAULTS)
    words = [str(_SPARK_CLASS), "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
    with running(
        lambda port: [*words, "--port", str(port), "--webui-port", str(free_port())],
        folder / "master.log",
    ) as port:
        cluster = Cluster(port, folder, python)
        try:
            for _ in range(workers):
                cluster.start_worker()
            yield cluster
        finally:
            cluster.stop()


def _wait_for(worker: Worker, line: str) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and worker.process.poll() is None:
        if line in worker.log.read_text():
            return
        time.sleep(0.1)
    pytest.fail(f"the worker did not come so far as {line!r}:\n{worker.log.read_text()[-2000:]}")
