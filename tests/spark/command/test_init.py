"""What `meltline init` makes, what it names as missing, and when it is not believed."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from meltline.cli.main import run
from meltline.domain.errors import CatalogUnlistable, MeltlineError, SetupMissing, StoreRefused
from tests.contract.ledger.postgres import PostgresServer, throwaway_postgres
from tests.spark.setups.new_lakes import LOCAL, NewLake, connections_of, new_lake

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with throwaway_postgres() as server:
        yield server


def refusal(lake: NewLake) -> MeltlineError:
    """How init refuses; and that it has made nothing in the control ledger by then."""
    with pytest.raises(MeltlineError) as refused:
        lake.init()
    assert not (lake.folder / "control.db").exists()
    return refused.value


def sql(uri: str, warehouse: str = "archive") -> dict[str, str]:
    return {"type": "sql", "uri": uri, "warehouse": warehouse}


def has_tables_of_an_archive(lake: NewLake) -> bool:
    context = lake.wiring().ledgers()
    with connections_of(context):
        return context.cold is not None and context.cold.catalog.listing().entries == ()


# --- what is made ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", ["hot", "cold"])
def test_folders_of_a_catalog_and_of_a_warehouse_are_made(tmp_path: Path, tier: str) -> None:
    words = sql("sqlite:///not/yet/there.db", "nor/this")
    lake = new_lake(tmp_path, words) if tier == "hot" else new_lake(tmp_path, LOCAL, words)
    assert lake.init().generation == 1
    assert (lake.folder / "not/yet/there.db").is_file() and (lake.folder / "nor/this").is_dir()
    left = {path.name for path in (lake.folder / "nor/this").glob(".meltline-*")}
    assert left <= {".meltline-installation", ".meltline-installation.lock"}, "what was tried"
    assert tier == "hot" or has_tables_of_an_archive(lake)


@pytest.mark.slow("a Postgres server, and commands in processes of their own")
def test_in_an_empty_database_of_postgres_the_tables_of_a_catalog_are_made(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    hot = sql(postgres.create_database(), "warehouse")
    lake = new_lake(tmp_path, hot, sql(postgres.create_database()), postgres.create_database())
    assert lake.init().generation == 1 and has_tables_of_an_archive(lake)
    assert lake.init().generation == 1


# --- what was lost ---


def test_a_lost_control_ledger_is_replaced_once_its_installation_is_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake(tmp_path)
    lake.init()
    for file in lake.folder.glob("control.db*"):
        file.unlink()
    words = ["init", "--config", str(lake.folder / "meltline.yaml"), "--adopt"]
    assert run(words) == 2
    (typed,) = set(re.findall(r"`(--installation \S+)`", capsys.readouterr().err))
    assert run([*words, *typed.split()]) == 0
    assert "generation 2" in capsys.readouterr().out


# --- what is missing ------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", ["hot", "cold"])
def test_a_database_of_postgres_that_is_not_there_is_named(
    tmp_path: Path, postgres: PostgresServer, tier: str
) -> None:
    words = sql(postgres.url("nowhere"))
    lake = new_lake(tmp_path, words) if tier == "hot" else new_lake(tmp_path, LOCAL, words)
    refused = refusal(lake)
    assert isinstance(refused, CatalogUnlistable) and refused.object == getattr(lake, tier)
    assert "no such database" in refused.found and "createdb" in refused.next


def test_a_schema_of_postgres_that_is_not_there_is_named(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    uri = f"{postgres.create_database()}?options=-csearch_path%3Dattic"
    refused = refusal(new_lake(tmp_path, LOCAL, sql(uri)))
    assert isinstance(refused, SetupMissing) and "CREATE SCHEMA" in refused.next
    with psycopg.connect(uri.partition("?")[0], autocommit=True) as connection:
        connection.execute("CREATE SCHEMA attic")
    lake = new_lake(tmp_path, LOCAL, sql(uri))
    assert lake.init().generation == 1 and has_tables_of_an_archive(lake)


def test_a_user_who_may_make_no_tables_is_named_with_what_the_database_said(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    uri = postgres.create_database()
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'peeks'")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    server = uri.rpartition("@")[2]
    lake = new_lake(tmp_path, LOCAL, sql(f"postgresql://reader:peeks@{server}"))
    with pytest.raises(SetupMissing) as refused:
        lake.init()
    assert refused.value.object == lake.cold and "permission denied" in refused.value.found
    assert "peeks" not in "".join(refused.value.lines)


def test_a_password_that_is_missing_or_wrong_and_a_server_that_is_away_are_told_apart(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    server = f"127.0.0.1:{postgres.port}/postgres"
    none = refusal(new_lake(tmp_path, LOCAL, sql(f"postgresql://meltline@{server}")))
    wrong = refusal(new_lake(tmp_path, LOCAL, sql(f"postgresql://meltline:guess@{server}")))
    away = refusal(new_lake(tmp_path, LOCAL, sql("postgresql://a:b@127.0.0.1:1/x")))
    assert "no credentials" in none.found and "user and password" in none.next
    assert "refused" in wrong.found and "guess" not in "".join(wrong.lines)
    assert "nobody answers" in away.found


@pytest.mark.parametrize("tier", ["hot", "cold"])
def test_a_warehouse_that_is_a_file_is_named(tmp_path: Path, tier: str) -> None:
    (tmp_path / "file").touch()
    words = sql("sqlite:///any.db", str(tmp_path / "file"))
    lake = new_lake(tmp_path, words) if tier == "hot" else new_lake(tmp_path, LOCAL, words)
    refused = refusal(lake)
    assert isinstance(refused, StoreRefused) and str(tmp_path / "file") in refused.object
    assert (f"archive {lake.cold}" in refused.message) is (tier == "cold")


@contextmanager
def a_server_that_says(status: int, kind: str, message: str) -> Iterator[str]:
    """Answers every request of a REST catalog's client so, as such servers do."""
    body = json.dumps({"error": {"message": message, "type": kind, "code": status}}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("tier", ["hot", "cold"])
@pytest.mark.parametrize(
    ("status", "kind", "message", "reason", "step"),
    [
        (404, "NotFoundException", "Unable to find warehouse attic", "no such warehouse", "make"),
        (404, "NoSuchWarehouseException", "attic", "no such warehouse", "make the warehouse"),
        (400, "BadRequest", "Warehouse 'attic' does not exist", "no such warehouse", "make"),
        (401, "NotAuthorizedException", "Missing token", "no credentials", "credential or token"),
        (403, "ForbiddenException", "not for you", "credentials are refused", "right to list"),
    ],
    ids=["Polaris", "Lakekeeper", "others", "no token", "no right"],
)
def test_what_a_rest_server_does_not_know_or_forbids_is_named(
    tmp_path: Path, tier: str, status: int, kind: str, message: str, reason: str, step: str
) -> None:
    with a_server_that_says(status, kind, message) as uri:
        words = {"type": "rest", "uri": uri, "warehouse": "attic"}
        lake = new_lake(tmp_path, words) if tier == "hot" else new_lake(tmp_path, LOCAL, words)
        refused = refusal(lake)
    assert refused.object == getattr(lake, tier)
    assert reason in refused.found and message in refused.found and step in refused.next


# --- what was answered and not done ---------------------------------------------------------------


def test_tables_that_spark_made_elsewhere_are_not_taken_for_made(tmp_path: Path) -> None:
    """One session has one catalog of a name: here Spark writes to the first lake's database."""
    first = new_lake(tmp_path)
    first.init()
    other = new_lake(tmp_path, name=first.hot)
    SqlCatalog(first.hot, uri=f"sqlite:///{other.folder}/lake.db", init_catalog_tables="true")
    with pytest.raises(SetupMissing, match="has not made") as refused:
        other.init()
    assert "no such namespace" in refused.value.found and "same catalog" in refused.value.next
    assert other.wiring().ledgers().control.database.generation() == 0
