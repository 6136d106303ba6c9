"""What `meltline init` says of buckets and keys that are missing, for both tiers."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from meltline.domain.errors import CredentialsMissing, StoreRefused
from tests.contract.ledger.postgres import PostgresServer
from tests.spark.setups.new_lakes import LOCAL, NewLake, new_lake
from tests.stacks.s3.moto import KEY, Moto

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _no_keys_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def lake_on(root: Path, tier: str, warehouse: str, properties: Mapping[str, str]) -> NewLake:
    words = {"type": "sql", "uri": "sqlite:///any.db", "warehouse": warehouse}
    words |= {key: f'"{word}"' for key, word in properties.items()}
    return new_lake(root, words) if tier == "hot" else new_lake(root, LOCAL, words)


def refusal(lake: NewLake, kind: type[StoreRefused]) -> StoreRefused:
    with pytest.raises(kind) as refused:
        lake.init()
    assert not (lake.folder / "control.db").exists()
    return refused.value


@pytest.mark.parametrize("tier", ["hot", "cold"])
def test_a_bucket_that_is_not_there_is_named_and_once_it_is_made_init_goes_on(
    tmp_path: Path, moto: Moto, tier: str
) -> None:
    bucket = f"s3://{tmp_path.name.replace('_', '-')[-40:].strip('-').lower()}"
    refused = refusal(lake_on(tmp_path, tier, f"{bucket}/w", moto.properties), StoreRefused)
    assert "no such bucket" in refused.found and f"{bucket}/w" in refused.object
    assert "make it" in refused.next
    moto.bucket(bucket.removeprefix("s3://"))
    assert lake_on(tmp_path, tier, f"{bucket}/w", moto.properties).init().generation == 1


@pytest.mark.parametrize("tier", ["hot", "cold"])
def test_keys_that_are_missing_are_named_before_spark_asks_for_any(
    tmp_path: Path, moto: Moto, tier: str
) -> None:
    refused = refusal(lake_on(tmp_path, tier, "s3://any/w", moto.where), CredentialsMissing)
    assert "s3.access-key-id" in refused.found
    half = {**moto.where, "s3.access-key-id": KEY}
    refused = refusal(lake_on(tmp_path, tier, "s3://any/w", half), StoreRefused)
    assert "s3.secret-access-key is missing" in refused.found


def test_ledger_catalog_and_archive_on_postgres_and_their_files_on_s3_are_made(
    tmp_path: Path, moto: Moto, postgres: PostgresServer
) -> None:
    bucket = moto.bucket("all-of-it")
    hot, cold = (
        {"type": "sql", "uri": postgres.create_database(), "warehouse": f"{bucket}/{tier}"}
        | {key: f'"{word}"' for key, word in moto.properties.items()}
        for tier in ("hot", "cold")
    )
    lake = new_lake(tmp_path, hot, cold, postgres.create_database())
    assert lake.init().generation == 1
    assert lake.init().generation == 1
    left = moto.client("s3").list_objects_v2(Bucket="all-of-it")["Contents"]
    assert left and not [each["Key"] for each in left if "meltline-clock" in each["Key"]]
