"""Every name that a bucket's objects go by gives one key, and no two objects' names give one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.domain.iceberg.locations import claim_prefix, location_key
from meltline.domain.path_aliases import names_in, store_of
from tests.seeds import examples

MANY = settings(max_examples=examples(few=75, many=300), deadline=None, database=None)

ACCOUNT = "core.windows.net"
SPELLINGS = {
    "s3": [
        "s3://{b}/{k}",
        "s3a://{b}/{k}",
        "s3n://{b}/{k}",
        "S3A://{b}//{k}",
        "s3:/{b}/{k}",
        "s3a:///{b}/{k}",
        "https://{b}.s3.amazonaws.com/{k}",
        "https://{b}.s3.eu-central-1.amazonaws.com/{k}",
        "https://{b}.s3-eu-west-1.amazonaws.com:443/{k}",
        "https://{b}.s3.dualstack.us-east-2.amazonaws.com/{k}",
        "https://{b}.s3-accelerate.dualstack.amazonaws.com/{k}",
        "https://{b}.s3-fips.us-gov-west-1.amazonaws.com/{k}",
        "https://S3.US-EAST-1.amazonaws.com/{b}/{k}",
        "http://s3.cn-north-1.amazonaws.com.cn:80/{b}/{k}",
    ],
    "gs": [
        "gs://{b}/{k}",
        "gcs://{b}/{k}",
        "GS:///{b}/{k}",
        "https://storage.googleapis.com/{b}/{k}",
        "https://{b}.storage.googleapis.com/{k}",
        "https://storage.cloud.google.com/{b}/{k}",
    ],
    "azure": [
        f"abfss://{{b}}@acct.dfs.{ACCOUNT}/{{k}}",
        f"abfs://{{b}}@acct.blob.{ACCOUNT}/{{k}}",
        f"wasb://{{b}}@ACCT.blob.{ACCOUNT}/{{k}}",
        f"wasbs://{{b}}@acct.blob.{ACCOUNT}//{{k}}",
        f"az://{{b}}@acct.dfs.{ACCOUNT}///{{k}}",
        f"https://acct.blob.{ACCOUNT}/{{b}}/{{k}}",
        f"https://acct.dfs.{ACCOUNT}:443/{{b}}/{{k}}",
    ],
}
BUCKETS = st.from_regex(r"[a-z0-9](?:[a-z0-9-]{0,6}\.)?[a-z0-9-]{1,6}[a-z0-9]", fullmatch=True)
KEYS = st.lists(st.text("ab[]' #?é:@", min_size=1, max_size=5), min_size=1, max_size=4)


def name(cloud: str, at: int, bucket: str, key: list[str]) -> str:
    spellings = SPELLINGS[cloud]
    return spellings[at % len(spellings)].format(b=bucket, k="/".join(key))


CLOUDS = st.sampled_from(sorted(SPELLINGS))
WHICH = st.integers(0, 1000)


@MANY
@given(CLOUDS, BUCKETS, KEYS, WHICH, WHICH)
def test_all_names_of_an_object_give_one_key_which_is_its_own_key(
    cloud: str, bucket: str, key: list[str], one: int, other: int
) -> None:
    first, second = (location_key(name(cloud, at, bucket, key)) for at in (one, other))
    assert first == second == location_key(first)
    assert store_of(name(cloud, one, bucket, key)) == store_of(name(cloud, other, bucket, key))


@MANY
@given(CLOUDS, CLOUDS, BUCKETS, BUCKETS, KEYS, KEYS, WHICH, WHICH)
def test_names_of_two_objects_never_give_one_key(
    cloud: str,
    peer: str,
    bucket: str,
    other: str,
    key: list[str],
    tail: list[str],
    at: int,
    to: int,
) -> None:
    first, second = (cloud, bucket, key), (peer, other, tail)
    same = location_key(name(cloud, at, bucket, key)) == location_key(name(peer, to, other, tail))
    assert same is (first == second)


@MANY
@given(CLOUDS, BUCKETS, KEYS, WHICH, WHICH)
def test_a_table_owns_its_files_by_whatever_name_either_goes(
    cloud: str, bucket: str, key: list[str], one: int, other: int
) -> None:
    claim = claim_prefix(name(cloud, one, bucket, ["wh", "t"]))
    assert claim_prefix(name(cloud, other, bucket, ["wh", "t", *key])).startswith(claim)
    assert not claim_prefix(name(cloud, other, bucket, ["wh", "t2", *key])).startswith(claim)


POINT = "arn:aws:s3:eu-west-1:123456789012:accesspoint"


def test_an_access_points_name_may_follow_a_slash_or_a_colon() -> None:
    assert location_key(f"s3://{POINT}/mine/t/a") == location_key(f"s3a://{POINT}:mine/t/a")
    assert store_of(f"s3://{POINT}/mine/t/a") == f"s3://{POINT}:mine/"
    assert location_key(f"s3://{POINT}/mine/t/a") != location_key(f"s3://{POINT}/theirs/t/a")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://acct.blob.core.windows.net/c/a", "abfss://c@other.dfs.core.windows.net/a"),
        ("https://acct.blob.core.windows.net/c/a", "abfss://c@acct.dfs.core.chinacloudapi.cn/a"),
        ("https://s3.example.com/b/a", "s3://b/a"),
        ("https://b.s3.amazonaws.com.example.com/a", "s3://b/a"),
        ("https://nots3.amazonaws.com/b/a", "s3://b/a"),
        ("hdfs:/b/a", "hdfs://b/a"),
        ("s3://b/s3/a", "s3:/b/a"),
    ],
)
def test_names_that_may_mean_two_places_give_two_keys(one: str, other: str) -> None:
    assert location_key(one) != location_key(other)


def test_another_store_has_an_object_by_its_key_and_a_web_address_by_its_bucket_too() -> None:
    assert names_in("s3://alias/", "s3://b/t/a") == ["s3://alias/t/a"]
    assert names_in("http://minio:9000/", "s3a://b/t/a") == [
        "http://minio:9000/t/a",
        "http://minio:9000/b/t/a",
    ]
