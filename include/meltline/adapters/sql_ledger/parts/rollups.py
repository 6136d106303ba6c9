"""Stores rollups in SQL, for the control ledger."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Row, select, update
from sqlalchemy import delete as delete_from

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import insert_first, to_row
from meltline.adapters.sql_ledger.tables.rollup_tables import rollups
from meltline.domain.chunks.rollup import Rollup, rollup_exists


@dataclass(frozen=True)
class RollupRows:
    """The port `RollupLedger`."""

    database: Database

    def all(self, sources: Collection[str] | None = None) -> Sequence[Rollup]:
        query = select(rollups).order_by(rollups.c.name)
        if sources is not None:
            query = query.where(rollups.c.source_uuid.in_(sorted(set(sources))))
        with self.database.reading() as connection:
            return [_rollup(row) for row in connection.execute(query)]

    def add(self, rollup: Rollup) -> Rollup:
        own = select(rollups.c.seq).where(rollups.c.name == rollup.name)
        with self.database.writing() as connection:
            if not insert_first(connection, rollups, _row(rollup)):
                raise rollup_exists(rollup.name)
            return replace(rollup, id=connection.execute(own).scalar_one())

    def save(self, before: Rollup, after: Rollup) -> bool:
        seen = _row(before)
        same = [rollups.c[name].is_not_distinct_from(value) for name, value in seen.items()]
        where = (rollups.c.seq == before.id, *same)
        return bool(self.database.change(update(rollups).where(*where).values(_row(after))))

    def remove(self, name: str) -> bool:
        return bool(self.database.change(delete_from(rollups).where(rollups.c.name == name)))


def _row(rollup: Rollup) -> dict[str, object]:
    row = to_row(rollup)
    del row["id"]
    return row


def _rollup(row: Row[Any]) -> Rollup:
    facts = dict(row._mapping)
    return Rollup(id=facts.pop("seq"), **facts)
