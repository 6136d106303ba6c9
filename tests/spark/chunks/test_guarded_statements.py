"""SQL on a table of which chunks were dropped: late statements are refused as a whole (LT-30)."""

from collections.abc import Iterator

import pytest

from meltline.app.sql.statements import StatementRequest, run_statement
from meltline.domain.errors import LateDataRejected, StatementRefused
from meltline.domain.iceberg.objects import ObjectName
from meltline.ports import SqlEngine
from meltline.wiring import Wiring
from tests.spark.setups import late_writes as lw
from tests.spark.setups.guarded_tables import Guarded
from tests.spark.setups.late_writes import DAY_1, DAY_2, DAY_3
from tests.spark.setups.warehouse import SPACE, TODAY, Warehouse

pytestmark = pytest.mark.spark

SINCE = "ts >= TIMESTAMP '2026-01-02 00:00:00Z'"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    made = Warehouse.empty(tmp_path_factory.mktemp("stating"), "stating")
    made.init(TODAY)
    before = made.spark.catalog.currentCatalog()
    made.spark.sql(f"USE {made.catalog}.{SPACE}")
    yield made
    made.spark.catalog.setCurrentCatalog(before)


def run(guarded: Guarded, text: str, engine: SqlEngine | None = None) -> None:
    lake = guarded.lake
    wiring = Wiring(guarded.services.config, {}, lambda line: None)
    request = StatementRequest(text, ObjectName(lake.catalog, (SPACE,)), statement_id="")
    run_statement(
        guarded.services,
        lambda: engine or wiring.sql_engine_of(lake.spark),
        request,
        wiring.services,
    )


LATE = [
    f"INSERT INTO t VALUES (7, TIMESTAMP '{DAY_1} 10:00:00', 1),"
    f" (8, TIMESTAMP '{DAY_3} 10:00:00', 1)",
    "INSERT INTO stating.n.t (ts, id, user) SELECT ts - INTERVAL 1 DAY, id, user FROM t",
    f"INSERT OVERWRITE t SELECT id, TIMESTAMP '{DAY_1} 10:00:00', user FROM t",
    f"WITH w AS (SELECT 7 AS id, TIMESTAMP '{DAY_1} 10:00:00' AS ts, 1 AS user)"
    " INSERT INTO n.t SELECT * FROM w",
    f"UPDATE t SET ts = TIMESTAMP '{DAY_1} 10:00:00' WHERE id = 100 AND {SINCE}",
    f"MERGE INTO t USING (SELECT 7L AS id) s ON t.id = s.id AND t.{SINCE}"
    f" WHEN NOT MATCHED THEN INSERT (id, ts, user) VALUES (s.id, TIMESTAMP '{DAY_1} 10:00:00', 1)",
    f"MERGE INTO t USING (SELECT 100L AS id) s ON t.id = s.id AND t.{SINCE}"
    f" WHEN MATCHED THEN UPDATE SET ts = TIMESTAMP '{DAY_1} 10:00:00'",
]
UNBOUNDED = [
    "DELETE FROM t WHERE user = 5",
    "DELETE FROM t",
    "TRUNCATE TABLE t",
    "UPDATE t SET user = 1",
    f"DELETE FROM t WHERE {SINCE} OR user = 5",
    "DELETE FROM t AS x WHERE x.ts >= TIMESTAMP '2026-01-01 12:00:00Z'",
    "MERGE INTO t USING (SELECT 100L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    f"MERGE INTO t USING (SELECT 100L AS id) s ON t.id = s.id AND t.{SINCE}"
    " WHEN MATCHED THEN UPDATE SET user = 3 WHEN NOT MATCHED BY SOURCE THEN DELETE",
]
FITTING = {
    f"INSERT INTO t VALUES (7, TIMESTAMP '{DAY_2} 00:00:00', 1)": {7, 100, 101, 102, 200, 201, 202},
    "INSERT INTO TABLE t SELECT id + 100, ts, user FROM t WHERE id >= 200":
        {100, 101, 102, 200, 201, 202, 300, 301, 302},
    f"DELETE FROM t WHERE id = 100 AND {SINCE}": {101, 102, 200, 201, 202},
    f"DELETE FROM t x WHERE x.{SINCE} AND x.user = 1": {100, 102, 200, 202},
    f"DELETE FROM t WHERE t.{SINCE}": set[int](),
    f"UPDATE t SET id = t.id + 1000 WHERE t.{SINCE} AND t.id = 100":
        {1100, 101, 102, 200, 201, 202},
    f"MERGE INTO t USING (SELECT 100L AS id UNION SELECT 9L) s ON t.id = s.id AND t.{SINCE}"
    f" WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, ts, user)"
    f" VALUES (s.id, TIMESTAMP '{DAY_3} 10:00:00', 1)": {9, 101, 102, 200, 201, 202},
    "DELETE FROM t WHERE id = 999 AND ts > TIMESTAMP '2026-02-01 00:00:00'":
        {100, 101, 102, 200, 201, 202},
}  # fmt: skip


