"""Entry point of `meltline`: parses the command line, runs a command, and prints every error.

The console script `meltline` calls `main`. The commands are in the other modules.
"""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress

import typer
from typer.exceptions import TyperException

from meltline.argfile import spelt_out
from meltline.cli.commands import parser, words_to_complete
from meltline.cli.output import print_error, unforeseen
from meltline.domain.errors import MeltlineError, TableNotFound, UsageInvalid
from meltline.process_tuning import collect_seldom, do_without_pandas

_BROKEN_PIPE = 141  # the exit code of a shell for a program ended by SIGPIPE
_COMMENT = re.compile(r"--(\s|[^=]*\n)")
_LOOK = ("storage", "explain")  # these only read the ledger


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and exits with its code: 0 done, 1 failed, 2 usage, 3 refused, 4 skipped."""
    collect_seldom()
    try:
        code = _answered(arguments)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as ended:
        # `meltline ... | head` has read enough. The parser exits in its own way then.
        if not any(isinstance(error, BrokenPipeError) for error in (ended, ended.__context__)):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _BROKEN_PIPE
    sys.exit(code)


def _answered(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in _LOOK:
        do_without_pandas()
    return run(words)


def run(words: Sequence[str]) -> int:
    """Runs a command and returns its exit code; every error is printed here, once."""
    as_json = "--json" in words
    try:
        words = _statement_last(spelt_out(words))
        as_json = "--json" in words
        shown = words or words_to_complete(os.environ)
        code = parser(shown)(words, standalone_mode=False, prog_name="meltline")
        return code if isinstance(code, int) else 0
    except MeltlineError as error:
        print_error(_with_what_was_meant(error, words), as_json=as_json)
        return error.exit_code
    except typer.Exit as ended:
        return int(ended.exit_code)
    except typer.Abort:
        return 1
    except TyperException as wrong:
        message = wrong.format_message() if hasattr(wrong, "format_message") else str(wrong)
        usage = UsageInvalid(message, object="command line", next="`meltline COMMAND --help`")
        print_error(usage, as_json=as_json)
        return usage.exit_code
    except BrokenPipeError:
        raise
    except Exception as unforeseen:
        if os.environ.get("MELTLINE_DEBUG"):
            raise
        print_error(_explained(unforeseen), as_json=as_json)
        return 1


def _with_what_was_meant(error: MeltlineError, words: Sequence[str]) -> MeltlineError:
    """Adds similar names to the error for a name that does not exist."""
    if isinstance(error, TableNotFound):
        from meltline.cli.similar_names import with_names_alike  # noqa: PLC0415 - asks catalogs

        with suppress(Exception):  # the error itself matters more
            return with_names_alike(error, words)
    return error


def _statement_last(words: Sequence[str]) -> list[str]:
    """Moves a statement of `sql` that begins with a comment to the end: it is not an option."""
    comments = [word for word in words if _COMMENT.match(word)]
    if words[:1] != ["sql"] or len(comments) != 1 or "--" in words:
        return list(words)
    return [*(word for word in words if word != comments[0]), "--", *comments]


def _explained(error: Exception) -> MeltlineError:
    """Explains an exception of a library, such as a missing optional package."""
    from meltline.extras import explained  # noqa: PLC0415 - seldom needed

    return explained(error) or unforeseen(error)


if __name__ == "__main__":
    main()
