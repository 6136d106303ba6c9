"""`python -m benchmarks NAME`: builds the data, runs both sides, prints the figures."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.chunks import run_chunks
from benchmarks.commits import Committer
from benchmarks.days import (
    run_base_growth,
    run_days,
    run_single_entry_blocks,
    run_small_commits,
    warm_up,
)
from benchmarks.ends.departures import run_departures
from benchmarks.ends.growth import run_both_sizes
from benchmarks.ends.live import run_live
from benchmarks.ends.snapshots import run_snapshots
from benchmarks.ends.tables import run_tables
from benchmarks.engine import SETTINGS, start_session
from benchmarks.fleet import run_fleet
from benchmarks.fleet_rest import run_fleet_rest
from benchmarks.handoff import run_handoff
from benchmarks.many_snapshots import run_many_snapshots
from benchmarks.past import run_past
from benchmarks.picture import draw
from benchmarks.purge import run_purge
from benchmarks.results import (
    Outcome,
    Report,
    details,
    figures_table,
    merged,
    read_report,
    report_of,
)
from benchmarks.rollups import run_rollups
from benchmarks.sweep import run_sweep
from benchmarks.whole_process import run_whole_process
from meltline.jars.jar_paths import java_options


@dataclass(frozen=True)
class Benchmark:
    """What to run, and in what session.

    Attributes:
        run: The benchmark.
        memory: Spark's driver memory, if none is asked for.
        java_options: The same.
        warm: Whether both sides run once before, on a small table.
    """

    run: Callable[[Bench], list[Outcome]]
    memory: str = "4g"
    java_options: str = ""
    warm: bool = True


BENCHMARKS: Mapping[str, Benchmark] = {
    "first-day": Benchmark(lambda bench: run_days(bench, next_too=False)),
    "next-day": Benchmark(run_days),
    "small-commits": Benchmark(run_small_commits),
    "single-entry-blocks": Benchmark(run_single_entry_blocks),
    "base-growth": Benchmark(run_base_growth),
    "fleet": Benchmark(run_fleet),
    "fleet-rest": Benchmark(run_fleet_rest),
    # Memory is what counts here: Meltline's own options, and nothing before it. Of the 3 GiB only
    # stock Iceberg needs much, when it reads the data in the end.
    "many-snapshots": Benchmark(run_many_snapshots, "3g", java_options(), warm=False),
    "sweep": Benchmark(run_sweep),
    "purge": Benchmark(run_purge, warm=False),
    "past": Benchmark(run_past, warm=False),
    "handoff": Benchmark(run_handoff, warm=False),
    "chunks": Benchmark(run_chunks, warm=False),
    "rollups": Benchmark(run_rollups, warm=False),
    "whole-process": Benchmark(run_whole_process, warm=False),
}
ENDS: Mapping[str, Benchmark] = {
    "ends-live": Benchmark(run_live, warm=False),
    "ends-tables": Benchmark(run_tables, warm=False),
    "ends-snapshots": Benchmark(run_snapshots, warm=False),
    "ends-departures": Benchmark(run_departures, warm=False),
}
"""What is run at two sizes, each in a process of its own."""
_EACH = {
    "all": [name for name in BENCHMARKS if name != "first-day"],  # next-day runs the first day too
    "ends": list(ENDS),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=[*BENCHMARKS, *ENDS, *_EACH])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--days", type=int, default=2, help="how many next days to run")
    parser.add_argument(
        "--columns", type=int, default=12, help="of the tables; 1 for files without statistics"
    )
    parser.add_argument(
        "--once", action="store_true", help="an end at this size alone, not at a quarter of it too"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the ratios, as SVG")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="build below DIR")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="build below DIR, and leave it there"
    )
    parser.add_argument("--memory", help="Spark's driver memory")
    parser.add_argument("--java-options", help="for the one JVM of both sides")
    parser.add_argument("--verbose", action="store_true", help="tell each step")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Runs what was asked for; 1 when a side deleted other files than the procedure."""
    asked = _parser().parse_args(arguments)
    others = [argument for argument in arguments if argument != asked.name]
    if asked.name in _EACH:
        report = _each_alone(_EACH[asked.name], others)
    elif asked.name in ENDS and not asked.once:
        report = run_both_sizes(asked.name, asked.scale, others)
    else:
        report = _run(asked)
    print(figures_table(report.figures))
    if asked.name not in _EACH:
        print(details(report))
    if asked.json:
        asked.json.write_text(report.as_json(), encoding="utf-8")
    if asked.picture:
        asked.picture.write_text(draw(report.figures), encoding="utf-8")
    return int(report.differs)


def _run(asked: argparse.Namespace) -> Report:
    benchmark = {**BENCHMARKS, **ENDS}[asked.name]
    memory = asked.memory or benchmark.memory
    options = benchmark.java_options if asked.java_options is None else asked.java_options
    parent = asked.keep or asked.folder
    if parent:
        parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="meltline-bench-", dir=parent)).absolute()
    try:
        spark = start_session(folder, memory, options)
        bench = Bench(
            folder, spark, Committer(spark), asked.scale, asked.days, asked.columns,
            verbose=asked.verbose, keep=asked.keep is not None,
        )  # fmt: skip
        if benchmark.warm:
            bench.say("warming up both sides")
            warm_up(bench)
        outcomes = benchmark.run(bench)
        spark.stop()
    finally:
        if asked.keep:
            print(f"left in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return report_of(
        outcomes,
        {**SETTINGS, "memory": memory, "java options": options, "columns": str(asked.columns)},
    )


def _each_alone(names: Sequence[str], arguments: Sequence[str]) -> Report:
    """Each benchmark in a process of its own: memory is measured, and must not be another's."""
    with tempfile.TemporaryDirectory(prefix="meltline-bench-") as folder:
        reports = []
        for name in names:
            target = Path(folder, f"{name}.json")
            # What is given last wins, so that only the whole is written where it was asked for.
            command = [sys.executable, "-m", "benchmarks", *arguments, name, "--json", str(target)]
            status = subprocess.run([*command, "--picture", f"{target}.svg"], check=False)
            if not target.exists():
                raise SystemExit(f"{name} failed with status {status.returncode}")
            reports.append(read_report(target))
        return merged(reports)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
