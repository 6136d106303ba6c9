"""Start-up tuning of a process: blocks `import pandas`, and sets garbage-collector thresholds.

The command line and the wiring call it before the work of the process begins.
"""

import atexit
import gc
import sys
from collections.abc import Sequence
from types import ModuleType

_SELDOM = (50_000, 20, 100)


def collect_seldom() -> None:
    """Makes the garbage collector run rarely, in a process that ends with its work.

    A run creates facts by the million, and any command creates classes by the thousand. They live
    until the process ends, and hardly any are in a cycle. With Python's default thresholds, the
    search for cycles took a tenth of a run, and a sixth of a command's start. At exit, collecting
    all of them several times took a quarter of a command.
    """
    gc.set_threshold(*_SELDOM)
    atexit.register(gc.freeze)


class _NoPandas:
    """A finder at the front of `sys.meta_path` that blocks pandas."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        """Raises for pandas, so that no later finder is asked; returns None for other modules."""
        if name == "pandas":
            raise ModuleNotFoundError("this command does without pandas", name=name)


def do_without_pandas() -> None:
    """Blocks `import pandas`, in a process that reads the ledger without Spark or gates.

    PyArrow imports pandas for the first value that it converts, only to check whether it is a
    pandas value. That took a third of such a command. Without pandas PyArrow's result is the same.
    """
    sys.meta_path.insert(0, _NoPandas())
