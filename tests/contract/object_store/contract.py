"""The object-store contract, for stacks that bring a store of their own."""

from collections.abc import Callable
from inspect import getmembers, isfunction, signature
from typing import Any

from tests.contract.object_store import test_object_store


def contract_tests(*, but: tuple[str, ...] = ()) -> dict[str, Callable[..., Any]]:
    """The tests that a store passes, by name; who collects them has the fixture `place`.

    Args:
        but: Those for which the server lacks something, as the support table of the pages says.
    """
    unknown = {name for name in but if not hasattr(test_object_store, name)}
    assert not unknown, f"no such tests: {unknown}"
    return {
        name: test
        for name, test in getmembers(test_object_store, isfunction)
        if name.startswith("test_") and name not in but and "place" in signature(test).parameters
    }
