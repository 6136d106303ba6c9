"""Other names of real files: links, mounts, hard links; and what leads out of a root."""

import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from meltline.adapters.object_store.deleter import StoreDeleter
from meltline.adapters.object_store.stores import ObjectStores
from meltline.app.ownership.confinement import Confinement
from meltline.app.ownership.path_aliases import OtherNames, needed_by_other_names
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.withheld import Why
from meltline.domain.path_aliases import StoreNames, place_of, places_in

STORE = ObjectStores({})
LATER = datetime.now(UTC) + timedelta(hours=1)


def url(path: Path) -> str:
    return f"file://{path}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A table's data file."""
    path = tmp_path / "wh" / "t" / "data" / "part=1" / "a.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"rows")
    return path


def needed_through(file: Path, reference: Path) -> bool:
    """Whether a file is kept when only another name of it is referred to."""
    places = places_in([url(file), url(reference)], STORE.links_among)
    names = OtherNames(STORE, STORE, places, StoreNames())
    found = needed_by_other_names(names, [url(file)], lambda paths: {url(reference)} & set(paths))
    return url(file) in found


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_link_to_any_of_its_folders_is_another_name(file: Path, depth: int) -> None:
    linked = file.parents[depth - 1]
    link = file.parents[3] / "link"
    link.symlink_to(linked)
    assert needed_through(file, link / file.relative_to(linked))


def test_a_link_over_another_link_is_another_name(file: Path, tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(file.parents[2])
    (tmp_path / "two").symlink_to(tmp_path / "one" / "data")
    assert needed_through(file, tmp_path / "two" / "part=1" / file.name)


def test_the_file_named_through_a_link_and_needed_by_its_plain_name_is_kept(
    file: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(file.parent)
    assert needed_through(tmp_path / "link" / file.name, file)


def test_a_link_to_the_file_is_another_name_whatever_it_is_called(
    file: Path, tmp_path: Path
) -> None:
    (tmp_path / "folder").symlink_to(file.parent)
    link = tmp_path / "farm" / "other.parquet"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "folder" / file.name)
    assert needed_through(file, link)


def test_a_link_to_the_file_that_is_reached_through_a_linked_folder_is_another_name(
    file: Path, tmp_path: Path
) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "other.parquet").symlink_to(file)
    (tmp_path / "farm").symlink_to(tmp_path / "links")
    assert needed_through(file, tmp_path / "farm" / "other.parquet")


def test_dots_after_a_link_lead_where_the_system_says(file: Path, tmp_path: Path) -> None:
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "far" / "t").symlink_to(file.parents[2])
    (tmp_path / "near").symlink_to(tmp_path / "far" / "away")
    odd = f"file://{tmp_path}/near/../t/data/part=1/a.parquet"  # far/t by disk, tmp/t by text
    places = places_in([url(file), odd], STORE.links_among)
    assert odd in OtherNames(STORE, STORE, places, StoreNames()).of(url(file))


