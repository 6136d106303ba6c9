"""Local files, in both stores that know them: links, pipes, odd names, refused deletes."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import AF_UNIX, socket
from tempfile import TemporaryDirectory

import pytest

from meltline.adapters.catalogs.regular_files import RegularFiles
from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.errors import StoreRefused
from tests.contract.object_store.test_object_store import Store, listed
from tests.doubles.store import MemoryStore

NOBODY = 65534


local_stores = pytest.mark.parametrize("store", [MemoryStore(), ObjectStores({})], ids=type)


@local_stores
def test_bare_paths_and_both_file_urls_are_one_place_listed_as_asked(
    store: Store, tmp_path: Path
) -> None:
    store.write(f"{tmp_path}/t/x", b"1")
    for base in (f"{tmp_path}/t", f"file:{tmp_path}/t", f"file://{tmp_path}/t"):
        assert store.read(f"{base}/x") == b"1"
        assert listed(store, base) == [f"{base}/x"]
    store.delete([f"file:{tmp_path}/t/x"])
    assert store.size(f"{tmp_path}/t/x") is None


READS: dict[str, Callable[[Store, str], object]] = {
    "read": lambda store, path: store.read(path),
    "read_prefix": lambda store, path: store.read_prefix(path, 10),
    "read_range": lambda store, path: store.read_range(path, 1, 10),
    "stream": lambda store, path: list(store.stream(path)),
    "size": lambda store, path: store.size(path),
    "pyiceberg": lambda store, path: RegularFiles().new_input(path).open(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "device", "link to a pipe"])
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path, kind: str, read: Callable[[Store, str], object]
) -> None:
    """A pipe that nobody writes to would be waited for until the end of time."""
    with no_file(tmp_path, kind) as path, ThreadPoolExecutor(1) as pool:
        done = pool.submit(read, ObjectStores({}), f"file://{path}")
        try:
            with pytest.raises((StoreRefused, OSError), match="no regular file"):
                done.result(timeout=5)
        finally:
            if not done.done():  # lets the reader go, who waits for somebody to write
                os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))


@contextmanager
def no_file(folder: Path, kind: str) -> Iterator[Path]:
    path = folder / "odd.metadata.json"
    if kind == "device":
        yield Path("/dev/null")
    elif kind == "socket":
        with socket(AF_UNIX) as listening:
            listening.bind(str(path))
            yield path
    elif kind == "folder":
        path.mkdir()
        yield path
    elif kind == "pipe":
        os.mkfifo(path)
        yield path
    else:
        os.mkfifo(folder / "pipe")
        path.symlink_to(folder / "pipe")
        yield path


@local_stores
def test_a_local_file_takes_its_checksum_file_along(store: Store, tmp_path: Path) -> None:
    for name in ("a", ".a.crc", "b", ".b.crc", ".lone.crc"):
        store.write(f"{tmp_path}/{name}", b"x")
    outcomes = store.delete([f"{tmp_path}/a", f"{tmp_path}/lone"])
    assert [outcome.path for outcome in outcomes] == [f"{tmp_path}/a", f"{tmp_path}/lone"]
    assert listed(store, str(tmp_path)) == [f"{tmp_path}/.b.crc", f"{tmp_path}/b"]


def test_a_name_too_long_for_a_checksum_file_is_deleted_as_any_other(tmp_path: Path) -> None:
    longest = tmp_path / ("a" * 255)
    longest.touch()
    dangling = tmp_path / ".b.crc"
    dangling.symlink_to(tmp_path / "nowhere")
    outcomes = ObjectStores({}).delete([str(longest), f"{tmp_path}/b"])
    assert [outcome.error for outcome in outcomes] == ["", ""]
    assert not list(tmp_path.iterdir())


def test_what_is_no_file_is_refused_and_the_rest_of_the_batch_is_deleted(tmp_path: Path) -> None:
    store = ObjectStores({})
    for name in ("a", "b", ".c.crc/in-the-way", "c"):
        store.write(f"{tmp_path}/{name}", b"x")
    (tmp_path / "folder").mkdir()
    paths = [f"{tmp_path}/{name}" for name in ("a", "folder", "missing", "c", "b")]
    outcomes = store.delete(paths)
    assert [bool(outcome.error) for outcome in outcomes] == [False, True, False, True, False]
    assert "directory" in outcomes[1].error.lower()
    assert (tmp_path / "folder").is_dir()
    assert listed(store, str(tmp_path)) == [f"{tmp_path}/.c.crc/in-the-way"]
    with pytest.raises(StoreRefused):
        store.read(f"{tmp_path}/folder")
    with pytest.raises(StoreRefused):
        store.size(f"{tmp_path}/folder")


@contextmanager
def refusing_deletes(folder: Path) -> Iterator[None]:
    """Makes the file system refuse to delete in a folder. Root, whom it obeys, is nobody there."""
    folder.chmod(0o555)
    try:
        with as_nobody(folder.parent):
            yield
    finally:
        folder.chmod(0o755)


@contextmanager
def as_nobody(place: Path) -> Iterator[None]:
    """Gives up root's powers for a while; what lies in a place is nobody's meanwhile."""
    if os.geteuid():
        yield
        return
    for path in (place, *place.rglob("*")):
        os.chown(path, NOBODY, -1)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that nobody, too, can come to: pytest shuts its own folders."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def test_a_disk_that_refuses_a_delete_is_named_and_the_others_go_on(reachable: Path) -> None:
    store = ObjectStores({})
    for name in ("open/a", "shut/b", "open/c"):
        store.write(f"{reachable}/{name}", b"x")
    with refusing_deletes(reachable / "shut"):
        first, second, third = store.delete(
            [f"{reachable}/{n}" for n in ("open/a", "shut/b", "open/c")]
        )
        with pytest.raises(StoreRefused, match=f"{reachable}/shut/new"):
            store.write(f"{reachable}/shut/new", b"x")
    assert (first.error, third.error) == ("", "")
    assert f"{reachable}/shut/b" in second.error
    assert listed(store, str(reachable)) == [f"{reachable}/shut/b"]
    assert [outcome.error for outcome in store.delete([f"{reachable}/shut/b"])] == [""]


def test_links_are_not_listed_as_what_they_lead_to_has_another_name(tmp_path: Path) -> None:
    store = ObjectStores({})
    store.write(f"{tmp_path}/elsewhere/needed", b"x")
    store.write(f"{tmp_path}/t/x", b"x")
    (tmp_path / "t/folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "t/file").symlink_to(tmp_path / "elsewhere/needed")
    (tmp_path / "t/loop").symlink_to(tmp_path / "t")
    (tmp_path / "t/dangling").symlink_to(tmp_path / "nowhere")
    assert listed(store, f"{tmp_path}/t") == [f"{tmp_path}/t/x"]
    (tmp_path / "warehouse").symlink_to(tmp_path / "t")
    assert listed(store, f"{tmp_path}/warehouse") == [f"{tmp_path}/warehouse/x"]


def test_a_name_that_is_no_text_is_passed_over_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = ObjectStores({})
    store.write(f"{tmp_path}/x", b"x")
    store.write(f"{tmp_path}/new\nline", b"x")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff")).touch()
    assert listed(store, str(tmp_path)) == [f"{tmp_path}/new\nline", f"{tmp_path}/x"]
    assert "not UTF-8" in caplog.text


@pytest.mark.parametrize(
    "odd", ["{0}/t/../x", "file://host{0}/x", "relative/x", "{0}/x/", "{0}/x\0", "hdfs://nn/x"]
)
def test_a_path_that_is_not_surely_one_file_is_not_deleted(tmp_path: Path, odd: str) -> None:
    store = ObjectStores({})
    store.write(f"{tmp_path}/x", b"x")
    store.write(f"{tmp_path}/t/y", b"y")
    good, refused = store.delete([f"{tmp_path}/t/y", odd.format(tmp_path)])
    assert refused.error
    assert not good.error
    assert (tmp_path / "x").exists()
    with pytest.raises(StoreRefused):
        store.write(odd.format(tmp_path), b"")


NOWHERE = {"s3.endpoint": "http://127.0.0.1:9", "s3.anonymous": "true", "s3.region": "r"}


@pytest.mark.parametrize(
    "path",
    [
        "", "/", ".", "file:", "://", "s3:k", "s3://", "s3:///k", "s3://b b/k", "s3://b\x7f/k",
        "gs://b/\0", "abfss://a b@c.dfs.core.windows.net/k", "\x01://a/b", "memory:a", "{0}/a\0b",
        "{0}/f/below", "x" * 5000, "{0}/" + "y" * 300,
    ],
)  # fmt: skip
def test_a_path_out_of_a_damaged_file_is_refused_or_not_there(tmp_path: Path, path: str) -> None:
    (tmp_path / "f").write_bytes(b"x")
    store, asked = ObjectStores(NOWHERE), path.format(tmp_path)
    with pytest.raises((StoreRefused, FileNotFoundError)):
        store.read(asked)
    for look in (store.size, store.measure, store.is_link):
        with suppress(StoreRefused):
            assert not look(asked)
    with suppress(StoreRefused):
        assert [stat.path for stat in store.stats([asked])] == [asked]
    (outcome,) = store.delete([asked])
    assert outcome.path == asked
    assert (tmp_path / "f").read_bytes() == b"x"
