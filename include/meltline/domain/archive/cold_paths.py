"""Maps a file's path to its copy's path in cold, below the cold warehouse, and back (AR-31).

The copying adapters, the gate's readers and the archive's checks must agree on this mapping, so it
is defined here.
"""

import re
from functools import lru_cache

from meltline.domain.iceberg.locations import claim_prefix, is_odd

_NO_AUTHORITY = "_"
"""Encodes the authority of `file:/x`; doubled, of `file:///x`; alone, of `/x` without a scheme."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.=%+,@:-]")
_SPELLED = re.compile(r"(?:~[0-9A-F]{2})+")
_DOTS = (".", "..")


def mirrored(path: str, warehouse: str) -> str:
    """Returns the path of a file's copy.

    Two spellings never map to the same path, not even spellings of one file. A position delete with
    another spelling of a data file does not apply to it, and must not begin to. Characters at which
    some reader would cut or change a path become `~` and their bytes in hexadecimal.

    Args:
        path: As Iceberg wrote it.
        warehouse: The folder of the cold catalog.

    Raises:
        ValueError: The path is ambiguous, so that it cannot be mirrored.
    """
    if is_odd(path):
        raise ValueError(f"{path!r} cannot be mirrored: it has parts that lead elsewhere")
    folder, slash, name = path.rpartition("/")
    if not slash:
        raise ValueError(f"{path!r} cannot be mirrored: it is no absolute path")
    return _mirrored_folder(f"{folder}/", warehouse) + _spelled(name)


@lru_cache(maxsize=4096)
def _mirrored_folder(folder: str, warehouse: str) -> str:
    """Returns the folder for copies of a folder's files; cached, since folders are few."""
    place, raw = _taken_apart(folder)
    if not raw.startswith("/"):
        raise ValueError(f"{folder!r} cannot be mirrored: it is no absolute path")
    folders = raw.removeprefix("/").split("/")[:-1]
    return "/".join([warehouse.rstrip("/"), *place, *map(_spelled, folders), ""])


def original_of(copy: str, warehouse: str) -> str:
    """Returns the path that is mirrored at a path of cold; empty if there is none."""
    base = warehouse.rstrip("/") + "/"
    place, _, tail = copy.removeprefix(base).partition("/")
    if place != _NO_AUTHORITY:
        authority, _, tail = tail.partition("/")
        begin = {_NO_AUTHORITY: "", 2 * _NO_AUTHORITY: "//"}.get(authority, f"//{_read(authority)}")
        place = f"{_read(place)}:{begin}"
    path = f"{place.removeprefix(_NO_AUTHORITY)}/" + "/".join(map(_read, tail.split("/")))
    try:
        return path if copy.startswith(base) and mirrored(path, warehouse) == copy else ""
    except ValueError:
        return ""


def _read(part: str) -> str:
    """Decodes a part of a path that was encoded for cold."""
    if part == "~":
        return ""
    return _SPELLED.sub(_decoded, part)


def _decoded(spelled: re.Match[str]) -> str:
    return bytes.fromhex(spelled[0].replace("~", "")).decode(errors="replace")


def _taken_apart(path: str) -> tuple[list[str], str]:
    """Splits a path into the folders that encode scheme and authority, and the rest."""
    scheme, colon, after_scheme = path.partition(":")
    if not colon or "/" in scheme:
        return [_NO_AUTHORITY], path
    if not after_scheme.startswith("//"):
        return [_spelled(scheme), _NO_AUTHORITY], after_scheme
    authority, slash, tail = after_scheme[2:].partition("/")
    if not authority:
        return [_spelled(scheme), 2 * _NO_AUTHORITY], slash + tail
    is_ours = not authority.strip("_")  # it would be read like one of the two above
    place = authority.replace("_", "~5F") if is_ours else _spelled(authority)
    return [_spelled(scheme), place], slash + tail


def _spelled(part: str) -> str:
    """Encodes one part of a path; an empty part, which some stores distinguish, becomes `~`."""
    if part in _DOTS:
        return part.replace(".", "~2E")
    return _UNSAFE.sub(lambda match: "".join(f"~{b:02X}" for b in match[0].encode()), part) or "~"


def lies_under(path: str, folder: str) -> bool:
    """Whether a path is below a folder, whatever the spelling of scheme and slashes."""
    return not is_odd(path) and claim_prefix(path).startswith(claim_prefix(folder))
