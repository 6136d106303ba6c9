"""The databases of the compose file, on a real Postgres: nobody reads what is another's."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.contract.ledger.postgres import PostgresServer, throwaway_postgres

pytestmark = pytest.mark.postgres

SCRIPT = Path(__file__).parents[3] / "deploy" / "databases.sh"
PASSWORDS = {"airflow": "of-airflow", "meltline": "of the'ledger$", "lake": "of-catalog"}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One that the image's script has been run on, by its administrator."""
    with throwaway_postgres() as server:
        administrator = f"postgresql://postgres:root@127.0.0.1:{server.port}/postgres"
        with psycopg.connect(server.url("postgres"), autocommit=True) as founder:
            founder.execute("CREATE ROLE postgres SUPERUSER LOGIN PASSWORD 'root'")
        with psycopg.connect(administrator, autocommit=True) as connection:
            # A server of tests has this name already; that of the image has not.
            connection.execute("ALTER ROLE meltline RENAME TO founder")
        run_script(server)
        yield server


def run_script(server: PostgresServer) -> None:
    done = subprocess.run(
        [str(SCRIPT)],
        env={
            "PATH": os.environ["PATH"],
            "PGHOST": "127.0.0.1",
            "PGPORT": str(server.port),
            "PGPASSWORD": "root",
            "POSTGRES_USER": "postgres",
            "AIRFLOW_DB_PASSWORD": PASSWORDS["airflow"],
            "LEDGER_PASSWORD": PASSWORDS["meltline"],
            "CATALOG_PASSWORD": PASSWORDS["lake"],
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not any(password in done.stdout + done.stderr for password in PASSWORDS.values())


def connection(server: PostgresServer, user: str, database: str) -> psycopg.Connection:
    return psycopg.connect(
        host="127.0.0.1", port=server.port, user=user, password=PASSWORDS[user], dbname=database
    )


@pytest.mark.parametrize("user", PASSWORDS)
def test_each_user_makes_tables_in_its_own_database(server: PostgresServer, user: str) -> None:
    with connection(server, user, user) as own:
        own.execute("CREATE TABLE made (n int)")
        own.execute("INSERT INTO made VALUES (1)")
        assert own.execute("SELECT n FROM made").fetchall() == [(1,)]
        own.rollback()


@pytest.mark.parametrize("user", PASSWORDS)
def test_no_user_comes_into_another_database(server: PostgresServer, user: str) -> None:
    for database in PASSWORDS.keys() - {user}:
        with pytest.raises(psycopg.OperationalError, match="CONNECT privilege"):
            connection(server, user, database)


@pytest.mark.parametrize("user", PASSWORDS)
def test_no_user_may_make_others_or_databases(server: PostgresServer, user: str) -> None:
    for statement in ("CREATE ROLE friend", "CREATE DATABASE another"):
        with connection(server, user, user) as own:
            own.autocommit = True
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                own.execute(statement)
