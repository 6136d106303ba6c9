"""File locations: normalizes paths to comparable keys, and finds the tables that own a path.

A key is compared; the path as written is opened.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

SAME_SCHEME = {
    "s3a": "s3",
    "s3n": "s3",
    "abfs": "abfss",
    "wasb": "abfss",
    "wasbs": "abfss",
    "az": "abfss",
    "gcs": "gs",
}
"""Schemes that mean the same store, mapped to the canonical one."""

_BLOBS, _DATA_LAKE = ".blob.", ".dfs."
"""Two names of one Azure account's host: `account.blob.core.windows.net`, and with `dfs`."""
_AMAZON = re.compile(r"(?:(.+)\.)?s3(?:[.-][a-z0-9-]+){0,3}\.amazonaws\.com(?:\.cn)?")
_GOOGLE = re.compile(r"(?:(.+)\.)?storage\.(?:googleapis|cloud\.google)\.com")
_AZURE = re.compile(r"[^.]+(?:\.z\d+)?\.(?:blob|dfs)\..+")
_ACCESS_POINT = re.compile(r"arn:[^:]*:s3[^:]*:[^:]*:[^:]*:accesspoint")


class Location(NamedTuple):
    """A path split as written: nothing decoded, nothing normalized."""

    scheme: str
    authority: str
    path: str


def split_location(path: str) -> Location:
    """Splits a location; a bare path is a local file.

    `file:/x` and `file:///x` are equal. A URL's `#` and `?` are ordinary characters here: Iceberg
    writes paths raw.
    """
    if path.startswith("file:///"):  # the most frequent case by far
        return Location("file", "", path[7:])
    scheme, colon, after_scheme = path.partition(":")
    if not colon or "/" in scheme:
        return Location("file", "", path)
    scheme = scheme.lower()
    if not after_scheme.startswith("//"):
        return Location(scheme, "", after_scheme)
    authority, slash, tail = after_scheme[2:].partition("/")
    if scheme == "file" and authority.lower() == "localhost":
        authority = ""
    return Location(scheme, authority, slash + tail)


def location_key(path: str) -> str:
    """Returns the comparable form: scheme, authority, slashes and encoding are normalized.

    Two different files may share a key (`a%20b`, `a b`). That can only keep a file: it is deletable
    only when its key is referenced nowhere.
    """
    folder, _, name = path.rpartition("/")
    if (
        name in ("", ".", "..")
        or "%" in name
        or "\\" in name
        or not folder
        or folder.endswith((":", "/"))
    ):
        return _key(path)
    return _folder_key(folder) + name  # millions of files, few folders


@lru_cache(maxsize=4096)
def _folder_key(folder: str) -> str:
    key = _key(folder)
    return key if key.endswith("/") else f"{key}/"


def _key(path: str) -> str:
    root, raw = _root(path)
    while (decoded := unquote(raw)) != raw:  # so that a key is its own key
        raw = decoded
    if root.startswith("abfss:"):
        raw = raw.replace("\\", "/")  # Azure treats both as one blob
    parts: list[str] = []
    for part in raw.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return root + "/".join(parts)


def _root(path: str) -> tuple[str, str]:
    scheme, authority, raw = split_location(path)
    scheme, authority = SAME_SCHEME.get(scheme, scheme), authority.lower()
    if scheme in ("http", "https"):
        scheme, authority, raw = _of_web_address(authority, raw) or (scheme, authority, raw)
    elif scheme in SAME_SCHEME.values():
        authority, raw = _with_bucket(authority, raw)
    if scheme == "abfss":
        authority = authority.replace(_BLOBS, _DATA_LAKE)
    return f"{scheme}://{authority}/", raw


def _with_bucket(authority: str, raw: str) -> tuple[str, str]:
    """Returns the bucket, and the path in it, if it follows too many or too few slashes.

    Hadoop's paths turn `s3://bucket/key` into `s3:/bucket/key`. The name of an access point may
    follow its ARN after a slash as well as after a colon.
    """
    if authority and not _ACCESS_POINT.fullmatch(authority):
        return authority, raw
    bucket, slash, tail = raw.lstrip("/").partition("/")
    return f"{authority}:{bucket.lower()}".removeprefix(":"), slash + tail


