"""`meltline`: one command to see storage by stage, plan, gate, apply, explain, stop and go."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence

import typer
from typer.exceptions import TyperException

from meltline.cli import clock, control, inspect
from meltline.cli.archive import cold, cold_prune, restore
from meltline.cli.output import print_error
from meltline.cli.retention import consumer, hold, lease, policy
from meltline.cli.run import lifecycle, sweep
from meltline.cli.sql import query, statement
from meltline.cli.tables import clone, drop, refs, share
from meltline.domain.errors import MeltlineError, UsageInvalid
from meltline.private_words import spelt_out

Command = Callable[..., int]

COMMANDS: Mapping[str, Command] = {
    "stop": control.stop,
    "go": control.go,
    "attach": control.attach,
    "detach": control.detach,
    "init": lifecycle.init,
    "observe": lifecycle.observe,
    "gate": lifecycle.gate,
    "apply": lifecycle.apply_plan,
    "run": lifecycle.run,
    "storage": inspect.storage,
    "explain": inspect.explain,
    "doctor": inspect.doctor,
    "tag": refs.tag,
    "untag": refs.untag,
    "tags": refs.tags,
    "rollback": refs.rollback,
    "branch": refs.branch,
    "diff": refs.diff,
    "publish": refs.publish,
    "resync": refs.resync,
    "audit": hold.audit,
    "drop": drop.drop,
    "undrop": drop.undrop,
    "rename": drop.rename,
    "history": drop.history,
    "recover": drop.recover,
    "clone": clone.clone,
    "sweep": sweep.sweep,
    "query": query.query,
    "sql": statement.sql,
    "restore": restore.restore,
}
"""In the order in which `meltline --help` lists them."""

GROUPS: Mapping[str, tuple[str, Mapping[str, Command]]] = {
    "plan": (
        "Plan what would go: nothing is changed.",
        {
            "expire": lifecycle.plan_expire,
            "purge": lifecycle.plan_purge_command,
            "handoff": cold.plan_handoff,
        },
    ),
    "show": (
        "Show what is stored.",
        {"plan": inspect.show_plan},
    ),
    "policy": (
        "How long the past lives.",
        {"set": policy.policy_set, "unset": policy.policy_unset, "show": policy.policy_show},
    ),
    "hold": (
        "Hold things back from departing.",
        {"add": hold.hold_add, "remove": hold.hold_remove, "list": hold.hold_list},
    ),
    "share": (
        "Have others read a pinned state.",
        {
            "create": share.share_create,
            "update": share.share_update,
            "drop": share.share_drop,
            "list": share.share_list,
        },
    ),
    "lease": (
        "Keep what somebody is reading.",
        {
            "acquire": lease.lease_acquire,
            "renew": lease.lease_renew,
            "release": lease.lease_release,
            "list": lease.lease_list,
        },
    ),
    "cold": (
        "What of history is in the archive.",
        {
            "status": cold.status,
            "list": cold.list_copies,
            "verify": cold.verify,
            "prune": cold_prune.prune,
            "deepen": cold_prune.deepen,
        },
    ),
    "consumer": (
        "Keep what a reader has still to read.",
        {
            "set": consumer.consumer_set,
            "remove": consumer.consumer_remove,
            "list": consumer.consumer_list,
        },
    ),
    "clock": (
        "Settle what a wrong clock has left.",
        {"disown": clock.clock_disown},
    ),
}
"""Commands of two words: what the first one is for, and the second ones."""

app = typer.Typer(
    name="meltline",
    help="Decides what melts, and when: the storage lifecycle of Apache Iceberg tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for name, command in COMMANDS.items():
    app.command(name)(command)
for name, (purpose, commands) in GROUPS.items():
    group = typer.Typer(help=purpose, no_args_is_help=True)
    for second, command in commands.items():
        group.command(second)(command)
    app.add_typer(group, name=name)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and exits with its code: 0 done, 1 failed, 2 usage, 3 refused, 4 skipped."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(run(words))


def run(words: Sequence[str]) -> int:
    """Runs a command and returns its exit code; every error is printed here, once."""
    as_json = "--json" in words
    try:
        words = spelt_out(words)
        as_json = "--json" in words
        code = app(words, standalone_mode=False, prog_name="meltline")
        return code if isinstance(code, int) else 0
    except MeltlineError as error:
        print_error(error, as_json=as_json)
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
    except Exception as unforeseen:
        if os.environ.get("MELTLINE_DEBUG"):
            raise
        print_error(_unforeseen(unforeseen), as_json=as_json)
        return 1


def _unforeseen(error: Exception) -> MeltlineError:
    first = (str(error).splitlines() or [""])[0]
    return MeltlineError(
        "something went wrong that Meltline did not foresee; nothing more was done",
        object=type(error).__name__,
        found=first[:500],
        next="run again: every step is safe to repeat; MELTLINE_DEBUG=1 shows the whole trace",
    )


if __name__ == "__main__":
    main()
