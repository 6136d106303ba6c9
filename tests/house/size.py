"""Size of the package in syntax nodes, density of its lines, imports, and shapes that repeat."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from tests.house.figures import Figure, percent, places
from tests.house.sources import Function, House, Source


def syntax_nodes(house: House) -> Figure:
    """Syntax nodes of the package.

    Packing statements into fewer lines does not change the figure, and unpacking hardly does.
    """
    sizes = [(len(source.nodes), str(source.path)) for source in house.package]
    return Figure(sum(size for size, _ in sizes), places(sizes))


def density(house: House) -> Figure:
    """Median over functions: syntax nodes of the body for each of its lines."""
    sizes = [size for source in house.package for size in _densities(source)]
    value = round(median(size for size, _ in sizes), 1) if sizes else 0.0
    return Figure(value, places(sizes))


def _densities(source: Source) -> Iterator[tuple[float, str]]:
    for node in source.nodes:
        if not isinstance(node, Function):
            continue
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        if body:
            lines = (node.end_lineno or 0) - body[0].lineno + 1
            nodes = sum(1 for statement in body for _ in ast.walk(statement))
            yield round(nodes / lines, 1), f"{source.path}:{node.lineno} {node.name}"


def imports(house: House) -> Figure:
    """Percent of statements that import."""
    statements, sizes = 0, []
    for source in house.package:
        own = [node for node in source.nodes if isinstance(node, ast.stmt)]
        statements += len(own)
        importing = sum(isinstance(node, ast.Import | ast.ImportFrom) for node in own)
        sizes.append((importing, str(source.path)))
    return Figure(percent(sum(size for size, _ in sizes), statements), places(sizes))


def repeated_classes(house: House) -> Figure:
    """Names that two or more classes have."""
    homes = defaultdict(list)
    for source in house.package:
        for node in source.nodes:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(source.module)
    repeated = {name: modules for name, modules in homes.items() if len(modules) > 1}
    return Figure(
        len(repeated), [f"{name}: {', '.join(found)}" for name, found in sorted(repeated.items())]
    )


def lone_neighbours(house: House) -> Figure:
    """Modules that one module alone imports, which is in the same folder."""
    modules = {source.module for source in house.package}
    importers = defaultdict(set)
    for source in house.package:
        for _, full in source.imports:
            for target in {full, full.rpartition(".")[0]} & modules - {source.module}:
                importers[target].add(source.module)
    plain = [s.module for s in house.package if s.path.name != "__init__.py"]
    pairs = {module: importers[module] for module in plain if len(importers[module]) == 1}
    lone = [(module, *importer) for module, importer in pairs.items()]
    near = [(m, by) for m, by in lone if m.rpartition(".")[0] == by.rpartition(".")[0]]
    return Figure(len(near), [f"{module} <- {by}" for module, by in sorted(near)])
