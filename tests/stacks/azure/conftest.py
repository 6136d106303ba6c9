"""One Azurite for all tests of the stack."""

from collections.abc import Iterator

import pytest

from tests.stacks.azure.azurite import Azurite, running_azurite


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with running_azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server