@pytest.mark.parametrize("text", LATE)
def test_a_statement_that_writes_into_a_dropped_chunk_is_refused(
    lake: Warehouse, text: str
) -> None:
    guarded = Guarded.of(lake, "t", DAY_1)
    head = lw.head(lake, "t")
    with pytest.raises(LateDataRejected, match="nothing was written") as refused:
        run(guarded, text)
    assert refused.value.found.startswith(DAY_1)
    assert guarded.ids() == [100, 101, 102, 200, 201, 202]
    assert lw.head(lake, "t") == head and guarded.refs() == {"main"}


@pytest.mark.parametrize("text", UNBOUNDED)
def test_a_change_that_may_be_meant_for_dropped_rows_is_refused(lake: Warehouse, text: str) -> None:
    guarded = Guarded.of(lake, "t", DAY_1)
    with pytest.raises(LateDataRejected, match="nothing was changed") as refused:
        run(guarded, text)
    assert SINCE in refused.value.expected
    assert guarded.ids() == [100, 101, 102, 200, 201, 202] and guarded.refs() == {"main"}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("text", FITTING)
def test_a_statement_that_keeps_out_of_dropped_chunks_is_carried_out(
    lake: Warehouse, text: str, version: int
) -> None:
    guarded = Guarded.of(lake, "t", DAY_1, version=version)
    run(guarded, text)
    assert set(guarded.ids()) == FITTING[text] and guarded.refs() == {"main"}


def test_what_spark_refuses_leaves_no_branch(lake: Warehouse) -> None:
    guarded = Guarded.of(lake, "t", DAY_1)
    with pytest.raises(StatementRefused):
        run(guarded, "INSERT INTO t SELECT nonsense")
    assert guarded.refs() == {"main"}


class Interrupted:
    """An engine before whose first statements something else happens."""

    def __init__(self, engine: SqlEngine, *meanwhile: object) -> None:
        self._engine = engine
        self._meanwhile = list(meanwhile)
        self.texts: list[str] = []

    def run(self, text: str, statement_id: str, views: object) -> object:
        self.texts.append(text)
        if self._meanwhile and not text.startswith("REFRESH"):
            self._meanwhile.pop(0)()  # type: ignore[operator]
        return self._engine.run(text, statement_id, views)  # type: ignore[arg-type]

    def fetch(self, frame: object, limit: int | None) -> object:
        return self._engine.fetch(frame, limit)


def engine_of(guarded: Guarded, *meanwhile: object) -> Interrupted:
    wiring = Wiring(guarded.services.config, {}, lambda line: None)
    return Interrupted(wiring.sql_engine_of(guarded.lake.spark), *meanwhile)


def test_a_drop_that_comes_between_is_met(lake: Warehouse) -> None:
    guarded = Guarded.of(lake, "t", DAY_1)
    engine = engine_of(guarded, lambda: guarded.drop(DAY_2))
    text = f"INSERT INTO t VALUES (7, TIMESTAMP '{DAY_2} 10:00:00', 1)"
    with pytest.raises(LateDataRejected):
        run(guarded, text, engine)  # type: ignore[arg-type]
    assert guarded.ids() == [200, 201, 202] and guarded.refs() == {"main"}


def test_a_commit_that_comes_between_makes_it_run_once_more(lake: Warehouse) -> None:
    guarded = Guarded.of(lake, "t", DAY_1)
    engine = engine_of(guarded, lambda: lw.insert(lake, "t", DAY_2, 110))
    text = f"INSERT INTO t SELECT id + 1000, ts, user FROM t WHERE ts < '{DAY_3}'"
    run(guarded, text, engine)  # type: ignore[arg-type]
    expected = {100, 101, 102, 110, 200, 201, 202, 1100, 1101, 1102, 1110}
    assert set(guarded.ids()) == expected and guarded.refs() == {"main"}


def test_a_table_without_dropped_chunks_is_written_as_the_statement_stands(lake: Warehouse) -> None:
    guarded = Guarded.of(lake, "t")
    engine = engine_of(guarded)
    text = f"INSERT INTO t VALUES (7, TIMESTAMP '{DAY_1} 10:00:00', 1)"
    run(guarded, text, engine)  # type: ignore[arg-type]
    assert engine.texts == [text] and 7 in guarded.ids()
