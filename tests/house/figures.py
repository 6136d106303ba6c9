"""What is measured of files, functions and names, each with the places behind it, worst first."""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import ceil
from typing import NamedTuple

from tests.house.sources import Function, House, Source

FLAT = {
    "migrations/versions": "Alembic reads its revisions from one flat folder",
    "benchmarks": "one file per measurement, chosen by its name and imported by no other",
}
"""Folders that may hold any number of files, and why."""

EMPTY = re.compile(
    r"found|one|some|said|told|asked|gone|odd|wanted|known|taken|kept|left|made|begun|moved|named"
    r"|rest|other|others|both|what|it|there|here|item|data|value|result|entry|thing|obj|tmp",
    re.IGNORECASE,
)
"""Names that tell neither type nor role of what they are bound to; of constants and types too."""

BAG = re.compile(r"\b(Ledgers|Services|ReadContext|RunContext)\b")
"""What holds every port at once: a function that takes one does not say what it reads."""

BRANCHES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert)

Size = tuple[float, str]
"""How much of something, and where."""


class Figure(NamedTuple):
    """A number, and the places behind it."""

    value: float
    places: list[str]


def places(sizes: Iterable[Size]) -> list[str]:
    """The largest first; those of no size are left away."""
    ranked = sorted(sizes, key=lambda size: (-size[0], size[1]))
    return [f"{size:g} {place}" for size, place in ranked if size]


def largest(sizes: list[Size]) -> Figure:
    return Figure(max((size for size, _ in sizes), default=0), places(sizes))


def percent(part: float, whole: float) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


def ninetieth(sizes: Iterable[float]) -> float:
    """The smallest size that nine of ten do not exceed."""
    ranked = sorted(sizes)
    return ranked[ceil(0.9 * len(ranked)) - 1] if ranked else 0


def folders(house: House) -> Figure:
    """Python files that stand directly in one folder."""
    counts = Counter(source.path.parent for source in house.sources)
    judged = [folder for folder in counts if not any(map(folder.match, FLAT))]
    return largest([(counts[folder], str(folder)) for folder in judged])


def file_lengths(house: House, tests: bool = False) -> Figure:
    """Lines of files, either of tests or of all else."""
    sources = [each for each in house.sources if (each.path.parts[0] == "tests") is tests]
    return largest([(source.length, str(source.path)) for source in sources])


def by_function(house: House, measure: Callable[[Function], float]) -> list[Size]:
    return [
        (measure(node), f"{source.path}:{node.lineno} {node.name}")
        for source in house.package
        for node in source.nodes
        if isinstance(node, Function)
    ]


def lines(function: Function) -> int:
    """From `def` to its last line, the docstring included."""
    return (function.end_lineno or 0) - function.lineno + 1


def function_lengths(house: House) -> Figure:
    """What nine of ten functions do not exceed."""
    sizes = by_function(house, lines)
    return Figure(ninetieth(size for size, _ in sizes), places(sizes))


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in a function, without what stands in functions and classes within it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, Function | ast.ClassDef):
            yield from own_nodes(child)


def complexity(function: Function) -> int:
    """Its cyclomatic complexity as radon counts it.

    Ruff's C901 passes over boolean operators and comprehensions, in which this code has most of
    its branches: by it four functions of three thousand are above ten, and a limit of two percent
    would hold whatever anybody wrote.
    """
    count = 1
    for node in own_nodes(function):
        count += isinstance(node, (*BRANCHES, ast.match_case))
        count += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        count += 1 + len(node.ifs) if isinstance(node, ast.comprehension) else 0
    return count


def complex_functions(house: House) -> Figure:
    """Percent of functions whose complexity is above ten."""
    sizes = by_function(house, complexity)
    above = [size for size in sizes if size[0] > 10]
    return Figure(percent(len(above), len(sizes)), places(above))


def unformatted(house: House) -> Figure:
    """How often the formatter is told to look away."""
    mark = re.compile(r"fmt:\s*(skip|off)")
    sizes = [
        (len(list(filter(mark.search, source.comments))), str(source.path))
        for source in house.package
    ]
    return Figure(sum(size for size, _ in sizes), places(sizes))


def bindings(source: Source) -> Iterator[str]:
    """Each name that a file gives: variables, parameters, functions, classes; no imports."""
    for node in source.nodes:
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ) if name not in ("self", "cls"):
                yield name.strip("_")


def empty_names(house: House) -> Figure:
    """Percent of bindings whose name says nothing."""
    total, sizes = 0, []
    for source in house.package:
        names = list(bindings(source))
        empty = Counter(filter(EMPTY.fullmatch, names))
        total += len(names)
        commonest = ", ".join(name for name, _ in empty.most_common(4))
        sizes.append((empty.total(), f"{source.path}: {commonest}"))
    return Figure(percent(sum(size for size, _ in sizes), total), places(sizes))


def takes_bag(function: Function) -> bool:
    """Whether a parameter of it holds every port."""
    parameters = [node for node in ast.walk(function.args) if isinstance(node, ast.arg)]
    types = [ast.unparse(each.annotation) for each in parameters if each.annotation]
    return any(map(BAG.search, types))


def bag_takers(house: House) -> Figure:
    """Percent of functions that take a bag of every port."""
    sizes = by_function(house, takes_bag)
    return Figure(percent(sum(size for size, _ in sizes), len(sizes)), places(sizes))
