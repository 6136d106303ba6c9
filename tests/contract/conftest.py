"""What several suites share."""

import pytest

from meltline.adapters.object_store.stores import ObjectStores
from tests.contract.index.file_shelf import SPARK, Shelf, open_ledger, stage


@pytest.fixture(
    scope="session",
    params=["memory", *(pytest.param(kind, marks=pytest.mark.spark) for kind in SPARK)],
)
def shelf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """A file ledger with the histories that its suites ask about."""
    root = tmp_path_factory.mktemp(request.param)
    store = ObjectStores({})
    shelf = Shelf(open_ledger(request.param, root, store), store, f"file://{root}/data")
    shelf.ledger.upkeep.prepare()
    stage(shelf)
    return shelf