@pytest.fixture
def mounted(file: Path, tmp_path: Path) -> Iterator[Path]:
    """The table's folder, mounted elsewhere too."""
    place = tmp_path / "mounted"
    place.mkdir()
    mount = ["mount", "--bind", str(file.parents[2]), str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_mount_of_its_folder_is_another_name(file: Path, mounted: Path) -> None:
    assert needed_through(file, mounted / "data" / "part=1" / file.name)


def test_a_folder_that_is_mounted_over_a_network_twice_is_one() -> None:
    """Then the two have one inode and two devices."""

    class Mounts(ObjectStores):
        def identity(self, path: str) -> str:
            return "inode 7" if path in ("file:///mnt/a/", "file:///mnt/b/") else path

        def size(self, path: str) -> int | None:
            return 4

    names = OtherNames(Mounts({}), Mounts({}), ["file:///mnt/a/", "file:///mnt/b/"], StoreNames())
    assert names.of("file:///mnt/a/x") == ["file:///mnt/b/x"]


def test_one_name_of_a_hard_link_goes_and_the_other_keeps_its_bytes(
    file: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.parquet"
    os.link(file, copy)
    (outcome,) = STORE.delete([url(file)])
    assert not outcome.error and not file.exists()
    assert copy.read_bytes() == b"rows"


def test_a_file_of_the_same_name_elsewhere_is_another_one(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / file.name
    other.parent.mkdir()
    other.write_bytes(b"rows")
    assert not needed_through(file, other)


def test_a_place_is_a_folder_as_written_or_a_whole_store() -> None:
    assert place_of("/wh/a%20b/x") == place_of("file:/wh/a%20b/x") == "file:///wh/a%20b/"
    assert place_of("s3a://Bucket/k/x") == "s3://bucket/"
    assert places_in(["relative/x", "s3://b/x", ""], STORE.links_among) >= {"s3://b/"}


def test_what_cannot_be_there_is_no_link_and_stops_nothing() -> None:
    for path in ("/a\x00b", "/" + "x" * 5000, "relative/x", ""):
        assert not STORE.is_link(path)
        assert STORE.identity(path) == path


# --- roots ---------------------------------------------------------------------------------------


def refused(path: Path | str, *roots: Path) -> Why | None:
    name = path if isinstance(path, str) else url(path)
    return Confinement([url(root) for root in roots], STORE).refused([name]).get(name)


def test_a_link_in_a_root_that_leads_out_of_it_is_outside(file: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "t").symlink_to(file.parents[2])
    assert refused(root / "t" / "data" / "part=1" / file.name, root) is Why.LINK
    assert refused(root / "t" / "data" / "part=1" / file.name, root, tmp_path / "wh") is None


def test_a_root_that_is_a_link_itself_holds_what_it_leads_to(file: Path, tmp_path: Path) -> None:
    (tmp_path / "root").symlink_to(tmp_path / "wh")
    assert (
        refused(tmp_path / "root" / "t" / "data" / "part=1" / file.name, tmp_path / "root") is None
    )


def test_dots_lead_out_of_a_root(tmp_path: Path) -> None:
    assert refused(f"file://{tmp_path}/wh/../other/x", tmp_path / "wh") is Why.OUTSIDE
    assert refused(f"file://{tmp_path}/wh/%2e%2e/x", tmp_path / "wh") is Why.OUTSIDE


def test_a_sibling_of_a_root_with_a_longer_name_is_outside(tmp_path: Path) -> None:
    assert refused(tmp_path / "wh_backup" / "x", tmp_path / "wh") is Why.OUTSIDE


def test_without_a_root_all_is_outside(file: Path) -> None:
    assert refused(file) is Why.OUTSIDE


def test_what_leads_out_since_it_was_planned_is_not_deleted(file: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "t").symlink_to(file.parents[2])
    deleter = StoreDeleter(STORE, Confinement([url(root)], STORE).misplaced)
    name = url(root / "t" / "data" / "part=1" / file.name)
    (outcome,) = deleter.delete([DepartedObject(name, 4, LATER)], 1000)
    assert "not deleted" in outcome.error and file.exists()


def test_a_link_in_place_of_a_file_is_not_deleted(file: Path, tmp_path: Path) -> None:
    link = file.with_name("link.parquet")
    link.symlink_to(file)
    assert refused(link, tmp_path / "wh") is Why.LINK
    deleter = StoreDeleter(STORE, Confinement([url(tmp_path)], STORE).misplaced)
    (outcome,) = deleter.delete([DepartedObject(url(link), 0, LATER)], 1000)
    assert "not deleted" in outcome.error and link.is_symlink() and file.exists()


@pytest.mark.parametrize("others", [0, 5, 500])
@pytest.mark.parametrize("asked", [1, 8, 9, 60])
def test_a_listing_tells_of_the_links_that_names_would_be_told_of(
    tmp_path: Path, asked: int, others: int
) -> None:
    """Files, links that lead somewhere or nowhere, folders and names that are not there."""
    folder = tmp_path / "ä b"
    folder.mkdir()
    for number in range(others):
        (folder / f"other{number}").touch()
    for number in range(asked):
        name = folder / f"{number}.parquet"
        match number % 5:
            case 0:
                name.symlink_to(folder)
            case 1:
                name.symlink_to(folder / "nowhere")
            case 2:
                name.touch()
            case 3:
                name.mkdir()
    for form in (url(folder), str(folder), f"file:{folder}", f"file://{folder}/../ä b"):
        paths = [f"{form}/{number}.parquet" for number in range(asked)]
        expected = {path for path in paths if STORE.is_link(path)}
        assert len(expected) == (asked + 4) // 5 + (asked + 3) // 5
        assert set(STORE.links_among(paths)) == expected


def test_names_in_a_folder_that_is_none_or_nowhere_are_no_links(file: Path) -> None:
    for folder in (file, file.with_name("nowhere"), file.with_name("a\0b")):
        assert not list(STORE.links_among([f"{folder}/{number}" for number in range(20)]))
    assert not list(STORE.links_among([]))
    assert not list(STORE.links_among([f"s3://b/{number}" for number in range(20)]))
