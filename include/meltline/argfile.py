"""Words of a command that only its user may read: they stand in a file.

Every user of a machine may read the command line of every process. So where a process starts
another one, users and reasons travel in a file of their owner's, and the command line says
`@FILE`, before all other words. A person may do the same.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from meltline.domain.errors import UsageInvalid

_SIGN = "@"


def in_file(file: Path, words: Sequence[str]) -> str:
    """Writes words for the process's own user alone, and returns the word that stands for them.

    Raises:
        OSError: It cannot be written, or is there already.
    """
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        json.dump(list(words), opened)
    return f"{_SIGN}{file}"


def spelt_out(words: Sequence[str]) -> list[str]:
    """The words of a command line, with those of the file that the first one may name.

    Raises:
        UsageInvalid: That file cannot be read, or holds no list of words.
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
