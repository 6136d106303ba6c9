"""TABLE_all in statements: where it is a table's rows of hot and cold, and where it is not."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from meltline.app.services import RunContext
from meltline.app.sql.statement_results import StatementResult
from meltline.app.sql.statements import StatementRequest, run_statement
from meltline.domain.chunks.complete import CompleteRead
from meltline.domain.deletion.limits import ChunkSettings
from meltline.domain.errors import NotChunked, StatementUnsupported
from meltline.domain.iceberg.objects import ObjectName
from meltline.grammar.references import tables_read
from meltline.ports import Lease, ReadRows, TableView
from tests.chunks.chunk_tables import values_of
from tests.doubles.chunks import complete_rows_of
from tests.unit.chunks.tiers import DAYS, Tiers


@dataclass
class Session:
    """A synced table `lake.air.chunks` with dropped days, and an engine that remembers."""

    tiers: Tiers
    known: set[tuple[str, ...]] = field(default_factory=set)
    given: list[str] = field(default_factory=list)
    views: list[TableView] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    suffix: str = "_all"

    def run(self, text: str, statement_id: str, views: Mapping[str, TableView]) -> object:
        for number, (name, view) in enumerate(views.items()):
            assert re.fullmatch(r"meltline_(all|past)_[0-9a-f]{8}_\d+", name)
            text = text.replace(name, f"view{number}")
            self.views.append(view)
        self.given.append(text)
        lake = self.tiers.lake
        self.leases += lake.control.leases.active(lake.clock.now())
        return "a frame"

    def knows(self, name: Sequence[str]) -> bool:
        return tuple(name) in self.known

    def fetch(self, frame: object, limit: int | None) -> ReadRows:
        return ReadRows((), ())

    def __call__(self, text: str) -> StatementResult:
        services = self.tiers.lake.services()
        settings = ChunkSettings(max_drop_share=1.0, all_suffix=self.suffix)
        services = replace(services, config=replace(services.config, chunks=settings))
        request = StatementRequest(text, ObjectName("lake", ("air",)))
        return run_statement(services, lambda: self, request, self.services)

    def services(self, app: str, run_id: str = "", *, judges: bool = False) -> RunContext:
        raise AssertionError(f"Spark was started for {app}")

    def sent(self, text: str) -> str:
        self(text)
        return self.given[-1]


@pytest.fixture
def sql() -> Session:
    tiers = Tiers()
    tiers.add_policy()
    tiers.run("drops")
    return Session(tiers)


def test_a_query_reads_a_view_of_all_rows_and_keeps_hots_snapshot_meanwhile(sql: Session) -> None:
    assert sql.sent("SELECT * FROM chunks_all") == "SELECT * FROM view0 AS `chunks_all`"
    (view,) = sql.views
    assert isinstance(view, CompleteRead)
    assert values_of(complete_rows_of(view, sql.tiers.lake.store)) == list(range(2 * DAYS))
    assert [lease.snapshot_id for lease in sql.leases] == [sql.tiers.hot.head]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM lake.air.chunks_all r", "SELECT * FROM view0 r"),
        ("SELECT a.id FROM air.chunks_all AS a", "SELECT a.id FROM view0 AS a"),
        ("FROM `chunks_all` SELECT id", "FROM view0 AS `chunks_all` SELECT id"),
        (
            "SELECT chunks_all, x FROM chunks c JOIN chunks_all USING (chunks_all)",
            "SELECT chunks_all, x FROM chunks c JOIN view0 AS `chunks_all` USING (chunks_all)",
        ),
        (
            "SELECT * FROM chunks_all, chunks_all b",
            "SELECT * FROM view0 AS `chunks_all`, view0 b",
        ),
        (
            "INSERT INTO other SELECT * FROM (SELECT * FROM chunks_all)",
            "INSERT INTO other SELECT * FROM (SELECT * FROM view0 AS `chunks_all`)",
        ),
        (
            "WITH chunks_all AS (SELECT 1) SELECT * FROM chunks_all",
            "WITH chunks_all AS (SELECT 1) SELECT * FROM chunks_all",
        ),
        ("SELECT 'x FROM chunks_all'", "SELECT 'x FROM chunks_all'"),
        ("SELECT * FROM nobody_all", "SELECT * FROM nobody_all"),
        ("SELECT * FROM _all", "SELECT * FROM _all"),
        ("SHOW COLUMNS FROM chunks_all", "SHOW COLUMNS FROM chunks_all"),
    ],
)
def test_a_name_is_replaced_where_it_is_a_table_that_is_read(
    sql: Session, text: str, expected: str
) -> None:
    assert sql.sent(text) == expected


@pytest.mark.parametrize("name", ["chunks_all", "lake.air.chunks_all"])
def test_a_table_or_view_of_that_name_goes_first(sql: Session, name: str) -> None:
    sql.known.add(tuple(name.split(".")))
    for text in (f"SELECT * FROM {name}", f"INSERT INTO {name} VALUES (1)"):
        assert sql.sent(text) == text
    assert sql.views == []


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO chunks_all VALUES (1)",
        "INSERT OVERWRITE TABLE lake.air.chunks_all SELECT * FROM chunks",
        "DELETE FROM chunks_all WHERE id = 1",
        "UPDATE air.chunks_all SET id = 1",
        "MERGE INTO chunks_all USING chunks s ON s.id = 1 WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE chunks_all",
        "WITH w AS (SELECT 1) INSERT INTO chunks_all SELECT * FROM w",
    ],
)
def test_nothing_is_written_to_them(sql: Session, text: str) -> None:
    with pytest.raises(StatementUnsupported, match="chunks_all is what hot and cold have together"):
        sql(text)
    assert sql.given == []


def test_a_table_without_chunks_is_named(sql: Session) -> None:
    sql.tiers.lake.table("plain")
    with pytest.raises(NotChunked, match="plain is not cut into chunks"):
        sql("SELECT * FROM plain_all")


def test_the_suffix_is_configured_and_an_empty_one_turns_it_off(sql: Session) -> None:
    sql.suffix = "__both"
    assert sql.sent("SELECT * FROM chunks__both") == "SELECT * FROM view0 AS `chunks__both`"
    assert sql.sent("SELECT * FROM chunks_all") == "SELECT * FROM chunks_all"
    sql.suffix = ""
    assert sql.sent("SELECT * FROM chunks_all") == "SELECT * FROM chunks_all"


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT a, b FROM t, x.y u JOIN (z JOIN v ON 1 = 1, w) ORDER BY a, b", "t x.y z v w"),
        ("SELECT extract(DAY FROM a), b IS DISTINCT FROM c FROM t", "t"),
        ("SELECT * FROM f(x, y), t TABLESAMPLE (1 ROWS) WHERE a IN (SELECT b FROM u)", "t u"),
        ("SELECT * FROM t LATERAL VIEW explode(a) e AS b, c", "t"),
        ("TABLE t", "t"),
        ("SELECT * FROM (TABLE t) UNION ALL TABLE u", "t u"),
        ("DESCRIBE TABLE t", ""),
        ("MERGE INTO t USING s ON a = b WHEN MATCHED THEN UPDATE SET a = 1, b = 2", "s"),
        ("WITH w (a, b) AS (SELECT * FROM t) SELECT * FROM w, n.w", "t n.w"),
    ],
)
def test_tables_that_are_read_are_told_from_columns(text: str, tables: str) -> None:
    assert [".".join(found.table) for found in tables_read(text)] == tables.split()
