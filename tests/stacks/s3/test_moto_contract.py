"""The object-store contract on moto: with keys, and with a role in a bucket that keeps versions."""

from pathlib import Path

import pytest

from meltline.adapters.object_store.stores import ObjectStores
from tests.contract.object_store.contract import contract_tests
from tests.contract.object_store.test_object_store import Place
from tests.stacks.s3.moto import ROLE, Moto

pytestmark = pytest.mark.slow("thousands of keys are written to a server")

globals().update(contract_tests())


@pytest.fixture(scope="module")
def buckets(moto: Moto) -> dict[str, str]:
    return {
        "keys": moto.bucket("contract"),
        "role": moto.bucket("contract-versioned", versioned=True),
    }


@pytest.fixture(params=["keys", "role"])
def place(
    request: pytest.FixtureRequest,
    moto: Moto,
    buckets: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    properties = moto.properties
    if request.param == "role":
        for name, text in moto.environment.items():
            monkeypatch.setenv(name, text)
        properties = {**moto.where, "client.assume-role.arn": ROLE}
    return Place(ObjectStores(properties), f"{buckets[request.param]}/{tmp_path.name}")
