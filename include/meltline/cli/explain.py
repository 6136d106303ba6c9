"""The explain command: why files and snapshots are kept, without a JVM.

`commands` loads it by name.
"""

from collections.abc import Sequence
from typing import Annotated

import typer

from meltline.app.catalog.resolve import parse_table_name
from meltline.app.chunks.reading.explained import file_sentences, table_sentences
from meltline.app.services import ReadContext
from meltline.app.storage.explain import Explanation, explain_path, explain_table
from meltline.cli.options import AsJson, ConfigPath, ready
from meltline.cli.output import console, print_json, print_notes, print_rows, shown_instant
from meltline.domain.deletion.storage import Stage
from meltline.domain.iceberg.names import split_snapshot
from meltline.domain.json_values import plain

_SHOWN = 3


def explain(
    subject: Annotated[str, typer.Argument(metavar="PATH | TABLE | TABLE@SNAPSHOT")],
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Explain why a file, a snapshot, or a table's snapshots are kept, and until when."""
    context = ready(config)
    answer = _explain(context, subject)
    chunks = _chunks(context, subject, answer)
    if as_json:
        document = plain(answer) if isinstance(answer, Explanation) else {"snapshots": answer}
        print_json(document | ({"chunks": chunks} if chunks else {}))
    else:
        _print(answer if isinstance(answer, list) else [answer])
        print_notes([f"{sentence}." for sentence in chunks])
    return 0


def _chunks(
    context: ReadContext, subject: str, answer: Explanation | list[Explanation]
) -> list[str]:
    """Explains the chunks of a table, or the chunk of a file."""
    if isinstance(answer, list):
        return table_sentences(context, parse_table_name(subject))
    if "/" not in subject or answer.stage != Stage.ACTIVE:
        return []
    tables = {split_snapshot(name)[0] for name in answer.referenced_by if "@" in name}
    return file_sentences(context, answer.path, tables)


def _print(explanations: list[Explanation]) -> None:
    rows = [
        [
            e.path,
            e.stage,
            ", ".join(e.keep_reasons) or "-",
            _named(e.referenced_by),
            shown_instant(e.since),
            shown_instant(e.due_at),
        ]
        for e in explanations
    ]
    print_rows("", ("path", "stage", "kept because", "named by", "since", "until"), rows)
    for line in dict.fromkeys(line for e in explanations for line in e.writers):
        console().print(f"writer: {line}")
    print_notes([decision.sentence for e in explanations for decision in e.decisions])
    print_notes(sorted({guard for e in explanations for guard in e.guards}))
    for sentence in sorted({s for e in explanations for s in e.consumers}):
        console().print(f"{sentence}.", markup=False)


def _named(names: Sequence[str]) -> str:
    """Formats the first names and the number of others; `--json` has all."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more or "-"


def _explain(context: ReadContext, subject: str) -> Explanation | list[Explanation]:
    if "/" in subject:
        return explain_path(context, subject)
    table, snapshot_id = split_snapshot(subject)
    explanations = explain_table(context, parse_table_name(table), snapshot_id)
    return explanations if snapshot_id is None else explanations[0]
