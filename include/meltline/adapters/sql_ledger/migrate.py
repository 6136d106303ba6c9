"""Migrates a ledger's schema to the newest revision. Only this module imports Alembic."""

import sqlite3
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from meltline.adapters.sql_ledger.tables.schema import REVISION, current_revision
from meltline.domain.errors import SetupMissing
from meltline.file_permissions import Access, make_file, make_folder
from meltline.retries import until_done

_SCRIPTS = Path(__file__).parent / "migrations"
_ANY_NUMBER = 6_353_101  # identifies our lock among the database's advisory locks

_NO_WAITING = "PRAGMA journal_mode = WAL"
_ATTEMPTS = 20  # processes that create one ledger concurrently


def upgrade(connection: Connection, where: str) -> None:
    """Runs the missing revisions in the caller's transaction; one process at a time.

    Raises:
        SetupMissing: The schema was written by a newer Meltline.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _ANY_NUMBER})
    config = Config()
    # A percent sign in the path would be read as a placeholder.
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    revision = current_revision(connection)
    revisions = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in revisions:
        raise SetupMissing(
            f"the control ledger at {where} was written by a newer Meltline",
            object=where,
            expected=f"revision {REVISION} or older",
            found=f"revision {revision}",
            next="use that version of Meltline, or another ledger",
        )
    command.upgrade(config, REVISION)


def create_sqlite_file(database: Path, access: Access) -> None:
    """Creates the file and its folder, in WAL mode, in which readers do not wait for writers.

    SQLite gives its side files the permissions of the file.
    """
    make_folder(database.parent, access)
    make_file(database, access)
    # Not through the engine: the mode cannot change inside a transaction. It is stored in the file.
    connection = sqlite3.connect(database, timeout=30, isolation_level=None)
    try:
        if not until_done(lambda: _without_waiting(connection), attempts=_ATTEMPTS):
            connection.execute(_NO_WAITING)  # fails with the reason
    finally:
        connection.close()


def _without_waiting(connection: sqlite3.Connection) -> bool | None:
    connection.execute("BEGIN IMMEDIATE")  # waits its turn, which the change does not
    connection.execute("COMMIT")
    try:
        connection.execute(_NO_WAITING)
    except sqlite3.OperationalError:  # another process came in between
        return None
    return True
