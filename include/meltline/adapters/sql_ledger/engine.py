"""Engines for the two databases: how transactions begin, and URLs that never show a secret."""

import sqlite3
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from meltline.domain.errors import ConfigInvalid

BUSY_SECONDS = 30
WRITES = "meltline_writes"
"""The execution option of a connection that is about to write."""


def open_engine(url: str) -> Engine:
    """An engine for a `control` URL; nothing is opened yet.

    Raises:
        ConfigInvalid: It is no URL of an SQLite file or a Postgres database.
    """
    parsed = _parse(url)
    return _sqlite(parsed) if parsed.get_backend_name() == "sqlite" else _postgres(parsed)


def shown(url: URL) -> str:
    """Where a ledger is, for people: without user, password and options."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{url.host or 'localhost'}{port}/{url.database or ''}"


def scrubbed(text: str, url: URL) -> str:
    """A driver's words without the secrets of the URL, should it repeat them."""
    secrets = [url.password, url.query.get("password"), url.query.get("sslpassword")]
    for secret in secrets:
        if secret:
            text = text.replace(str(secret), "***")
    return text


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, ValueError):
        backend = ""
    if backend in ("postgresql", "postgres") or (
        backend == "sqlite" and parsed.database not in (None, "", ":memory:")
    ):
        return parsed
    # The cause is left out: it can quote the part of the URL where the password stands.
    raise ConfigInvalid(
        "the control ledger's URL cannot be used",
        object="control",
        expected="sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
        found=f"a URL of {backend}" if backend else "not a URL (not shown: it may hold a password)",
        next="correct `control` in meltline.yaml; percent-encode odd letters of the password",
    ) from None


def _sqlite(url: URL) -> Engine:
    engine = create_engine(url.set(drivername="sqlite"), connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _on_connect(connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions by itself
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        # A reader that turns writer fails at once when another wrote meanwhile: writers queue here.
        writes = connection.get_execution_options().get(WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgres(url: URL) -> Engine:
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
        pool_size=2,  # the work and its lock's heartbeat
        connect_args={} if "connect_timeout" in url.query else {"connect_timeout": BUSY_SECONDS},
    )

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        if connection.get_execution_options().get(WRITES):
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")

    return engine
