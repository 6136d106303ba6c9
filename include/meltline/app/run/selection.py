"""What a run was asked for and cannot find: a slip of the pen that deletes nothing for months."""

from collections.abc import Iterable, Iterator

from meltline.app.observe.observe import Observation
from meltline.domain.iceberg.names import TableName, selected, unmatched
from meltline.domain.iceberg.similar_names import similar


def selection_notes(observation: Observation, globs: tuple[str, ...]) -> Iterator[str]:
    """Globs that no table matches, and that nothing of what they match is managed."""
    managed = {t.state.name: t.managed or bool(t.owner_guard) for t in observation.tables}
    unread = dict.fromkeys(observation.skipped, True)  # it may be managed, and is named by itself
    names = {**managed, **unread}
    for glob in unmatched(globs, names):
        yield f"no table matches {glob}{_meant(glob, names)}"
    matching = [name for name in names if selected(name, globs)]
    if any(names[name] for name in matching):
        return
    if matching:
        yield (
            f"none of the {len(matching)} tables that the run is asked for is managed "
            f"({matching[0]} for one): nothing of them is touched"
        )
    elif not globs and not observation.names:  # nor have they ever had one
        yield "the catalogs have no table at all: there is nothing to do"


def guard_notices(observation: Observation, globs: tuple[str, ...]) -> Iterator[str]:
    """That the owners of some tables forbid deletions: a wish of theirs, and no failure."""
    tables = [t for t in observation.tables if t.owner_guard and selected(t.state.name, globs)]
    if tables:
        first = f"{tables[0].state.name} by {tables[0].owner_guard}=false for one"
        yield (
            f"{len(tables)} tables are only observed, as their owners forbid deletions "
            f"({first}): `meltline doctor` names them"
        )


def detached_notices(observation: Observation, globs: tuple[str, ...]) -> Iterator[str]:
    """Tables that cannot be managed and that a person has detached: information, no failure."""
    for name, reason in sorted(observation.detached.items()):
        if selected(name, globs):
            error = observation.skipped[name]
            yield f"{name} is detached ({reason}): {error.message} ({error.found})"


def _meant(glob: str, names: Iterable[TableName]) -> str:
    alike = similar(glob.replace("*", ""), names)
    return f"; did you mean {' or '.join(map(str, alike))}?" if alike else ""
