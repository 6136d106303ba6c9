"""The contract suites, for catalogs that need a server of their own."""

from collections.abc import Callable
from types import ModuleType
from typing import Any


def contract_of(*suites: ModuleType) -> dict[str, Callable[..., Any]]:
    """The tests of these modules that ask for a shop and nothing of the suites' own kinds."""
    tests: dict[str, Callable[..., Any]] = {}
    for suite in suites:
        for name, test in vars(suite).items():
            if not name.startswith("test_"):
                continue
            wanted = test.__code__.co_varnames[: test.__code__.co_argcount]
            if "shop" in wanted:
                tests[name] = test
    return tests
