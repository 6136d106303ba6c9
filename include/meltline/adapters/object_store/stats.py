"""Sizes and times of many cloud objects, in few requests where the objects lie close together.

A purge and an archive run call it. A page of a listing shows a thousand objects and costs about as
much, in time and in money, as some dozens of requests for single objects. So a folder is listed if
each page has enough of the wanted objects, starting at the first of them. The listing only proves
that an object exists: an object that it has not shown is requested by name.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from meltline.adapters.object_store.cloud import CloudStore
from meltline.adapters.object_store.store_errors import reason_of
from meltline.ports import ObjectStat, StoredObject

if TYPE_CHECKING:  # obstore keeps this name in its stubs alone
    from obstore import ObjectMeta

_PAGE = 1000
_PER_PAGE = 25  # wanted objects on a page that pay for the listing
_REQUESTS = 16  # requests at a time
_NO_ANSWER = "not asked for: the store did not answer for the objects before"


def stats_of(store: CloudStore, batch: Sequence[tuple[str, str]]) -> dict[str, ObjectStat]:
    """Returns the state of each path of a store; each is given with its key there."""
    folders: dict[str, dict[str, str]] = {}
    for path, key in batch:
        folders.setdefault(key.rpartition("/")[0], {})[key] = path
    large = [keyed for keyed in folders.items() if len(keyed[1]) >= _PER_PAGE]
    stats: dict[str, ObjectStat] = {}
    with ThreadPoolExecutor(_REQUESTS) as pool:
        for shown_there in pool.map(lambda keyed: _listed(store, *keyed), large):
            stats |= shown_there
    return stats | _asked_for(store, [keyed for keyed in batch if keyed[0] not in stats])


def _listed(store: CloudStore, folder: str, paths: Mapping[str, str]) -> dict[str, ObjectStat]:
    """Returns a folder's objects from a listing, until the listing is not worth its cost.

    Each page is requested separately, starting at the next wanted object. So the objects between
    are skipped. Some stores also refuse to continue a listing that did not start at the beginning.

    Args:
        store: A store that lists by name, as all do; if one does not, fewer objects are found.
        folder: The folder of all objects.
        paths: By key.
    """
    keys = sorted(paths)
    stats: dict[str, ObjectStat] = {}
    at = pages = 0
    while len(keys) - at >= _PER_PAGE and pages <= 1 + at // _PER_PAGE:
        try:
            page = _page(store, folder, keys[at][:-1])
        except (BaseError, OSError, ValueError):
            break  # a user who may not list may still request each
        for meta in page:
            if path := paths.get(meta["path"]):
                stats[path] = ObjectStat(path, shown(path, meta))
        if len(page) < _PAGE:
            break
        at = bisect_right(keys, page[-1]["path"], at)
        pages += 1
    return stats


def _page(store: CloudStore, folder: str, after: str) -> "Sequence[ObjectMeta]":
    """Returns the first objects of a folder, at any depth, whose keys come after a text."""
    pages = obstore.list(store, f"{folder}/" if folder else None, offset=after, chunk_size=_PAGE)
    return next(iter(pages), ())


def _asked_for(store: CloudStore, batch: Sequence[tuple[str, str]]) -> dict[str, ObjectStat]:
    stats: dict[str, ObjectStat] = {}
    with ThreadPoolExecutor(_REQUESTS) as pool:
        for at in range(0, len(batch), _REQUESTS):
            answers = list(pool.map(partial(_stat, store), batch[at : at + _REQUESTS]))
            stats |= {stat.path: stat for stat, _ in answers}
            if not any(answered for _, answered in answers):
                break  # each remaining one would wait for its retries
    return {path: stats.get(path, ObjectStat(path, error=_NO_ANSWER)) for path, _ in batch}


def _stat(store: CloudStore, keyed: tuple[str, str]) -> tuple[ObjectStat, bool]:
    """Returns the state of a path, and whether the store has answered at all."""
    path, key = keyed
    try:
        meta = obstore.head(store, key)
    except FileNotFoundError:
        return ObjectStat(path), True
    except (BaseError, OSError, ValueError) as error:
        is_refusal = isinstance(error, PermissionDeniedError | UnauthenticatedError)
        return ObjectStat(path, error=reason_of(error)), is_refusal
    return ObjectStat(path, shown(path, meta)), True


def shown(path: str, meta: "ObjectMeta") -> StoredObject:
    """Converts an object's metadata from its store."""
    is_numbered = path.startswith(("gs:", "gcs:"))  # every object of GCS has a generation
    return StoredObject(
        path,
        meta["size"],
        meta["last_modified"],
        _quoted(meta["e_tag"] or ""),
        is_version=meta["version"] is not None and not is_numbered,
    )


def _quoted(etag: str) -> str:
    """Adds the quotes of an ETag header, which Azure's listings omit for the same version."""
    return etag if not etag or etag.endswith('"') else f'"{etag}"'
