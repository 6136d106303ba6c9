"""The object-store contract on a server that speaks Google's XML API; and its schemes."""

from pathlib import Path

import pytest

from meltline.adapters.object_store.stores import ObjectStores
from tests.contract.object_store.contract import contract_tests
from tests.contract.object_store.test_object_store import Place
from tests.stacks.gcs.fake_gcs import FakeGcs

globals().update(
    contract_tests(
        but=(  # this server knows no uploads in parts
            "test_a_stream_gives_the_same_bytes_in_parts_and_none_of_a_missing_object",
            "test_parts_become_one_object",
            "test_parts_that_end_too_early_leave_what_was_there",
        )
    )
)


@pytest.fixture(scope="module")
def bucket(fake_gcs: FakeGcs) -> str:
    return fake_gcs.bucket("contract")


@pytest.fixture
def place(fake_gcs: FakeGcs, bucket: str, tmp_path: Path) -> Place:
    return Place(ObjectStores(fake_gcs.properties), f"{bucket}/{tmp_path.name}")


def test_both_schemes_are_one_store_listed_as_asked(fake_gcs: FakeGcs, bucket: str) -> None:
    store = ObjectStores(fake_gcs.properties)
    store.write(f"{bucket}/schemes/x", b"1")
    for scheme in ("gs", "gcs", "GS"):
        base = f"{scheme}://contract/schemes"
        assert store.read(f"{base}/x") == b"1"
        assert [found.path for found in store.list(base)] == [f"{base}/x"]
