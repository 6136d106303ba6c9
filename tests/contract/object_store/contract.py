"""The object-store contract, for stacks that bring a store of their own."""

from collections.abc import Callable
from inspect import getmembers, isfunction, signature
from typing import Any

from tests.contract.object_store import test_object_store


def contract_tests() -> dict[str, Callable[..., Any]]:
    """The tests that a store passes, by name; who collects them has the fixture `place`."""
    return {
        name: test
        for name, test in getmembers(test_object_store, isfunction)
        if name.startswith("test_") and "place" in signature(test).parameters
    }
