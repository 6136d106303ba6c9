"""Copies in the cold tier, as the ledger remembers them: cold itself can tell them again."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, delete, select

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import in_parts, to_row, upsert
from meltline.adapters.sql_ledger.tables.schema import archived, copies
from meltline.domain.archive.archive import ArchivedSnapshot, Validity
from meltline.domain.archive.cold_proofs import CopyProof


@dataclass(frozen=True)
class ArchivedRows:
    """The port `ArchivedLedger`: one row each."""

    database: Database

    def all(self, uuids: Collection[str] | None = None) -> Sequence[ArchivedSnapshot]:
        parts = [None] if uuids is None else in_parts(sorted(set(uuids)))
        snapshots: list[ArchivedSnapshot] = []
        with self.database.reading() as connection:
            for part in parts:
                query = select(archived)
                query = query if part is None else query.where(archived.c.table_uuid.in_(part))
                snapshots += [_from_row(row) for row in connection.execute(query)]
        return sorted(snapshots, key=lambda c: (c.table_uuid, c.committed_at, c.snapshot_id))

    def save(self, copies: Sequence[ArchivedSnapshot]) -> None:
        with self.database.writing() as connection:
            upsert(connection, archived, [_to_row(copy) for copy in copies])

    def forget(self, uuid: str, snapshots: Collection[int]) -> None:
        with self.database.writing() as connection:
            for part in in_parts(sorted(set(snapshots))):
                condition = (archived.c.table_uuid == uuid) & archived.c.snapshot_id.in_(part)
                connection.execute(delete(archived).where(condition))


@dataclass(frozen=True)
class CopyRows:
    """The port `CopyLedger`."""

    database: Database

    def of(self, paths: Collection[str]) -> Mapping[str, CopyProof]:
        proofs: dict[str, CopyProof] = {}
        with self.database.reading() as connection:
            for part in in_parts(sorted(set(paths))):
                query = select(copies).where(copies.c.path.in_(part))
                rows = (CopyProof(**row._mapping) for row in connection.execute(query))
                proofs |= {proof.path: proof for proof in rows}
        return proofs

    def save(self, proofs: Collection[CopyProof]) -> None:
        with self.database.writing() as connection:
            upsert(connection, copies, [to_row(proof) for proof in proofs])

    def forget(self, paths: Collection[str]) -> None:
        with self.database.writing() as connection:
            for part in in_parts(sorted(set(paths))):
                connection.execute(delete(copies).where(copies.c.path.in_(part)))


def _to_row(copy: ArchivedSnapshot) -> dict[str, object]:
    row = to_row(copy)
    del row["validity"]
    return row | {"readable_from": copy.validity.start, "readable_until": copy.validity.end}


def _from_row(row: Row[Any]) -> ArchivedSnapshot:
    facts = dict(row._mapping)
    validity = Validity(facts.pop("readable_from"), facts.pop("readable_until"))
    return ArchivedSnapshot(validity=validity, **facts)
