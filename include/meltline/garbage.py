"""How often Python looks for cycles that nobody refers to."""

import atexit
import gc

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
