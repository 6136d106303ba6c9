"""The object-store contract on Azurite; and accounts, tokens and schemes, which only Azure has."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from meltline.adapters.object_store.stores import ObjectStores
from meltline.adapters.object_store.vended import vended
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.locations import location_key
from meltline.ports import VendedCredentials
from tests.contract.object_store.contract import contract_tests
from tests.contract.object_store.test_object_store import ODD_NAMES, Place
from tests.stacks.azure.azurite import ACCOUNT, Azurite

globals().update(contract_tests())


@pytest.fixture(scope="module")
def container(azurite: Azurite) -> str:
    return azurite.container("contract")


@pytest.fixture
def place(azurite: Azurite, container: str, tmp_path: Path) -> Place:
    plain = tuple(name for name in ODD_NAMES if "\\" not in name)
    return Place(ObjectStores(azurite.properties), f"{container}/{tmp_path.name}", plain)


def test_a_backslash_that_azure_takes_for_a_slash_is_refused_and_its_neighbour_stays(
    place: Place,
) -> None:
    odd, other = f"{place.root}/a\\b", f"{place.root}/a/b"
    place.store.write(other, b"x")
    with pytest.raises(StoreRefused, match="spell"):
        place.store.read(odd)
    assert "spell" in place.store.delete([other + "2", odd])[1].error
    assert place.store.read(other) == b"x"
    assert location_key(odd) == location_key(other)


def test_the_schemes_and_hosts_of_an_account_are_one_store(
    azurite: Azurite, container: str
) -> None:
    store = ObjectStores(azurite.properties)
    store.write(f"{container}/schemes/x", b"1")
    for scheme in ("abfs", "abfss", "wasb", "wasbs", "az"):
        for host in ("dfs", "blob"):
            base = f"{scheme}://contract@{ACCOUNT}.{host}.core.windows.net/schemes"
            assert store.read(f"{base}/x") == b"1"
            assert [found.path for found in store.list(base)] == [f"{base}/x"]
    assert store.read("az://contract/schemes/x") == b"1"


def test_a_container_of_another_account_is_never_opened_in_the_configured_one(
    azurite: Azurite, container: str
) -> None:
    ours, theirs = f"{container}/x", "abfss://contract@another.dfs.core.windows.net/x"
    store = ObjectStores({**azurite.properties, "adls.connect-timeout": "0.2"})
    store.write(ours, b"ours")
    with pytest.raises(StoreRefused):
        store.read(theirs)
    (outcome,) = store.delete([theirs])
    assert outcome.error and store.read(ours) == b"ours"


def test_a_token_of_the_account_is_vended_for_a_table_and_renewed(azurite: Azurite) -> None:
    location = f"{azurite.container('vended')}/t"
    host = f"{ACCOUNT}.dfs.core.windows.net"
    lives = [timedelta(minutes=4), timedelta(hours=1)]
    asked: list[str] = []

    def catalog(table: str) -> Sequence[VendedCredentials]:
        asked.append(table)
        span = lives.pop(0)
        end = str(int((datetime.now(UTC) + span).timestamp() * 1000))
        keys = {
            f"adls.sas-token.{host}": azurite.sas_token(span),
            f"adls.sas-token-expires-at-ms.{host}": end,
        }
        return vended({"metadata": {"location": location}, "config": keys})

    store = ObjectStores(azurite.where)
    store.vended.note(catalog(location), catalog)
    store.write(f"{location}/x", b"x")
    for _ in range(3):
        assert store.read(f"{location}/x") == b"x"
    assert asked == [location, f"{location}/"]
