"""Reads rows of the ledger's tables in this process, in any number.

`index_reader.py` calls it. Small, plain files are read with `parquet_scan.py`, as the steps of a
run read them; most ledgers have no others. PyIceberg reads all other tables. Loading it takes
longer than reading those files (decision 035).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from meltline.adapters.index_tables.file_parts import NotPlain, TableFiles
from meltline.adapters.index_tables.parquet_scan import LedgerFiles
from meltline.adapters.index_tables.scan_query import Condition, Question
from meltline.adapters.index_tables.schema import TABLES
from meltline.config.load import CatalogConfig


class LedgerRows:
    """Rows of tables whose metadata path is known."""

    def __init__(self, hot: CatalogConfig, store: TableFiles, small: int) -> None:
        """Takes the ledger's catalog with its credentials, the store, and the bytes that are small.

        Above that many bytes of files PyIceberg answers: it need not have all in memory at once.
        """
        self._hot = hot
        self._files = LedgerFiles(store, small)
        self._files.largest = small

    def all(
        self, name: str, location: str, columns: Sequence[str], where: Sequence[Condition]
    ) -> pa.Table:
        """Returns these columns of the rows that meet all conditions, in any order.

        Args:
            name: The table's name in `TABLES`.
            location: The path of its metadata.
            columns: The columns of the answer.
            where: "=", "<" or "in". Null meets none.
        """
        question = Question.of(TABLES[name], columns, where, None)
        try:
            return self._files.answer_at(name, location, question)
        except NotPlain:
            return _scan().scanned_rows(self._hot, location, question)

    def parts(
        self, name: str, location: str, columns: Sequence[str], where: Sequence[Condition]
    ) -> Iterable[pa.RecordBatch]:
        """Returns the same rows in batches, which are not in memory at once."""
        question = Question.of(TABLES[name], columns, where, None)
        try:
            batches: Iterable[pa.RecordBatch] = self._files.answer_at(
                name, location, question
            ).to_batches()
        except NotPlain:
            batches = _scan().scanned_batches(self._hot, location, question)
        return batches

    @staticmethod
    def together(tables: Sequence[pa.Table]) -> pa.Table:
        """Joins rows of two tables, by any reader."""
        return pa.concat_tables(tables, promote_options="permissive")


def _scan() -> Any:
    from meltline.adapters.file_index import pyiceberg_scan  # noqa: PLC0415 - starts slowly

    return pyiceberg_scan
