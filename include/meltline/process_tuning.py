"""Start-up tuning of a process: blocks `import pandas`, and sets garbage-collector thresholds."""

import atexit
import gc
import sys
from collections.abc import Sequence
from types import ModuleType

_SELDOM = (50_000, 20, 100)


def collect_seldom() -> None:
    """For a process that ends with its work.

    A run makes facts by the million, and any command classes by the thousand, which live to its
    end, and hardly a cycle: to look for cycles among them as often as Python does took a tenth of
    a run, and a sixth of a command's start. At its end a quarter of a command went into looking
    through all of them, several times.
    """
    gc.set_threshold(*_SELDOM)
    atexit.register(gc.freeze)


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
