"""A process in which there is no pandas."""

import sys
from collections.abc import Sequence
from types import ModuleType


class _NoPandas:
    """Stands before what finds modules."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        """Finds nothing, and lets nobody else look for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("this command does without pandas", name=name)


def do_without_pandas() -> None:
    """For a process that looks into the ledger, and neither starts Spark nor judges.

    PyArrow imports pandas for the first value that it is given, only to see whether it is one of
    pandas' own: a third of all that such a command takes. Where there is none it does the same.
    """
    sys.meta_path.insert(0, _NoPandas())
