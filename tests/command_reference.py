"""Writes docs/commands.md: every command with its options, from the parser itself.

python -m tests.command_reference
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from meltline.cli.commands import COMMANDS, GROUPS, parser

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"

_HEAD = """# Commands

`make pages` writes this page from the command's own help. Every command takes `--config FILE`, or
reads `MELTLINE_CONFIG`, else `meltline.yaml` here. With `--json` stdout is one document, also on
failure. Progress goes to stderr. `PLAN` is an id, the start of one, or `last`.
`meltline --version` names the build.

| Exit code | It means |
|---|---|
| 0 | done, also when there was nothing to do |
| 1 | failed |
| 2 | bad usage or configuration |
| 3 | refused by a gate or a guard |
| 4 | some tables were skipped, a name matched none, or purging has stopped in the whole lake |

When several apply, the first of 1, 3, 4.
"""
_EVERYWHERE = {"--config", "--json", "--help"}


def paths() -> list[tuple[str, ...]]:
    """The words of each command, in the order of the help."""
    singles = [(name,) for name in COMMANDS]
    return singles + [(group, name) for group, (_, names) in GROUPS.items() for name in names]


def written() -> str:
    """The page as it must be."""
    return "\n".join([_HEAD, *(line for path in paths() for line in _section(path))])


def _section(path: tuple[str, ...]) -> Iterator[str]:
    command: Any = get_command(parser(path))
    for name in path:
        command = command.commands[name]
    context = command.make_context(" ".join(["meltline", *path]), [], resilient_parsing=True)
    kinds: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    for parameter in command.params:
        if not _EVERYWHERE & {*parameter.opts}:
            kinds[parameter.param_type_name].append(parameter.get_help_record(context))
    yield f"## meltline {' '.join(path)}\n"
    yield f"{' '.join((command.help or '').split())}\n"
    rows = [_row(*record) for record in (*kinds["argument"], *kinds["option"])]
    if rows:
        yield from ("| Word | |", "|---|---|", *rows, "")


def _row(words: str, meaning: str) -> str:
    return f"| `{words.replace('|', chr(92) + '|')}` | {meaning.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
