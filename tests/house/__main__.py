"""Measures the house and holds it to its limits (docs/decisions/032-the-house.md).

    python -m tests.house [PLACES]

Prints each figure with as many of the places behind it, worst first, and five at least of one that
is worse than it may be. Where there is such a one, exits 1.
"""

import ast
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from tests.house import english, figures, reach, size, structure
from tests.house.figures import Figure
from tests.house.sources import House, read


@dataclass(frozen=True)
class Rule:
    """What a figure may be. The ratchet stands where the limit does not hold yet: lower it with
    the figure, and take it away once the limit holds."""

    name: str
    measure: Callable[[House], Figure]
    limit: float
    ratchet: float | None = None

    @property
    def bound(self) -> float:
        return self.limit if self.ratchet is None else self.ratchet

    def verdict(self, value: float) -> str:
        if value > self.bound:
            return "WORSE THAN IT MAY BE"
        if value > self.limit:
            return "above its limit, no worse than it was"
        return "holds" if self.ratchet is None else "holds: its ratchet can go"


RULES = (
    Rule("Python files in one folder", figures.folders, 15),
    Rule("lines of a file", figures.file_lengths, 600),
    Rule("lines of a file of tests", partial(figures.file_lengths, tests=True), 500),
    Rule("lines of a function, p90", figures.function_lengths, 21),
    # Fewer than 2 and 1 percent: these are rounded to one decimal.
    Rule("% of functions with a complexity above 10", figures.complex_functions, 1.9),
    Rule("% of functions that take a bag of every port", figures.bag_takers, 10),
    Rule("% of names that say nothing", figures.empty_names, 0.9),
    Rule("fmt: skip", figures.unformatted, 0),
    Rule("rooms of one layer in a circle of imports", structure.circles, 0),
    Rule("methods of a protocol", partial(structure.methods, protocols=True), 8),
    Rule("what a gate reaches that does not only read", reach.dangers, 0),
    Rule("methods of a class", partial(structure.methods, protocols=False), 25),
    Rule("syntax nodes of the package", size.syntax_nodes, 560_000, 600_000),
    Rule("syntax nodes for each line of a function, median", size.density, 9.5, 12.0),
    Rule("% of statements that import", size.imports, 12, 12.7),
    Rule("class names that are used twice", size.repeated_classes, 10),
    Rule("modules with one importer, next door", size.lone_neighbours, 60),
)


def held(house: House, rules: Iterable[Rule], most: int) -> bool:
    """Prints each figure with its places; whether none is worse than it may be."""
    good = True
    for rule in rules:
        value, places = rule.measure(house)
        good &= value <= rule.bound
        bounds = f"limit {rule.limit:g}" + ("" if rule.ratchet is None else f", now {rule.bound:g}")
        print(f"{value:>6g}  {rule.name} ({bounds}): {rule.verdict(value)}")
        shown = most if value <= rule.bound else max(most, 5)
        print("".join(f"            {place}\n" for place in places[:shown]), end="")
    return good


def portrait(house: House) -> str:
    """The figures of the package that have no limit."""
    statements = [
        node for each in house.package for node in each.nodes if isinstance(node, ast.stmt)
    ]
    files = [source.length for source in house.package if source.path.name != "__init__.py"]
    functions = [size for size, _ in figures.by_function(house, figures.lines)]
    long = figures.percent(sum(size > 50 for size in functions), len(functions))
    comments = sum(len(source.comments) for source in house.package)
    lines = sum(source.length for source in house.package)
    p90 = figures.ninetieth
    return f"""
{len(statements):>6}  statements of the package
        files: median {median(files):g}, p90 {p90(files)}, longest {max(files)}
        functions: median {median(functions):g}, p90 {p90(functions)}, over 50 {long} %
{100 * comments / lines:>6.1f}  comments per 100 lines"""


def main(words: list[str]) -> int:
    """Returns the exit code."""
    root = Path(__file__).parents[2]
    house = read(root)
    good = held(house, RULES, int(words[0]) if words else 3)
    units = english.all_units(root, house)
    good &= english.held(units, english.stored())
    print(english.totals(units))
    print(portrait(house))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
