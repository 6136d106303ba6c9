"""Builds the commands of the forms of `meltline_restore_…` and `meltline_holds`.

The DAG files pass these functions to `CommandStep`, which runs the command.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from meltline.domain.errors import UsageInvalid

_ALWAYS = {"action", "dry_run"}
_OPTIONS = {"new_name": "as", "snapshot": "to"}


@dataclass(frozen=True)
class FormFields:
    """The required and optional fields of an action's form."""

    needs: frozenset[str]
    knows: frozenset[str] = frozenset()


_POINTS = frozenset({"at", "offset", "statement", "tag"})

RESTORES: Mapping[str, FormFields] = {
    "undrop": FormFields(frozenset({"name"}), frozenset({"kind"})),
    "rollback": FormFields(frozenset({"name"}), frozenset({"snapshot", "at"})),
    "recover": FormFields(frozenset({"name", "new_name", "reason"}), frozenset({"snapshot"})),
    "clone": FormFields(
        frozenset({"name", "new_name"}), _POINTS | {"kind", "side", "ignore_insufficient"}
    ),
}
"""The form fields of each restoring action; each action has its own form."""


def restore_words(action: str, params: Mapping[str, Any]) -> Sequence[str]:
    """Returns the command of one of `RESTORES`; for an empty form, a listing.

    Raises:
        UsageInvalid: A parameter is missing, or is not supported by this action.
    """
    if not any(_is_filled(word) for key, word in params.items() if key not in _ALWAYS):
        return ["history", "tables"]
    fields = RESTORES[action]
    given = _given(params, action, needs=fields.needs, knows=fields.knows)
    if action == "clone":
        return _clone_words(params, given)
    if action == "recover":
        snapshot = given.pop("snapshot", "")
        name = given["name"] + (f"@{snapshot}" if snapshot else "")
        return _words([action], params, given, name)
    return _words([action], params, given, given["name"])


def _clone_words(params: Mapping[str, Any], given: dict[str, str]) -> Sequence[str]:
    """Returns `clone`; without a side, the change at a point is included."""
    flags = ["--ignore-insufficient"] if given.pop("ignore_insufficient", "") else []
    side = given.pop("side", "at" if _POINTS & given.keys() else "")
    flags += [f"--{side}"] if side else []
    if "at" in given:
        given["timestamp"] = given.pop("at")
    target = given.pop("new_name")
    return [*_words(["clone", *flags], params, given, given["name"]), target]


def hold_words(params: Mapping[str, Any]) -> Sequence[str]:
    """Returns `hold add`, `hold remove` or `hold list`, according to the parameters.

    Raises:
        UsageInvalid: A parameter is missing, or is not supported by this action.
    """
    action = str(params["action"])
    if action == "list":
        _given(params, action, needs=set(), knows=set())
        return ["hold", "list"]
    if action == "remove":
        given = _given(params, action, needs={"id", "reason"}, knows=set())
        return _words(["hold", "remove"], params, given, given["id"])
    given = _given(params, action, needs={"name", "reason"}, knows={"until", "kind"})
    return _words(["hold", "add"], params, given, given["name"])


def _given(
    params: Mapping[str, Any], action: str, *, needs: Set[str], knows: Set[str]
) -> dict[str, str]:
    """Returns the filled-in parameters; refuses those that would be ignored."""
    given = {
        key: str(word).strip()
        for key, word in params.items()
        if key not in _ALWAYS and _is_filled(word)
    }
    missing, unexpected = sorted(needs - given.keys()), sorted(given.keys() - needs - knows)
    if missing or unexpected:
        problem = f"does not take {', '.join(unexpected)}"
        raise UsageInvalid(
            f"{action} needs {', '.join(missing)}" if missing else f"{action} {problem}",
            object=action,
            expected=", ".join(sorted(needs))
            + "".join(f", maybe {name}" for name in sorted(knows)),
            found=", ".join(sorted(given)) or "nothing",
            next="trigger the run again with the parameters that this action takes",
        )
    return given


def _is_filled(word: object) -> bool:
    return word is not None and word is not False and bool(str(word).strip())


def _words(
    command: list[str], params: Mapping[str, Any], given: Mapping[str, str], subject: str
) -> list[str]:
    """Builds the arguments: each value in one argument with its option, the subject after `--`."""
    options = [
        f"--{_OPTIONS.get(key, key)}={word}"
        for key, word in sorted(given.items())
        if key not in ("name", "id")
    ]
    dry_run = ["--dry-run"] if params.get("dry_run") else []
    return [*command, *options, *dry_run, "--", subject]
