"""Rows of the ledger's tables, read in this process however many they are.

A few small files, which is what a ledger mostly is, are read as the steps read them. What is more,
or otherwise, is PyIceberg's: to load it takes longer than to read those (decision 035).
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
    """Rows of tables whose metadata has been found."""

    def __init__(self, hot: CatalogConfig, store: TableFiles, small: int) -> None:
        """Takes the ledger's catalog, for who may read its files, the store, and what is small.

        Of more bytes of files PyIceberg makes an answer: it need not have all in memory at once.
        """
        self._hot = hot
        self._files = LedgerFiles(store, small)
        self._files.largest = small

    def all(
        self, name: str, location: str, columns: Sequence[str], where: Sequence[Condition]
    ) -> pa.Table:
        """These columns of the rows of which all conditions hold, in whatever order.

        Args:
            name: Of the table, in `TABLES`.
            location: Where its metadata lies.
            columns: Those of the answer.
            where: "=", "<" or "in". Null is none of it.
        """
        question = Question.of(TABLES[name], columns, where, None)
        try:
            return self._files.answer_at(name, location, question)
        except NotPlain:
            return _scan().scanned_rows(self._hot, location, question)

    def parts(
        self, name: str, location: str, columns: Sequence[str], where: Sequence[Condition]
    ) -> Iterable[pa.RecordBatch]:
        """The same, of which not all is in memory at once."""
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
        """Rows of two tables, whoever has read them."""
        return pa.concat_tables(tables, promote_options="permissive")


def _scan() -> Any:
    from meltline.adapters.file_index import pyiceberg_scan  # noqa: PLC0415 - starts slowly

    return pyiceberg_scan
