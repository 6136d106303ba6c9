"""One fake-gcs-server for all tests of the stack."""

from collections.abc import Iterator

import pytest

from tests.stacks.gcs.fake_gcs import FakeGcs, running_fake_gcs


@pytest.fixture(scope="session")
def fake_gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGcs]:
    with running_fake_gcs(tmp_path_factory.mktemp("gcs")) as server:
        yield server
