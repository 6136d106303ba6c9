"""Whatever the JVM raises at whatever call is an error of ours that names the table."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pyspark.errors.exceptions import captured
from pyspark.sql import SparkSession

from meltline.adapters.chunks.dropper import JvmChunkDropper
from meltline.adapters.spark.committer import JvmCommitter
from meltline.config.load import load_config
from meltline.domain.deletion.plan import Plan, PlanKind
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.names import TableName
from tests.spark.chunks.setups.two_tiers import SyncedTable, TwoTiers
from tests.spark.setups import late_writes as lw
from tests.spark.setups.failing_calls import JvmCalls, java_failures
from tests.spark.setups.late_writes import DAY_1
from tests.spark.setups.warehouse import SPACE, TODAY, Warehouse

pytestmark = pytest.mark.spark

NOT_MET = {
    "StreamingQueryException",  # of streams: Meltline starts none
    "QueryExecutionException",  # of commands that Spark itself runs in Hive
    "SparkUpgradeException",  # of dates of before 1900 in files of Spark 2
    "SparkNoSuchElementException",  # of settings that have no default
    "PythonException",  # of functions in Python: found by its cause, not by its class
}
"""Classes that PySpark converts, and that nothing that Meltline calls can raise."""


@dataclass(frozen=True)
class Operation:
    """An operation that a test prepares anew each time.

    Attributes:
        spark: The session whose JVM it calls.
        table: What its errors are about.
        prepared: Makes ready what it works on, and returns the work.
    """

    spark: SparkSession
    table: str
    prepared: Callable[[], Callable[[], object]]

    def calls(self) -> int:
        """Returns how many calls it makes where none fails."""
        work, calls = self.prepared(), JvmCalls()
        with calls.of(self.spark):
            assert work() is not None
        return calls.count

    def error(self, at: int, failure: Any) -> MeltlineError | None:
        """Returns what it raises where one call fails; None where it came to its end."""
        work, calls = self.prepared(), JvmCalls(at, failure)
        with calls.of(self.spark):
            try:
                work()
            except MeltlineError as error:
                return error
        assert calls.has_failed
        return None


@pytest.fixture(scope="module")
def expiring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operation]:
    w = Warehouse.empty(tmp_path_factory.mktemp("failing_expire"), "failing_expire")
    w.create("t")
    w.append("t", 0)
    committer = JvmCommitter(w.spark, load_config(w.yaml, {}, w.root).catalogs)
    plan = Plan(
        "plan",
        "run",
        PlanKind.EXPIRE,
        TableName(w.catalog, (SPACE,), "t"),
        w.document("t")["table-uuid"],
        "sha256:0",
        TODAY,
        TODAY,
        "",
    )

    def prepared() -> Callable[[], object]:
        w.append("t", 10)
        oldest, location = w.snapshots("t")[-2], w.location("t")
        return lambda: committer.expire(replace(plan, snapshots=(oldest,)), location)

    yield Operation(w.spark, str(plan.table), prepared)


@pytest.fixture(scope="module")
def dropping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operation]:
    w = Warehouse.empty(tmp_path_factory.mktemp("failing_drop"), "failing_drop")
    dropper = JvmChunkDropper(w.spark, load_config(w.yaml, {}, w.root).catalogs)
    lw.create(w, "t", 2, "merge-on-read")

    def prepared() -> Callable[[], object]:
        lw.insert(w, "t", DAY_1, 1, 2, 3)
        request = lw.request(w, "t", DAY_1)
        return lambda: dropper.drop(request)

    yield Operation(w.spark, f"{w.catalog}.{SPACE}.t", prepared)


@pytest.fixture(scope="module")
def copying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operation]:
    tiers = TwoTiers.empty(tmp_path_factory.mktemp("failing_copy"))
    tiers.hot.sql(
        "CREATE TABLE {t} (id BIGINT, at TIMESTAMP) USING iceberg PARTITIONED BY (days(at))"
    )
    synced = SyncedTable.of(tiers)

    def prepared() -> Callable[[], object]:
        tiers.hot.sql("INSERT INTO {t} VALUES (1, TIMESTAMP '2026-01-01 01:00:00')")
        request = synced.request(None)
        return lambda: tiers.replicator.copy(request)

    yield Operation(tiers.hot.spark, f"{SPACE}.t", prepared)


@pytest.mark.parametrize("name", ["expiring", "dropping", "copying"])
def test_an_operation_raises_every_failure_of_the_jvm_as_an_error_about_its_table(
    request: pytest.FixtureRequest, name: str
) -> None:
    operation: Operation = request.getfixturevalue(name)
    failures = java_failures(operation.spark)
    calls = operation.calls()
    told = 0
    for number, (kind, failure) in enumerate(failures.items()):
        at = 1 + number * (calls - 1) // (len(failures) - 1)
        error = operation.error(at, failure)
        if error is not None:
            told += 1
            assert error.object.endswith(operation.table), kind
            assert error.found.startswith((kind, "[")), kind  # or Spark's own condition
            assert error.next, kind
    assert told >= len(failures) // 2
    assert operation.calls() > 0  # and where nothing fails it still works


def test_every_class_that_pyspark_converts_is_raised_here(expiring: Operation) -> None:
    asked = inspect.getsource(captured._convert_exception)
    converted = set(re.findall(r'is_instance_of\(gw, [ec], "[\w.]+\.(\w+)"', asked))
    assert len(converted) > len(NOT_MET)
    assert converted <= java_failures(expiring.spark).keys() | NOT_MET
