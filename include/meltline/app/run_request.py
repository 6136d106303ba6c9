"""Options of a run, declared once: commands, forms and command lines are derived from them.

The CLI, the DAGs' forms and the steps share `RunRequest`. An option is a field of it, with its help
text and its notation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from meltline.domain.chunks.sync import Deletes
from meltline.domain.deletion.limits import MOST_PARALLEL
from meltline.domain.deletion.orphans import Inventory
from meltline.domain.errors import UsageInvalid
from meltline.domain.units import (
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)


def globs(text: str) -> tuple[str, ...]:
    """Parses globs that are separated by commas."""
    return tuple(glob.strip() for glob in text.split(",") if glob.strip())


@dataclass(frozen=True)
class Notation:
    """Syntax of the values of one type.

    Attributes:
        noun: The noun of a parse error, such as `an instant`.
        example: The expected syntax, for that error.
        parse: Parses a text that is not empty; raises ValueError.
        spell: Formats a value so that `parse` can read it.
        blank: The value of an empty field in a form.
        schema: JSON schema of such a field.
    """

    noun: str = "a text"
    example: str = ""
    parse: Callable[[str], Any] = str
    spell: Callable[[Any], str] = str
    blank: str | bool | None = None
    schema: Mapping[str, Any] = field(
        # Airflow's form treats an empty text as missing, unless it may be null.
        default_factory=lambda: {"type": ["null", "string"], "pattern": r"^[^\r\n]*$"}
    )

    def read(self, text: str, name: str) -> Any:
        """Parses a value.

        Args:
            text: The text that the user wrote.
            name: The name of the option, for the error.

        Raises:
            UsageInvalid: The text is not a valid value.
        """
        try:
            return self.parse(text)
        except ValueError as error:
            raise UsageInvalid(
                f"{name} is not {self.noun}",
                object=name,
                expected=self.example,
                found=text,
                next=str(error),
            ) from error


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST_PARALLEL):
        raise ValueError(f"{text!r} is none")
    return int(text)


TEXT = Notation()
GLOBS = Notation("globs", parse=globs, spell=", ".join)
FLAG = Notation("a switch", parse=bool, blank=False, schema={"type": "boolean"})
PATH = Notation("a path", parse=Inventory, spell=lambda inventory: inventory.source)
DURATION = Notation(
    "a duration",
    "a whole number and s, m, h or d, such as 1h",
    parse_duration,
    format_duration,
    schema={"type": ["null", "string"], "pattern": r"^(\d+(d|h|m|s))?$"},
)
COUNT = Notation(
    "a number of requests",
    f"a whole number from 1 to {MOST_PARALLEL}",
    _count,
    blank=None,
    schema={"type": ["null", "integer"], "minimum": 1, "maximum": MOST_PARALLEL},
)
DELETES = Notation(
    "what is to become of deletes",
    " or ".join(Deletes),
    Deletes,
    schema={"type": ["null", "string"], "enum": [None, *map(str, Deletes)]},
)
INSTANT = Notation(
    "an instant",
    "ISO 8601 with an offset, such as 2026-11-21T00:00:00Z, or a date",
    parse_instant,
    format_instant,
    schema={
        "type": ["null", "string"],
        "format": "date-time",
        # Airflow checks the format date-time only if another package is installed.
        "pattern": r"^\d{4}-(0\d|1[0-2])-[0-3]\dT[0-2]\d:[0-5]\d(:[0-5]\d(\.\d+)?)?"
        r"(Z|[+-]\d\d:\d\d)$",
    },
)


@dataclass(frozen=True)
class Option:
    """One option of a run.

    Attributes:
        help: A description in one line.
        form: The description in a form, in Markdown, if it differs.
        private: Whether other users of the machine must not read it.
        name: Its name in a form and in the code; on a command line, with dashes.
        default: Its value if it is left out.
    """

    help: str
    notation: Notation = TEXT
    form: str = ""
    private: bool = False
    name: str = ""
    default: Any = None

    @property
    def flag(self) -> str:
        """Its name on a command line."""
        return f"--{self.name.replace('_', '-')}"

    def word(self, setting: Any) -> str:
        """Its argument on a command line."""
        return self.flag if setting is True else f"{self.flag}={self.notation.spell(setting)}"


def _option(help: str, notation: Notation = TEXT, **more: Any) -> Mapping[str, Option]:
    return {"option": Option(help, notation, **more)}


@dataclass(frozen=True)
class RunRequest:
    """Options of a run, each with its declaration.

    Attributes:
        as_of: The logical date, already resolved against the wall clock.
        tables: Globs; none is all.
        any_hour: Work on the stores may begin outside the quiet window too.
        parallelism: Maximum number of parallel small requests in one process; None is as
            configured.
        approve: The reason to approve purges above the limit; empty without approval.
        once: The reason to let the run destroy in a catalog that is not armed; empty without
            override.
        minimum_age: Minimum age of files that a sweep takes; None is as configured.
        inventory: A replacement for a sweep's listing of the store; None to list it.
        chunks: Names of the chunks of a forced drop.
        force: The reason to drop them without proof; empty without override.
        deletes: The operator's answer about large deletes that wait for it.
        who: The user who requested it; empty is the user who runs it.
    """

    run_id: str = field(metadata=_option("names the run its plans belong to"))
    as_of: datetime = field(
        metadata=_option(
            "the logical date: ISO 8601; now when left out",
            INSTANT,
            form="The day that decides retention, not later than now (a dry run may look ahead). "
            "Empty: the end of the run's data interval, else now.",
        )
    )
    tables: tuple[str, ...] = field(
        default=(),
        metadata=_option("globs over catalog.namespace.table, comma-separated; empty: all", GLOBS),
    )
    dry_run: bool = field(default=False, metadata=_option("preview only; change nothing", FLAG))
    any_hour: bool = field(
        default=False,
        metadata=_option("work on the stores outside `io.quiet-window` too", FLAG),
    )
    parallelism: int | None = field(
        default=None,
        metadata=_option(
            "maximum number of parallel small requests to the stores, per process; "
            "empty: `io.parallelism`",
            COUNT,
        ),
    )
    minimum_age: timedelta | None = field(
        default=None,
        metadata=_option(
            "how long ago a file must have been modified, and first seen: 3d, at least 24h; "
            "empty: `sweep.minimum-age`",
            DURATION,
        ),
    )
    inventory: Inventory | None = field(
        default=None,
        metadata=_option(
            "a Parquet file or folder with columns path, size and modified; "
            "empty: the store is listed",
            PATH,
        ),
    )
    approve: str = field(
        default="", metadata=_option("reason to allow a purge above the limit", private=True)
    )
    once: str = field(
        default="",
        metadata=_option(
            "reason for running once on a catalog that is not armed",
            form="Why this one run may expire and delete although nobody has armed the catalog "
            "(`meltline arm`). Only in a run that a person triggers. Empty: it says what it would "
            "have done.",
            private=True,
        ),
    )
    chunks: tuple[str, ...] = field(
        default=(),
        metadata=_option(
            "chunks by name, comma-separated, such as 2026-01-05: only with --force", GLOBS
        ),
    )
    force: str = field(
        default="",
        metadata=_option(
            "why these chunks may be dropped although nobody has proved them",
            form="Why the chunks named above may leave hot although nobody has proved that cold "
            "has them. Only in a run that a person triggers.",
            private=True,
        ),
    )
    deletes: Deletes | None = field(
        default=None,
        metadata=_option(
            "the answer about large deletes in hot that wait: mirror or keep",
            DELETES,
            form="What cold does about deletes in hot that are too large to be mirrored unasked: "
            "`mirror` deletes there too, `keep` leaves the rows. Only in a run that a person "
            "triggers. Empty: they wait.",
        ),
    )
    who: str = field(default="", metadata=_option("who asked for it", private=True))

    @classmethod
    def read(cls, run_id: str, as_of: datetime, written: Mapping[str, Any]) -> "RunRequest":
        """Reads the options of a command line or a form; omits empty ones.

        Args:
            run_id: The id of the run.
            as_of: Its logical date, resolved.
            written: Texts by name; names of other options are ignored.

        Raises:
            UsageInvalid: A text is not a valid value.
        """
        texts = {name: str(written.get(name) or "").strip() for name in OPTIONS}
        given = {
            name: OPTIONS[name].notation.read(text, OPTIONS[name].flag)
            for name, text in texts.items()
            if text
        }
        return cls(**{**given, "run_id": run_id, "as_of": as_of})

    def require_forcible(self) -> None:
        """Refuses a forced drop without named chunks of exactly one table.

        Raises:
            UsageInvalid: The reason or the chunks are missing, or it is not about exactly one
                table.
        """
        if bool(self.force) != bool(self.chunks):
            raise UsageInvalid(
                "a forced drop needs the chunks by name, and a reason",
                object="--force",
                expected="chunks such as 2026-01-05,2026-01-06, and a reason",
                found=f"chunks {', '.join(self.chunks) or 'none'}; reason {self.force!r}",
                next="say both: what goes may be in hot alone",
            )
        if self.force and (len(self.tables) != 1 or set("*?[") & set(self.tables[0])):
            raise UsageInvalid(
                "a forced drop is about one table",
                object="--tables",
                expected="one table by its name",
                found=", ".join(self.tables) or "none",
                next="name it; a forced drop takes no globs",
            )

    def words(self, *, private: bool = False) -> list[str]:
        """Formats the options as command-line arguments, from which `read` makes the same request.

        A value and its name are one argument, so that the value may begin with a dash.

        Args:
            private: Only options that other users of the machine may not read; otherwise all
                others.
        """
        return [
            option.word(getattr(self, name))
            for name, option in OPTIONS.items()
            if option.private is private and getattr(self, name) != option.default
        ]


OPTIONS: Mapping[str, Option] = {
    declared.name: replace(
        declared.metadata["option"], name=declared.name, default=declared.default
    )
    for declared in fields(RunRequest)
}
