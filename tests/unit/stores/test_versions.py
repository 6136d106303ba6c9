"""Stores that keep versions are named, for what is deleted there still takes its bytes."""

from dataclasses import replace
from typing import Any

from meltline.app.doctor.doctor import version_findings
from meltline.domain.errors import StoreRefused
from meltline.ports import StoredObject
from tests.doubles.store import MemoryStore


class Versioned(MemoryStore):
    """One of its buckets keeps versions, and one does not answer."""

    def measure(self, path: str) -> StoredObject | None:
        if path.startswith("s3://mute/"):
            raise StoreRefused("mute", object=path, expected="", found="", next="")
        stored = super().measure(path)
        return stored and replace(stored, is_version="://versions/" in path)


def found(*paths: str) -> list[Any]:
    store = Versioned(dict.fromkeys([*paths, "s3://versions/a"], b"x"))
    return [(each.code, each.level, each.object) for each in version_findings(store, paths)]


def test_a_store_that_keeps_versions_is_named_once() -> None:
    paths = ("s3://versions/a", "s3a://versions/b", "s3://plain/a", "s3://mute/a", "file:///w/a")
    assert found(*paths) == [("keeps_versions", "warning", "s3://versions")]


def test_a_store_that_does_not_tell_and_local_files_are_passed_over() -> None:
    assert found("s3://plain/a", "s3://mute/a", "/w/a") == []


def test_what_is_a_version_is_the_same_object_as_what_a_listing_shows() -> None:
    store = Versioned({"s3://versions/a": b"x"})
    shown = store.measure("s3://versions/a")
    assert shown is not None and shown.is_version and [shown] == list(store.list("s3://versions"))
