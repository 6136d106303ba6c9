"""Which words of the configuration may be shown: those that are known to open no door."""

import re

import pytest

from meltline.config.secrets import redaction, secret_values

HIDDEN = re.compile(redaction())


@pytest.mark.parametrize(
    "key",
    [
        "credential", "token", "uri", "adls.account-key", "adls.sas-token.a.b.net", "jdbc.password",
        "s3.secret-access-key", "gcs.oauth2.token", "header.Authorization", "a-key-of-tomorrow",
        "warehouse.more",
    ],
)  # fmt: skip
def test_spark_hides_every_property_of_a_catalog_that_is_not_known_to_be_open(key: str) -> None:
    assert HIDDEN.search(f"spark.sql.catalog.lake.{key}")


@pytest.mark.parametrize("key", ["", ".warehouse", ".catalog-impl", ".s3.region", ".cache-enabled"])
def test_spark_shows_what_is_no_secret(key: str) -> None:
    assert not HIDDEN.search(f"spark.sql.catalog.lake{key}")


def test_spark_hides_a_password_in_an_address_whatever_its_key() -> None:
    assert HIDDEN.search("http://reader:s3same@store.example")
    assert not HIDDEN.search("abfss://container@account.dfs.core.windows.net/w")


def test_what_was_hidden_before_is_hidden_still_by_its_own_case() -> None:
    hidden = re.compile(redaction("my[.]mark"))
    assert hidden.search("my.mark") and hidden.search("PASSWORD")
    assert not hidden.search("MY.MARK")


def test_the_password_of_an_address_is_known_as_written_and_as_meant() -> None:
    found = secret_values(["postgresql://me:a%2Fb%40c@db/l?sslpassword=door1"], [])
    assert found == {"a%2Fb%40c", "a/b@c", "door1"}


def test_short_and_plain_words_are_not_looked_for_in_messages() -> None:
    assert secret_values([], [{"x": "true", "y": "abc", "z": "abcd", "s3.region": "eu-1"}]) == {
        "abcd"
    }


def test_a_password_that_is_its_users_name_is_no_secret() -> None:
    assert secret_values(["postgresql://meltline:meltline@db/meltline"], []) == set()
    assert secret_values(["postgresql://meltline:door@db/meltline"], []) == {"door"}
