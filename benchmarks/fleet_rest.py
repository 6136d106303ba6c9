"""The benchmark fleet-rest: the fleet behind Iceberg's own REST server, beside the same over SQL.

The server has the twin's own SQLite catalog, so the protocol is all that differs. It needs the
server's jars: MELTLINE_FEATURES=test,s3,stacks.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

from benchmarks.bench import Bench
from benchmarks.fleet import Fleet, build
from benchmarks.lakes import Lake
from benchmarks.results import Figure, Outcome, seconds_of
from benchmarks.sides import BARE, PROCEDURE, Run, run_meltline, run_procedure
from meltline.app.safety.server_probe import SECOND_CHECK_AFTER, probe_catalog
from meltline.domain.clock import FixedClock

_ROWS_OF = "rest_backend"
"""The catalog's name that the server looks for in its rows."""
_OVER_REST = {PROCEDURE: "procedure over REST", BARE: "meltline over REST"}
_SIDES = (PROCEDURE, BARE, *_OVER_REST.values())


def run_fleet_rest(bench: Bench) -> list[Outcome]:
    """One first run over all tables, by each of both ways and each of both sides."""
    fleet = Fleet.of(bench.scale)
    with ExitStack() as servers:

        def serve(side: str, twin: Lake) -> None:
            if side in _OVER_REST.values():
                _serve(servers, twin)

        lakes = bench.twins(build(bench, fleet), None, _SIDES, serve)
        for side in _OVER_REST.values():
            with lakes[side].in_place():
                _probe(lakes[side])
        runs, compared = bench.run_sides(
            lakes, lambda side, lake: _run(bench, fleet, side, lake), "fleet, REST", _SIDES
        )
        bench.remove(lakes)
    return [
        Outcome(
            "fleet over REST, first run", bench.scale, fleet.size, _figures(runs), tuple(runs),
            tuple(compared), notes=("below 1x is slower; over REST each edit is one request",),
        )
    ]  # fmt: skip


def _serve(servers: ExitStack, twin: Lake) -> None:
    from tests.stacks.rest.iceberg_server import (
        iceberg_server,
    )

    settings = {"CATALOG_URI": f"jdbc:sqlite:{twin.db}"}
    server = servers.enter_context(iceberg_server(twin.root, f"file://{twin.place}", settings))
    twin.serve(server.uri, _ROWS_OF)


def _probe(lake: Lake) -> None:
    context = lake.wiring(lambda line: None).ledgers()
    assert not probe_catalog(context, lake.name).verdict.reason
    later = replace(context, clock=FixedClock(context.clock.now() + SECOND_CHECK_AFTER))
    probed = probe_catalog(later, lake.name)
    assert not probed.verdict.reason and not probed.waits_until, probed.sentence


def _run(bench: Bench, fleet: Fleet, side: str, lake: Lake) -> Run:
    as_of = fleet.past.as_of
    if side in (PROCEDURE, _OVER_REST[PROCEDURE]):
        run = run_procedure(lake, fleet.keep, as_of)
    else:
        run = run_meltline(lake, fleet.keep, as_of, gates=False, say=bench.detail)
    return replace(run, side=side)


def _figures(runs: list[Run]) -> tuple[Figure, ...]:
    """How much each costs over REST, and how the two sides stand there."""
    seconds: Mapping[str, float] = {side: seconds_of(runs, side) for side in _SIDES}
    over_rest = {side: seconds[name] for side, name in _OVER_REST.items()}
    return (
        Figure(
            "fleet, meltline beside procedure, both over REST",
            over_rest[PROCEDURE] / over_rest[BARE],
        ),
        *(
            Figure(f"fleet, {side}, SQL beside REST", seconds[side] / over_rest[side])
            for side in _OVER_REST
        ),
    )
