"""Sizes and times of many objects of a cloud store, by few requests where they lie close together.

A page of a listing shows a thousand objects and costs about as much, in time and in money, as
some dozens of requests for single ones. So a folder is listed where enough of what is asked for
lies on each page, from the first such key on. The listing only ever says what is there: whatever
it has not shown, for whatever reason, is asked for by name.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from meltline.adapters.cloud_stores import CloudStore, reason_of
from meltline.ports import ObjectStat, StoredObject

if TYPE_CHECKING:  # obstore keeps this name in its stubs alone
    from obstore import ObjectMeta

_PAGE = 1000
_PER_PAGE = 25  # objects asked for on a page of a listing that make it worth its while
_REQUESTS = 16  # single requests at a time
_NO_ANSWER = "not asked for: the store did not answer for the objects before"


def stats_of(store: CloudStore, batch: Sequence[tuple[str, str]]) -> dict[str, ObjectStat]:
    """What lies under each path of a store; given with the key that it has there."""
    folders: dict[str, dict[str, str]] = {}
    for path, key in batch:
        folders.setdefault(key.rpartition("/")[0], {})[key] = path
    stats: dict[str, ObjectStat] = {}
    for folder, paths in folders.items():
        if len(paths) >= _PER_PAGE:
            stats |= _listed(store, folder, paths)
    return stats | _asked_for(store, [one for one in batch if one[0] not in stats])


def _listed(store: CloudStore, folder: str, paths: dict[str, str]) -> dict[str, ObjectStat]:
    """Those of a folder's objects that a listing shows before it is not worth its while any more.

    Args:
        store: Lists by name, as all of them do; where one does not, less is shown.
        folder: Where all of them lie.
        paths: By key.
    """
    keys = sorted(paths)
    pages_left = -(-len(keys) // _PER_PAGE)
    stats: dict[str, ObjectStat] = {}
    prefix = f"{folder}/" if folder else None
    try:
        for page in obstore.list(store, prefix, offset=keys[0][:-1], chunk_size=_PAGE):
            for found in page:
                if path := paths.get(found["path"]):
                    stats[path] = ObjectStat(path, shown(path, found))
            pages_left -= 1
            if pages_left <= 0 or len(stats) == len(paths) or page[-1]["path"] >= keys[-1]:
                break
    except (BaseError, OSError, ValueError):
        return stats  # who may not list may still ask for each
    return stats


def _asked_for(store: CloudStore, batch: Sequence[tuple[str, str]]) -> dict[str, ObjectStat]:
    stats: dict[str, ObjectStat] = {}
    with ThreadPoolExecutor(_REQUESTS) as pool:
        for at in range(0, len(batch), _REQUESTS):
            answers = list(pool.map(partial(_stat, store), batch[at : at + _REQUESTS]))
            stats |= {stat.path: stat for stat, _ in answers}
            if not any(answered for _, answered in answers):
                break  # each of the rest would wait for its retries
    return {path: stats.get(path, ObjectStat(path, error=_NO_ANSWER)) for path, _ in batch}


def _stat(store: CloudStore, one: tuple[str, str]) -> tuple[ObjectStat, bool]:
    """What lies under a path, and whether the store has answered at all."""
    path, key = one
    try:
        found = obstore.head(store, key)
    except FileNotFoundError:
        return ObjectStat(path), True
    except (BaseError, OSError, ValueError) as error:
        is_refusal = isinstance(error, PermissionDeniedError | UnauthenticatedError)
        return ObjectStat(path, error=reason_of(error)), is_refusal
    return ObjectStat(path, shown(path, found)), True


def shown(path: str, found: "ObjectMeta") -> StoredObject:
    """An object as its store shows it."""
    return StoredObject(path, found["size"], found["last_modified"], found["e_tag"] or "")
