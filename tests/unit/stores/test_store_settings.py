"""One configuration for both clients: what Spark's is told by PyIceberg's words."""

import pytest

from meltline.adapters.spark.session import store_settings

ROLE = "arn:aws:iam::123456789012:role/keeper"


@pytest.mark.parametrize("scheme", ["s3", "s3a", "S3N"])
def test_an_s3_warehouse_has_iceberg_own_client_and_its_region(scheme: str) -> None:
    assert store_settings(f"{scheme}://lake/wh", {"s3.region": "r"}) == {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": "r",
    }


def test_local_files_and_unknown_stores_are_left_to_spark() -> None:
    assert store_settings("/wh", {"s3.region": "r"}) == {}
    assert store_settings("hdfs://n/wh", {"s3.region": "r"}) == {}


def test_a_role_has_the_factory_that_assumes_it_by_whatever_word_it_is_named() -> None:
    for word in ("s3.role-arn", "client.role-arn", "client.assume-role.arn"):
        told = {**(said := {word: ROLE, "s3.region": "r"}), **store_settings("s3://lake", said)}
        assert told["client.assume-role.arn"] == ROLE
        assert told["client.assume-role.region"] == "r"
        assert told["client.factory"].endswith("AssumeRoleAwsClientFactory")


def test_what_stands_there_in_icebergs_own_words_wins() -> None:
    own = {"s3.region": "r", "client.region": "own", "io-impl": "mine"}
    assert store_settings("s3://lake", own) == {}


def test_an_accounts_key_token_and_address_are_named_after_it() -> None:
    host = "acct.dfs.core.windows.net"
    words = {
        "adls.account-name": "acct",
        "adls.account-key": "k",
        "adls.sas-token": "s",
        "adls.account-host": "http://127.0.0.1:1/acct",
    }
    assert store_settings(f"abfss://c@{host}/wh", words) == {
        "io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
        "adls.auth.shared-key.account.name": "acct",
        "adls.auth.shared-key.account.key": "k",
        f"adls.sas-token.{host}": "s",
        f"adls.connection-string.{host}": "http://127.0.0.1:1/acct",
    }


def test_a_warehouse_of_google_has_iceberg_own_client() -> None:
    assert store_settings("gcs://lake/wh", {}) == {
        "io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO"
    }
