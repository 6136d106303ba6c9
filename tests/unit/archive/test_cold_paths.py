"""Where copies lie: at the originals' paths, each spelling at its own."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meltline.domain.archive.cold_paths import lies_under, mirrored, original_of

COLD = "s3://ice/archive"
PARTS = st.text(st.sampled_from("ab_~%#|?[]:@ é.2E"), min_size=1, max_size=4)
PATHS = st.builds(
    lambda root, parts: root + "/".join(parts),
    st.sampled_from(["/", "file:/", "file:///", "s3://b/", "s3a://b/", "s3://_/", "s3://__/"]),
    st.lists(PARTS, min_size=1, max_size=4),
)


@pytest.mark.parametrize(
    ("path", "copy"),
    [
        ("s3://lake/t/data/a.parquet", "s3/lake/t/data/a.parquet"),
        ("abfss://box@name.dfs.core.windows.net/t/a", "abfss/box@name.dfs.core.windows.net/t/a"),
        ("gs://lake/d=2026-01-01/x%20y", "gs/lake/d=2026-01-01/x%20y"),
        ("file:/w/t/a", "file/_/w/t/a"),
        ("file:///w/t/a", "file/__/w/t/a"),
        ("/w/t/a", "_/w/t/a"),
        ("s3://lake/t#1/a|b?", "s3/lake/t~231/a~7Cb~3F"),
        ("s3://lake/t//a", "s3/lake/t/~/a"),
        ("s3://lake/~/é", "s3/lake/~7E/~C3~A9"),
        ("s3://lake/./a", "s3/lake/~2E/a"),
        ("s3://_/a", "s3/~5F/a"),
    ],
)
def test_a_copy_lies_at_the_originals_path_below_the_cold_warehouse(path: str, copy: str) -> None:
    # AR-31
    assert original_of(f"{COLD}/{copy}", COLD) == path
    assert mirrored(path, COLD) == mirrored(path, f"{COLD}/") == f"{COLD}/{copy}"


@pytest.mark.parametrize(
    "path", ["s3://lake/a/../b", "s3://lake/%2e%2e/b", "s3://lake/a/", "s3://lake", "a/b", "file:a",
             "s3://lake/a\nb", ""],
)  # fmt: skip
def test_what_may_lead_elsewhere_has_no_copy(path: str) -> None:
    with pytest.raises(ValueError, match="cannot be mirrored"):
        mirrored(path, COLD)


@given(PATHS, PATHS)
@example("/x", "file:/x")
@example("file:/x", "file:///x")
@example("s3://b/x", "s3a://b/x")
@example("/a//b", "/a/~/b")
@example("file://_/x", "file:/x")
def test_two_spellings_never_share_a_copy(one: str, other: str) -> None:
    copies = []
    for path in (one, other):
        try:
            copies.append(mirrored(path, COLD))
        except ValueError:
            return
    assert (copies[0] == copies[1]) == (one == other)


@given(PATHS)
def test_no_reader_can_cut_or_turn_a_copys_path(path: str) -> None:
    try:
        copy = mirrored(path, COLD)
    except ValueError:
        return
    assert copy.isascii()
    assert not set("#?|*[]{}\\ ").intersection(copy)
    assert not {"", ".", ".."}.intersection(copy.removeprefix("s3://").split("/"))
    assert lies_under(copy, COLD)


def test_lying_under_a_folder_is_not_beginning_like_it() -> None:
    assert lies_under("s3a://ice/archive/x", COLD)
    for path in ("s3://ice/archive_2/x", "s3://ice/archive/../x", "/ice/archive/x"):
        assert not lies_under(path, COLD)


@given(PATHS)
def test_the_way_back_from_a_copy_leads_to_its_original_alone(path: str) -> None:
    try:
        copy = mirrored(path, COLD)
    except ValueError:
        return
    assert original_of(copy, COLD) == path


@pytest.mark.parametrize(
    "path", ["s3://ice/other/x", f"{COLD}/x", f"{COLD}/s3/b/~zz", f"{COLD}/s3", ""]
)
def test_what_is_no_copy_has_no_original(path: str) -> None:
    assert original_of(path, COLD) == ""
