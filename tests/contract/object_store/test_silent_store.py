"""Tests a store that no longer answers: it is asked once, and not for each of many keys."""

import pytest

from meltline.adapters.object_store.stores import ObjectStores


@pytest.mark.slow("a client waits until a dead store times out")
def test_a_store_that_does_not_answer_is_not_asked_for_every_key() -> None:
    nowhere = {"s3.endpoint": "http://127.0.0.1:9", "s3.region": "r", "s3.anonymous": "true"}
    store = ObjectStores({**nowhere, "s3.connect-timeout": "0.2"})
    outcomes = store.delete([f"s3://lake/{number}" for number in range(500)])
    assert all(outcome.error for outcome in outcomes)
    assert "not tried" in outcomes[-1].error
