"""SQL reads the archive and never changes it: the only copy of what left hot lies there."""

import pytest

from meltline.app.sql.statements import require_archive_unchanged
from meltline.domain.errors import CatalogReadOnly
from meltline.domain.iceberg.objects import ObjectName
from meltline.grammar import parse
from meltline.grammar.statements import Query
from tests.lake.lake import Lake
from tests.unit.sql.test_statements import Session, WatchingEngine

HOT, COLD = ObjectName("lake", ("air",)), ObjectName("ice", ("meltline_synced", "air"))

WRITES = (
    "DELETE FROM ice.meltline_synced.air.t",
    "DELETE FROM ice.meltline_synced.air.t WHERE id < (SELECT max(id) FROM lake.air.t)",
    "DELETE FROM IDENTIFIER('ice.air.t')",
    "TRUNCATE TABLE `ice`.air.t",
    "INSERT INTO ice.air.t SELECT * FROM lake.air.t",
    "INSERT OVERWRITE ice.air.t SELECT * FROM lake.air.t",
    "WITH x AS (SELECT * FROM lake.air.t) INSERT INTO ice.air.t SELECT * FROM x",
    "FROM lake.air.t INSERT INTO lake.air.u SELECT * INSERT INTO ice.air.t SELECT *",
    "UPDATE ice.air.t SET id = 1",
    "MERGE INTO ice.air.t USING lake.air.t s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "ALTER TABLE ice.air.t SET TBLPROPERTIES ('meltline.sync-dropped' = '{}')",
    "ALTER TABLE ice.air.t EXECUTE anything",
    "CREATE TABLE ice.air.u AS SELECT * FROM lake.air.t",
    "CREATE OR REPLACE TABLE ice.air.t USING iceberg AS SELECT * FROM lake.air.t",
    "REPLACE TABLE ice.air.t USING iceberg AS SELECT 1",
    "DROP VIEW ice.air.v",
    "CALL ice.system.rollback_to_snapshot('air.t', 1)",
    "CALL lake.system.migrate(table => 'ice.air.t')",
    "EXECUTE IMMEDIATE 'ice.air.t'",
    "EXECUTE IMMEDIATE 'DELETE FROM ice.air.t'",
    'execute immediate "TRUNCATE TABLE ice.air.t"',
    "EXECUTE IMMEDIATE 'DELETE FROM IDENTIFIER(?)' USING 'ice.air.t'",
    "EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE ''DELETE FROM ice.air.t'''",
    "EXECUTE IMMEDIATE 'DELETE FROM i' 'ce.air.t'",
    "EXECUTE IMMEDIATE a_variable",
    "BEGIN EXECUTE IMMEDIATE 'DELETE FROM ice.air.t'; END",
    "DELETE FROM IDENTIFIER('i' || 'ce.air.t')",
    "DELETE FROM IDENTIFIER('i' 'ce.air.t')",
    r"DELETE FROM IDENTIFIER('\u0069ce.air.t')",
    "INSERT INTO IDENTIFIER(a_variable) VALUES (1)",
    "DROP VIEW IDENTIFIER(concat('ice', '.air.v'))",
)
READS = (
    "SELECT * FROM ice.air.t",
    "SELECT 'ice.cream' AS x FROM lake.air.t",
    "WITH x AS (SELECT * FROM ice.air.t) SELECT * FROM x",
    "INSERT INTO lake.air.t SELECT * FROM ice.air.t",
    "INSERT INTO lake.air.t VALUES ('ice.cream')",
    "MERGE INTO lake.air.t USING ice.air.t s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "DELETE FROM lake.air.t WHERE id IN (SELECT id FROM ice.air.t)",
    "CREATE TABLE lake.air.u USING iceberg AS SELECT * FROM ice.air.t",
    "CREATE TEMPORARY VIEW v AS SELECT * FROM ice.air.t JOIN lake.air.t USING (id)",
    "CALL lake.system.rewrite_data_files(table => 'air.t')",
    "ALTER TABLE lake.air.t ADD COLUMN ice int",
    "DESCRIBE TABLE ice.air.t",
    "EXECUTE IMMEDIATE 'SELECT * FROM ice.air.t'",
    "EXECUTE IMMEDIATE 'DELETE FROM lake.air.t WHERE id = ?' USING 1",
    "DELETE FROM IDENTIFIER('lake.air.t') WHERE id = 1",
    "INSERT INTO lake.air.t SELECT * FROM IDENTIFIER('ice.air.' || 't')",
    "SELECT * FROM IDENTIFIER('ice.air.' || 't')",
    "EXPLAIN DELETE FROM ice.air.t",
    "SHOW TABLES IN ice.air",
)


def judged(text: str, standing: ObjectName = HOT, *, has_cold: bool = True) -> None:
    statement = parse(text)
    assert isinstance(statement, Query)
    services = Lake(has_cold=has_cold).services()
    require_archive_unchanged(services, standing, text, statement.kind)


@pytest.mark.parametrize("text", WRITES)
def test_a_statement_that_may_change_the_archive_is_refused(text: str) -> None:
    with pytest.raises(CatalogReadOnly, match="where SQL only reads"):
        judged(text)


@pytest.mark.parametrize("text", READS)
def test_a_statement_that_reads_the_archive_is_carried_out(text: str) -> None:
    judged(text)


@pytest.mark.parametrize("text", ["DELETE FROM t", "INSERT INTO t VALUES (1)", "ALTER TABLE t X"])
def test_names_are_completed_by_the_catalog_in_which_the_session_is(text: str) -> None:
    judged(text, HOT)
    with pytest.raises(CatalogReadOnly):
        judged(text, COLD)
    judged("SELECT * FROM t", COLD)


def test_a_catalog_that_is_no_archive_is_changed() -> None:
    judged("DELETE FROM ice.air.t", has_cold=False)


def test_spark_never_hears_of_a_statement_that_would_change_the_archive() -> None:
    lake = Lake(has_cold=True)
    sql = Session(lake, lake.table("t"), WatchingEngine(lake))
    for text in ("DELETE FROM ice.air.t", "CREATE TRANSIENT TABLE ice.air.u (id INT)"):
        with pytest.raises(CatalogReadOnly):
            sql(text)
    assert sql.engine.given == []
    assert sql.sent("SELECT * FROM ice.air.t") == "SELECT * FROM ice.air.t"
