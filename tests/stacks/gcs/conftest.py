"""One fake-gcs-server of each kind for all tests of the stack."""

from collections.abc import Iterator

import pytest

from tests.stacks.gcs.fake_gcs import JSON, XML, FakeGcs, running_fake_gcs


@pytest.fixture(scope="session")
def fake_gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGcs]:
    with running_fake_gcs(tmp_path_factory.mktemp("gcs"), XML) as server:
        yield server


@pytest.fixture(scope="session")
def json_gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGcs]:
    with running_fake_gcs(tmp_path_factory.mktemp("json-gcs"), JSON) as server:
        yield server
