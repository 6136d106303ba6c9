"""Databases with a user of its own each, on a throw-away Postgres."""

import secrets
from dataclasses import dataclass

import psycopg

from tests.contract.ledger.postgres import PostgresServer


@dataclass(frozen=True)
class Database:
    """A database that its owner alone may enter."""

    server: PostgresServer
    name: str
    password: str

    @classmethod
    def create(cls, server: PostgresServer, name: str) -> "Database":
        """An empty one; its owner has its name."""
        database = cls(server, name, secrets.token_hex(12))
        with database._as_administrator() as administrator:
            administrator.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{database.password}'")
            administrator.execute(f"CREATE DATABASE {name} OWNER {name}")
            administrator.execute(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")
        return database

    @property
    def url(self) -> str:
        """For SQLAlchemy."""
        where = f"127.0.0.1:{self.server.port}/{self.name}"
        return f"postgresql+psycopg://{self.name}:{self.password}@{where}"

    def keep(self) -> None:
        """Keeps what stands in it now, for `restore`."""
        with self._as_administrator() as administrator:
            administrator.execute(f"CREATE DATABASE {self._kept} TEMPLATE {self.name}")

    def restore(self) -> None:
        """Brings back what was kept; whoever is connected is cut off."""
        with self._as_administrator() as administrator:
            administrator.execute(f"DROP DATABASE {self.name} WITH (FORCE)")
            administrator.execute(
                f"CREATE DATABASE {self.name} TEMPLATE {self._kept} OWNER {self.name}"
            )
            administrator.execute(f"REVOKE CONNECT ON DATABASE {self.name} FROM PUBLIC")

    def rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        """What a query finds."""
        with psycopg.connect(self.server.url(self.name)) as connection:
            return connection.execute(query.encode(), values).fetchall()

    @property
    def _kept(self) -> str:
        return f"{self.name}_as_it_was"

    def _as_administrator(self) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(self.server.url("postgres"), autocommit=True)
