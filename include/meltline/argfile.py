"""Argfiles: passes private CLI arguments in an owner-only file instead of `argv`.

Every user of a machine can read the command line of every process. A process that starts another
one therefore writes users and reasons to a file that only its owner can read. The command line then
begins with `@FILE`, before all other arguments. An operator may do the same. Used by the command
line, and by the processes that start commands.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from meltline.domain.errors import UsageInvalid

_SIGN = "@"


def in_file(file: Path, words: Sequence[str]) -> str:
    """Writes arguments to a file that only the process's user can read, and returns `@FILE`.

    Raises:
        OSError: The file cannot be written, or already exists.
    """
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        json.dump(list(words), opened)
    return f"{_SIGN}{file}"


def spelt_out(words: Sequence[str]) -> list[str]:
    """Returns the arguments of a command line, with those of a leading `@FILE` expanded.

    Raises:
        UsageInvalid: The file cannot be read, or does not contain a list of strings.
    """
    if not words or not words[0].startswith(_SIGN):
        return list(words)
    file = words[0].removeprefix(_SIGN)
    try:
        words_of_file = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable(file, f"{type(error).__name__}") from error
    if not isinstance(words_of_file, list) or not all(
        isinstance(word, str) for word in words_of_file
    ):
        raise _unreadable(file, "another document")
    return [*words_of_file, *words[1:]]


def _unreadable(file: str, problem: str) -> UsageInvalid:
    return UsageInvalid(
        f"{file} holds no words of a command",
        object=file,
        expected='a JSON list such as ["stop", "--reason", "why"]',
        found=problem,
        next="write one, readable by you alone, or give the words themselves",
    )
