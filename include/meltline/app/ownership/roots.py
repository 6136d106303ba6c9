"""Finds tables and files outside the roots, and proposes the configuration that includes them.

Doctor and `init` show the proposals; purges and foreign-owner checks select files here.
"""

from collections.abc import Iterable, Sequence

from meltline.app.catalog.metadata import load_states
from meltline.app.catalog.tables import is_ledger
from meltline.app.ownership.confinement import Confinement
from meltline.app.safety.findings import Finding
from meltline.app.services import ReadContext
from meltline.domain.deletion.withheld import Why, Withheld
from meltline.domain.iceberg.locations import OwnerIndex, claim_prefix
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.units import format_size

_SHOWN = 5


def places_outside(roots: Confinement, states: Iterable[TableMetadata]) -> tuple[str, ...]:
    """Returns locations of tables outside every root, without those inside another one."""
    claims = {claim_prefix(place) for state in states for place in state.owned_locations}
    outside = sorted(claim for claim in claims if not roots.covers(f"{claim}-"))
    return tuple(
        claim.rstrip("/")
        for claim in outside
        if not any(claim != outer and claim.startswith(outer) for outer in outside)
    )


def outside_tables(
    owners: OwnerIndex, storage_roots: Iterable[str], paths: Iterable[str]
) -> list[str]:
    """Selects files that are neither in a table's folder nor in a storage root.

    A commit referenced them, but another writer may have written them and need them: `add_files`
    references files where they are. Only the configuration can permit their deletion.
    """
    given = tuple(map(claim_prefix, storage_roots))
    return [
        path
        for path in paths
        if not owners.owners(path) and not claim_prefix(path).startswith(given)
    ]


def outside_tables_now(context: ReadContext, paths: Iterable[str]) -> list[str]:
    """Does the same as `outside_tables`, by all locations of tables in the ledger."""
    owners = OwnerIndex(context.control.registrations.ownerships())
    return outside_tables(owners, context.config.storage_roots, paths)


def gone_outside_tables(context: ReadContext, paths: Iterable[str]) -> set[str]:
    """Selects those of `outside_tables_now` that are gone; a store error is not a proof."""
    strays = outside_tables_now(context, paths)
    stats = context.store.stats(strays) if strays else ()
    return {stat.path for stat in stats if stat.file is None and not stat.error}


def proposed_roots(context: ReadContext) -> tuple[str, ...]:
    """Returns locations of readable tables in the hot catalog that are outside the roots."""
    listing = context.catalogs[context.config.hot].listing()
    entries = [pointer for pointer in listing.entries if not is_ledger(context, pointer.name)]
    loaded = load_states(context.store, entries).values()
    roots = Confinement(context.config.roots, context.resolver)
    return places_outside(roots, [state for state in loaded if isinstance(state, TableMetadata)])


def as_yaml(places: Sequence[str]) -> str:
    """Returns the lines of the configuration that declare locations as roots."""
    return "\n".join(["storage-roots:", *(f"  - {place}" for place in places)])


def withheld_findings(context: ReadContext, managed: Sequence[TableMetadata]) -> list[Finding]:
    """Returns findings of `doctor` about unreferenced files that are kept."""
    withheld = context.control.places.withheld()
    outside = [row for row in withheld if row.why is Why.OUTSIDE]
    roots = Confinement(context.config.roots, context.resolver)
    places = {*places_outside(roots, managed), *(row.place.rstrip("/") for row in outside)}
    findings = [_outside(sorted(places), outside)] if places else []
    by_fix: dict[tuple[Why, str], list[Withheld]] = {}
    for row in withheld:
        if row.why not in (Why.OUTSIDE, Why.FOREIGN):  # `foreign_findings` reports the latter
            by_fix.setdefault((row.why, row.fix), []).append(row)
    return findings + [_about(why, fix, rows) for (why, fix), rows in sorted(by_fix.items())]


def _outside(places: Sequence[str], rows: Sequence[Withheld]) -> Finding:
    text = f"{len(places)} places of tables lie outside every root: nothing there is deleted"
    held = f"; {_amount(rows)}, that nothing refers to are kept" if rows else ""
    fix = f"if they are yours to delete from, add to the configuration:\n{as_yaml(places)}"
    return Finding("warning", "outside_roots", "storage-roots", text + held, fix)


def _amount(rows: Sequence[Withheld]) -> str:
    size = format_size(sum(row.bytes for row in rows))
    return f"{sum(row.files for row in rows)} files, {size}"


def _about(why: Why, fix: str, rows: Sequence[Withheld]) -> Finding:
    code = why.replace(" ", "_")
    tables = sorted({row.table for row in rows})
    more = f" and {len(tables) - _SHOWN} more" if len(tables) > _SHOWN else ""
    text = f"{_amount(rows)}, are kept: {why}"
    message = rows[0].notice if len(rows) == 1 else f"{text}, in {rows[0].place} and elsewhere"
    return Finding("warning", code, ", ".join(tables[:_SHOWN]) + more, message, fix)
