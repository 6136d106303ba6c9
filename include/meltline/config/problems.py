"""What is wrong with a `meltline.yaml`, each mistake once, and how to mend it.

Values that may hold a secret are never repeated.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_core import ErrorDetails

from meltline.config.schema import (
    AccountSection,
    BatchesSection,
    CatalogSection,
    ConfigFile,
    GatesSection,
    IoSection,
    LimitsSection,
    Section,
    SweepSection,
)
from meltline.config.values import catalogs_in
from meltline.domain.errors import ConfigInvalid

Key: TypeAlias = tuple[str, ...]
_NOTHING = "nothing"


@dataclass(frozen=True)
class Problem:
    """A mistake: where it is, what was expected, what is there, and how to mend it.

    Attributes:
        meant: The key that was meant by one that is misspelt.
    """

    key: Key
    expected: str
    actual: str
    fix: str
    meant: Key = ()

    def __str__(self) -> str:
        return f"{'.'.join(self.key)}: expected {self.expected}, found {self.actual}; {self.fix}"


def invalid(path: Path, problems: Sequence[Problem]) -> ConfigInvalid:
    """The error for all mistakes at once."""
    problems = _once(problems)

    def joined(words: list[str]) -> str:
        if len(problems) == 1:
            return words[0]
        return "; ".join(f"{'.'.join(p.key)}: {w}" for p, w in zip(problems, words, strict=True))

    error = ConfigInvalid(
        "\n".join(f"{path}: {problem}" for problem in problems),
        object=", ".join(f"{path}: {'.'.join(problem.key)}" for problem in problems),
        expected=joined([problem.expected for problem in problems]),
        found=joined([problem.actual for problem in problems]),
        next=joined([problem.fix for problem in problems]),
    )
    error.tells_all = True
    return error


def _once(problems: Sequence[Problem]) -> list[Problem]:
    """Each mistake once: a key that is misspelt is not missing as well."""
    meant = {problem.meant for problem in problems}
    return [p for p in problems if not (p.key in meant and p.actual == _NOTHING)]


def problem_of(detail: ErrorDetails, written: Mapping[str, object]) -> Problem:
    """The mistake that a check has found in what was written."""
    key = tuple(str(part) for part in detail["loc"] if part != "[key]")
    present = repr(key[-1]) if "[key]" in detail["loc"] else _shown(key, written)
    context = detail.get("ctx", {})
    if detail["type"] == "missing":
        return Problem(key, "a value", _NOTHING, f"add {key[-1]}")
    if detail["type"] == "extra_forbidden":
        known_keys = _known_keys(key[:-1])
        near = _nearest(key[-1], known_keys)
        if near:
            return _misspelt(key, near)
        fix = f"remove it; known are {', '.join(known_keys)}"
        return Problem(key, "a known key", "an unknown one", fix)
    if detail["type"] in {"model_type", "model_attributes_type", "dict_type"}:
        return Problem(key, "keys and values", present, "indent its keys below it")
    expected = context.get("expected") or detail["msg"].removeprefix("Input should be ")
    expected = str(expected).partition(", unable to")[0]
    fix = str(context.get("fix", "")) or f"write {expected}"
    return Problem(key, expected, present, fix)


def _misspelt(key: Key, near: str) -> Problem:
    fix, meant = f"did you mean {near}?", (*key[:-1], near)
    return Problem(key, "a known key", "an unknown one", fix, meant)


def _known_keys(section: Key) -> list[str]:
    sections: dict[str, type[Section]] = {
        "account": AccountSection,
        "limits": LimitsSection,
        "gates": GatesSection,
        "sweep": SweepSection,
        "batches": BatchesSection,
        "io": IoSection,
    }
    model = sections.get(section[0], ConfigFile) if section else ConfigFile
    return sorted(str(field.alias) for field in model.model_fields.values())


def _nearest(word: str, vocabulary: list[str], cutoff: float = 0.6) -> str:
    plain = word.lower().replace("_", "-")
    return next(iter(difflib.get_close_matches(plain, vocabulary, n=1, cutoff=cutoff)), "")


def _shown(key: Key, written: Mapping[str, object]) -> str:
    """What the file has there, before `${NAME}` is filled in; nothing that may be a secret."""
    node: object = written
    for part in key:
        node = node.get(part) if isinstance(node, dict) else None
    if node is None:
        return _NOTHING
    if isinstance(node, dict | list):
        return "keys and values" if isinstance(node, dict) else "a list"
    open_catalog_keys = {"type", "observe-only", "catalog-name"}
    if key[0] == "control" or (key[0] == "catalogs" and key[-1] not in open_catalog_keys):
        return "another value"
    return repr(node)


def misspelt_catalog_keys(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """A catalog takes any property, but `observe_only` passed through would observe nothing."""
    aliases = sorted(str(field.alias) for field in CatalogSection.model_fields.values())
    for name, catalog in catalogs_in(tree).items():
        for word in catalog.keys() - set(aliases):
            if near := _nearest(word, aliases, cutoff=0.85):
                yield _misspelt(("catalogs", name, word), near)
