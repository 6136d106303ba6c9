"""Stores archived snapshots and copy proofs; they can be rebuilt from cold."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import delete_in, rows_in, to_row
from meltline.adapters.sql_ledger.tables.schema import archived, copies
from meltline.domain.archive.archive import ArchivedSnapshot, Validity
from meltline.domain.archive.cold_proofs import CopyProof


@dataclass(frozen=True)
class ArchivedRows:
    """The port `ArchivedLedger`: one row for each archived snapshot."""

    database: Database

    def all(self, uuids: Collection[str] | None = None) -> Sequence[ArchivedSnapshot]:
        query = select(archived)
        with self.database.reading() as connection:
            rows: Iterable[Row[Any]] = (
                connection.execute(query)
                if uuids is None
                else rows_in(connection, query, archived.c.table_uuid, uuids)
            )
            snapshots = [_from_row(row) for row in rows]
        return sorted(snapshots, key=lambda c: (c.table_uuid, c.committed_at, c.snapshot_id))

    def save(self, copies: Sequence[ArchivedSnapshot]) -> None:
        self.database.save(archived, [_to_row(copy) for copy in copies])

    def forget(self, uuid: str, snapshots: Collection[int]) -> None:
        with self.database.writing() as connection:
            of_table = archived.c.table_uuid == uuid
            delete_in(connection, archived.c.snapshot_id, snapshots, of_table)


@dataclass(frozen=True)
class CopyRows:
    """The port `CopyLedger`."""

    database: Database

    def of(self, paths: Collection[str]) -> Mapping[str, CopyProof]:
        with self.database.reading() as connection:
            rows = rows_in(connection, select(copies), copies.c.path, paths)
            return {row.path: CopyProof(**row._mapping) for row in rows}

    def save(self, proofs: Collection[CopyProof]) -> None:
        self.database.save(copies, [to_row(proof) for proof in proofs])

    def forget(self, paths: Collection[str]) -> None:
        with self.database.writing() as connection:
            delete_in(connection, copies.c.path, paths)


def _to_row(copy: ArchivedSnapshot) -> dict[str, object]:
    row = to_row(copy)
    del row["validity"]
    return row | {"readable_from": copy.validity.start, "readable_until": copy.validity.end}


def _from_row(row: Row[Any]) -> ArchivedSnapshot:
    facts = dict(row._mapping)
    validity = Validity(facts.pop("readable_from"), facts.pop("readable_until"))
    return ArchivedSnapshot(validity=validity, **facts)