def _of_web_address(host: str, raw: str) -> tuple[str, str, str] | None:
    """Returns scheme, bucket and path of a web address, if its host is a known cloud's."""
    host = re.sub(r":(?:80|443)$", "", host)
    scheme, bucket = "", ""
    if amazon := _AMAZON.fullmatch(host):
        scheme, bucket = "s3", amazon[1] or ""
    elif google := _GOOGLE.fullmatch(host):
        scheme, bucket = "gs", google[1] or ""
    elif not _AZURE.fullmatch(host):
        return None
    bucket, rest = _with_bucket(bucket, raw)
    return (scheme, bucket, rest) if scheme else ("abfss", f"{bucket}@{host}", rest)


def is_odd(path: str) -> bool:
    """Whether readers interpret parts of a location differently: then the file is kept."""
    if path.isprintable() and "%" not in path and ".." not in path:  # almost all of millions
        plain = split_location(path).path
        return plain.endswith("/") or not plain
    raw = unquote(split_location(path).path)
    control = any(ord(letter) < 32 for letter in path + raw)  # would break a digest's lines
    return control or ".." in raw.split("/") or raw.endswith("/") or not raw


def claim_prefix(location: str) -> str:
    """Returns the prefix that a table claims, with a slash: `tbl` never covers `tbl_backup`.

    Unlike a key, nothing is decoded or resolved: a claim that is too wide could delete a file.
    """
    root, raw = _root(location)
    parts = [part for part in raw.split("/") if part]
    return root + "".join(f"{part}/" for part in parts)


@dataclass(frozen=True)
class Ownership:
    """A table's ownership, current or past, of everything under a prefix. It outlives the table."""

    prefix: str
    table_uuid: str


class OwnerIndex:
    """Finds a file's owners by the longest matching prefix (tables nest)."""

    def __init__(self, ownerships: Iterable[Ownership]) -> None:
        self._owners: dict[str, list[str]] = {}
        for ownership in ownerships:
            owners = self._owners.setdefault(ownership.prefix, [])
            if ownership.table_uuid not in owners:
                owners.append(ownership.table_uuid)
        for owners in self._owners.values():
            owners.sort()
        self._prefixes = sorted(self._owners)
        self._by_folder: dict[str, tuple[str, ...]] = {}

    def owners(self, path: str) -> tuple[str, ...]:
        """Returns the tables that own a path: several if they share a location, none if foreign."""
        folder, _, name = path.rpartition("/")
        if not name:
            return self._owners_of(path)
        if folder not in self._by_folder:  # millions of files, few folders
            self._by_folder[folder] = self._owners_of(path)
        return self._by_folder[folder]

    def owners_or(self, path: str, namers: Iterable[str]) -> tuple[str, ...]:
        """Returns the tables that own a path; else those that referenced it in a commit."""
        return self.owners(path) or tuple(sorted(namers))

    def _owners_of(self, path: str) -> tuple[str, ...]:
        return tuple(self._owners.get(self.prefix_of(path), ()))

    def prefix_of(self, path: str) -> str:
        """Returns the longest prefix that owns a path; empty if foreign."""
        at = claim_prefix(path).rstrip("/")
        while (cut := at.rfind("/")) >= 0:
            at = at[:cut]
            if at.endswith(":/"):
                return ""
            if at + "/" in self._owners:
                return at + "/"
        return ""

    def is_sole(self, location: str, table_uuid: str) -> bool:
        """Whether one table alone owns everything under a folder: no other table nests below it."""
        prefix = claim_prefix(location)
        if self.owners(f"{prefix}-") != (table_uuid,):
            return False
        at = bisect_left(self._prefixes, prefix)
        below = self._prefixes[at : bisect_left(self._prefixes, f"{prefix}\U0010ffff", at)]
        return all(self._owners[nested] == [table_uuid] for nested in below)
