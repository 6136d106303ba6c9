"""A worker dies in each step of a run: nothing is lost, and the work is done all the same."""

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from meltline.adapters.file_index.file_index import spark_file_ledger
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.ingest.ingest import ReadingLimits
from meltline.adapters.proofs.proof_cache import ProofTable
from meltline.adapters.proofs.proof_reader import SparkProofReader
from meltline.app.run.lifecycle import run_step
from meltline.app.run.steps import STEPS, SWEEP, Step
from meltline.app.run_request import RunRequest
from meltline.app.services import SweepServices
from tests.stacks.cluster.standalone import Cluster
from tests.stacks.cluster.worker_kills import WorkerKill
from tests.stacks.whole_chain import Stack, stack

pytestmark = pytest.mark.spark

_ON_EXECUTORS = ReadingLimits(here_manifests=0, bulk_entries=10**9, driver_rows=0)
_OLD = timedelta(days=30)
_STEPS = {step.name: step for step in (*STEPS, SWEEP)}


@pytest.fixture(scope="module")
def lake(on_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("worker-kills")
    (folder / "warehouse").mkdir()
    section = "    type: sql\n    uri: sqlite:///catalog.db\n    warehouse: warehouse\n"
    with stack(folder, section) as whole:
        yield whole


def spread(lake: Stack, days: float) -> SweepServices:
    """Services that leave to executors whatever can be left to them, as with a large lake."""
    wiring = lake.wiring(days)
    services = wiring.services("cluster")
    tables = LedgerTables(lake.spark, wiring.store, "lake", "meltline")
    tables._files.largest = 0
    proofs = SparkProofReader(lake.spark, wiring.store, ProofTable(tables, wiring.clock))
    proofs.job_start, proofs.entries_here, proofs._book.local_bytes = -math.inf, 0, 0
    files = spark_file_ledger(tables, wiring.store, _ON_EXECUTORS)
    return replace(services, files=files, proofs=proofs)


class Nights:
    """Runs whose steps are each done once, with or without a worker's death."""

    def __init__(self, lake: Stack, cluster: Cluster) -> None:
        self.lake = lake
        self.cluster = cluster
        self.struck: dict[str, str] = {}
        self.failed: set[str] = set()

    def run(self, name: str, days: float, *kills: str) -> None:
        """One run, in each of whose steps of those names a worker dies."""
        services = spread(self.lake, days)
        now = services.clock.now()
        for step in STEPS:
            self.step(step, services, RunRequest(name, now), kills=step.name in kills)

    def step(
        self, step: Step, services: SweepServices, request: RunRequest, *, kills: bool
    ) -> None:
        if not kills:
            summary = run_step(step, services, request).as_json()
            assert not [line for line in summary["tables"] if line.get("error")], summary
            return
        kill = WorkerKill(self.cluster, self.lake.spark)
        try:
            with kill:
                run_step(step, services, request)
        except (PySparkException, Py4JJavaError):
            self.failed.add(step.name)  # the next run does it
        self.struck[step.name] = kill.victim


def files_of(lake: Stack) -> tuple[set[str], set[str]]:
    """The data files that are there, and those that the table's only snapshot has."""
    rows = lake.spark.sql("SELECT file_path FROM lake.n.t.files").collect()
    needed = {str(row[0]).removeprefix("file:") for row in rows}
    folder = os.path.commonpath([*map(os.path.dirname, needed)])
    present = {str(path) for path in Path(folder).glob("*.parquet")}
    return present, {f"/{path.lstrip('/')}" for path in needed}


def test_a_worker_that_dies_in_any_step_loses_nothing_and_the_work_is_done(
    lake: Stack, on_cluster: Cluster
) -> None:
    nights = Nights(lake, on_cluster)
    old = lake.metadata()["snapshots"]
    nights.run("first", 40, "observe", "plan_expiration", "gate_expiration", "expire")
    nights.run("second", 40.5)
    assert len(lake.metadata()["snapshots"]) < len(old)
    nights.run("third", 80, "plan_purge", "gate_purge", "purge")
    nights.run("fourth", 80.5)
    present, needed = files_of(lake)
    assert present == needed and lake.count() == 4
    assert {name for name, victim in nights.struck.items() if victim} == {
        "observe", "plan_expiration", "gate_expiration", "plan_purge", "gate_purge", "purge",
    }, "each of them had given executors work when one died"  # fmt: skip
    assert nights.struck["expire"] == "", "a commit is the driver's alone"


def test_a_worker_that_dies_while_a_sweep_lists_loses_nothing_and_the_next_one_sweeps(
    lake: Stack, on_cluster: Cluster
) -> None:
    nights = Nights(lake, on_cluster)
    present, needed = files_of(lake)
    stray = Path(next(iter(present))).with_name("stray.parquet")
    stray.write_bytes(b"left behind")
    os.utime(stray, (stray.stat().st_mtime - _OLD.total_seconds(),) * 2)
    for day in (90, 97, 104.5):
        services = spread(lake, day)
        request = RunRequest(f"sweep-{day}", services.clock.now())
        nights.step(SWEEP, services, request, kills=True)
        nights.step(SWEEP, services, replace(request, run_id=f"again-{day}"), kills=False)
    assert nights.struck["sweep"]
    nights.run("purge of strays", 112)
    assert files_of(lake)[0] == needed and not stray.exists() and lake.count() == 4
