"""Locations: two spellings of a place have one key, two places have two owners."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.domain.iceberg.locations import (
    OwnerIndex,
    Ownership,
    claim_prefix,
    is_odd,
    location_key,
    split_location,
)
from tests.seeds import examples

MANY = settings(max_examples=examples(few=75, many=300), deadline=None, database=None)


def owner_index(**locations: str) -> OwnerIndex:
    """Owners by name: `owner_index(flights="file:/wh/flights")`."""
    return OwnerIndex(Ownership(claim_prefix(where), who) for who, where in locations.items())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:/wh/t/a.parquet", "file:///wh/t/a.parquet"),
        ("file:/wh/t/a.parquet", "/wh/t/a.parquet"),
        ("file://localhost/wh/a", "file:/wh/a"),
        ("FILE:/wh/a", "file:/wh/a"),
        ("s3a://bucket/t/a", "s3://bucket/t/a"),
        ("s3n://bucket/t/a", "S3://bucket/t/a"),
        ("s3://bucket/t//a", "s3://bucket/t/a"),
        ("s3://bucket/t/", "s3://bucket/t"),
        ("s3://bucket/./t/a", "s3://bucket/t/a"),
        ("file:/wh/x/../t/a", "file:/wh/t/a"),
        ("file:/wh/t%5B1%5D/a", "file:/wh/t[1]/a"),
        ("file:/wh/a%20b", "file:/wh/a b"),
        pytest.param(
            "file://LOCALHOST/wh/a",
            "file:/wh/a",
        ),
        pytest.param(
            "abfs://c@acct.dfs.core.windows.net/t/a",
            "abfss://c@acct.dfs.core.windows.net/t/a",
        ),
        pytest.param(
            "wasbs://c@acct.blob.core.windows.net/t/a",
            "abfs://c@acct.dfs.core.windows.net/t/a",
        ),
        pytest.param(
            "wasb://c@Acct.blob.core.windows.net/t/a",
            "wasbs://c@acct.blob.core.windows.net/t/a",
        ),
        pytest.param(
            "az://c@acct.blob.core.windows.net/t/a",
            "abfss://c@acct.dfs.core.windows.net/t/a",
        ),
        pytest.param(
            "file:/wh/a%2520b",
            "file:/wh/a%20b",
        ),
    ],
)
def test_two_spellings_of_a_place_give_one_key(one: str, other: str) -> None:
    assert location_key(one) == location_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://bucket/t/a", "s3://other/t/a"),
        ("s3://bucket/t/a", "gs://bucket/t/a"),
        ("wasbs://c@one.blob.core.windows.net/a", "abfss://c@two.dfs.core.windows.net/a"),
        ("wasbs://c@one.blob.core.windows.net/a", "abfss://d@one.dfs.core.windows.net/a"),
        ("s3://my.blob.store/a", "s3://my.dfs.store/a"),
        ("s3://bucket/t/a", "s3://bucket/T/a"),
        ("file:/wh/it's/a", "file:/wh/its/a"),
        ("file:/wh/a?b", "file:/wh/a"),
        ("file:/wh/a#b", "file:/wh/a"),
        ("file:/wh/a+b", "file:/wh/a b"),
        ("file:/wh/tbl", "file:/wh/tbl_backup"),
    ],
)
def test_two_places_give_two_keys(one: str, other: str) -> None:
    assert location_key(one) != location_key(other)


def test_a_location_is_taken_apart_as_written() -> None:
    assert split_location("s3://b/x%20y?z") == ("s3", "b", "/x%20y?z")
    assert split_location("/x/y:z") == ("file", "", "/x/y:z")
    assert split_location("s3://b") == ("s3", "b", "")


PARTS = st.lists(st.text("ab[]' .%#?é", min_size=1, max_size=5), min_size=1, max_size=5)
PLAIN_PARTS = st.lists(st.text("ab[]' #?é", min_size=1, max_size=5), min_size=1, max_size=5)


@MANY
@given(PLAIN_PARTS, st.sampled_from(["s3", "file", "gs", "hdfs"]), st.sampled_from(["", "Host"]))
def test_a_key_is_its_own_key(parts: list[str], scheme: str, host: str) -> None:
    key = location_key(f"{scheme}://{host}/{'/'.join(parts)}")
    assert location_key(key) == key


@MANY
@given(PLAIN_PARTS)
def test_every_spelling_of_a_local_file_gives_one_key(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    spellings = (path, f"file:{path}", f"file://{path}", f"{path}/", path.replace("/", "//"))
    assert len({location_key(spelling) for spelling in spellings}) == 1


@MANY
@given(PARTS, PARTS)
def test_a_file_lies_under_its_own_prefix_and_never_under_a_sibling(
    table: list[str], file: list[str]
) -> None:
    where = "s3://b/wh/" + "".join(table).replace(".", "").replace("%", "") + "x"
    path = where + "/" + "".join(file).replace("%", "") + "y"
    index = owner_index(it=where, sibling=where + "_backup")
    assert index.owners(path) == ("it",)


@pytest.mark.parametrize("path", ["s3://b/x/../y", "s3://b/%2E%2E/y", "s3://b/y/", "s3://b", ""])
def test_a_path_that_readers_take_differently_is_odd(path: str) -> None:
    assert is_odd(path)


@pytest.mark.parametrize(
    "path", ["s3://b/x/y..z", "file:/wh/t[1]/it's.parquet", "s3://b/k=a%2Fb/y", "/wh/.hidden"]
)
def test_an_unusual_name_is_not_odd(path: str) -> None:
    assert not is_odd(path)


def test_a_path_with_a_null_is_odd() -> None:
    assert is_odd("file:/wh/a\x00b")


@pytest.mark.parametrize("path", ["s3://b/x\ny", "s3://b/x\ty", "s3://b/x\ry"])
def test_a_path_that_would_break_the_lines_of_a_digest_is_odd(path: str) -> None:
    assert is_odd(path)


def test_a_sibling_with_a_common_prefix_is_not_owned() -> None:
    index = owner_index(tbl="file:/wh/tbl")
    assert index.owners("file:/wh/tbl_backup/a") == ()
    assert index.owners("file:///wh/tbl/a") == ("tbl",)
    assert index.owners("file:/wh/tbl") == ()  # the folder itself is no file of the table


def test_nested_tables_give_a_file_to_the_longest_prefix() -> None:
    index = owner_index(outer="s3://b/wh", inner="s3a://b/wh/inner/", deep="s3://b/wh/inner/x/y")
    assert index.owners("s3://b/wh/a") == ("outer",)
    assert index.owners("s3://b/wh/inner/data/a") == ("inner",)
    assert index.owners("s3://b/wh/inner/x/y/a") == ("deep",)
    assert index.owners("s3://b/wh/inner/x/a") == ("inner",)


def test_a_location_that_several_tables_use_has_them_all_as_owners() -> None:
    index = OwnerIndex(
        Ownership(claim_prefix(where), who)
        for where, who in [("/wh/t", "b"), ("file:/wh/t/", "a"), ("file:///wh/t", "b")]
    )
    assert index.owners("file:/wh/t/x") == ("a", "b")


def test_brackets_and_quotes_are_letters_of_a_location() -> None:
    index = owner_index(odd="file:/wh/t[1]", quoted="file:/wh/it's")
    assert index.owners("file:/wh/t[1]/a") == ("odd",)
    assert index.owners("file:/wh/t1/a") == ()
    assert index.owners("file:/wh/it's/a") == ("quoted",)


def test_a_bucket_can_be_a_table_and_nobody_owns_another_bucket() -> None:
    index = owner_index(bucket="s3://bucket")
    assert index.owners("s3://bucket/a/b") == ("bucket",)
    assert index.owners("s3://bucket2/a") == ()
    assert owner_index().owners("s3://bucket/a") == ()


def test_a_folder_whose_name_only_decodes_to_a_tables_is_foreign() -> None:
    assert owner_index(spaced="s3://b/wh/a b").owners("s3://b/wh/a%20b/not-ours.parquet") == ()


def test_a_table_location_with_dots_claims_no_other_folder() -> None:
    assert owner_index(dotted="s3://b/x/../y").owners("s3://b/y/not-ours.parquet") == ()


@given(st.text(alphabet="ab/:.%2F s3A", max_size=24))
def test_a_key_put_together_from_its_folder_is_the_key_of_the_whole(path: str) -> None:
    # A letter that is decoded away takes the way of the whole path.
    for root in ("file:///w", "s3://Bucket", "s3a://bucket/w"):
        whole = location_key(f"{root}/{path}/%61")
        assert location_key(f"{root}/{path}/a") == whole
