"""What a package can do, told from the types that it is given: every port that they lead to.

The gate is the last guard before what cannot be undone: it judges, and others act. So whatever it
holds, or is given back by what it holds, may only read.
"""

import ast
import re
from collections.abc import Iterator

from tests.house.figures import Figure, places
from tests.house.sources import Function, House
from tests.house.structure import Classes, reach

GATES = ("meltline.app.gate", "meltline.app.chunks.gate")
"""Packages, or single modules, that collect evidence for the gates."""

READS = re.compile(
    r"active|alive|all|allowed|among|audit|count|current|departing|differences|drop_sums|differing"
    r"|distinct_bytes|find|forgotten_manifests|get|half_seen|identity|in_states|is_link|judge|known|links_among"
    r"|guards|hindrance|level|list|listing|lists|live_totals|location|measure|name|newest|now|observe_only|of|other_owners|ownerships"
    r"|paths|places|prove|reachable_sets|read|read_prefix|real_path|settled|sharing|simulated"
    r"|signs|since|size|sizes_before|stats|stream|sums|tips|tracked|unequal|unknown|vouched|waiting_in|waiting_plans|withheld"
    r"|ChunkFileReader\.change|ChunkFileReader\.live|ChunkRows\.digests|ChunkRows\.files"
    r"|IncidentAlarm\.add"
)
"""Methods of ports that change nothing, by their names; and the alarm, which keeps files."""

CALLABLES = re.compile(
    r"GateSources\.progress|GateSources\.look|GateSources\.side|GateSources\.keeps_our_time"
    r"|DepartedObjects\.keeps_our_time"
)
"""Functions that are handed over. What they do cannot be told from a type: each is judged once."""

LIBRARIES = re.compile(r"collections|dataclasses|datetime|functools|itertools|statistics|typing")
"""What of the standard library it needs; none of these touches a file."""


def held(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """What an object of a class holds or gives back, each with its type."""
    for part in node.body:
        if isinstance(part, ast.AnnAssign):
            yield ast.unparse(part.target), part.annotation
        if isinstance(part, Function):
            taken = [*part.args.args, *part.args.kwonlyargs] if part.name == "__init__" else []
            yield from ((arg.arg, arg.annotation) for arg in taken if arg.annotation)
            if part.returns:
                yield part.name, part.returns


def named(annotation: ast.expr) -> Iterator[str]:
    """The names in a type, those in quotes too."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name | ast.Attribute):
            yield ast.unparse(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from named(ast.parse(node.value, mode="eval").body)


def arrows(classes: Classes) -> dict[str, set[str]]:
    """To which classes each class leads: by its bases, and by what it holds or gives back."""
    return {
        name: classes.nodes.keys()
        & {
            *classes.bases(name),
            *(
                classes.full_name(name.rpartition(".")[0], word)
                for _, annotation in held(node)
                for word in named(annotation)
            ),
        }
        for name, node in classes.nodes.items()
    }


def reached(house: House, classes: Classes, package: str) -> set[str]:
    """The classes of a package, those that it names, and all that they lead to."""
    own = [each for each in house.package if f"{each.module}.".startswith(f"{package}.")]
    start = {classes.full_name(each.module, name) for each in own for name, _ in each.imports}
    start |= {name for name in classes.nodes if name.startswith(f"{package}.")}
    graph = arrows(classes)
    return classes.nodes.keys() & start.union(*(reach(first, graph) for first in start))


def foreign(house: House, package: str) -> list[str]:
    """What it imports whose use no type tells: modules as a whole, and libraries."""
    modules = {source.module for source in house.package}
    own = [each for each in house.package if f"{each.module}.".startswith(f"{package}.")]
    imported = {full for each in own for _, full in each.imports}
    return [
        f"imports {full}"
        for full in imported
        if full in modules
        or not (full.startswith("meltline.") or LIBRARIES.fullmatch(full.partition(".")[0]))
    ]


def writing(classes: Classes, name: str) -> list[str]:
    """Methods of a port that do more than read, or functions that an object holds."""
    short, node = name.rpartition(".")[2], classes.nodes[name]
    if "typing.Protocol" in classes.bases(name):
        methods = [part.name for part in node.body if isinstance(part, Function)]
        return [
            f"{name}.{method}"
            for method in methods
            if not (READS.fullmatch(method) or READS.fullmatch(f"{short}.{method}"))
        ]
    functions = [field for field, annotation in held(node) if "Callable" in named(annotation)]
    return [f"{name}.{field}" for field in functions if not CALLABLES.fullmatch(f"{short}.{field}")]


def dangers(house: House) -> Figure:
    """What the gates can reach that does not only read."""
    classes = Classes(house)
    bad = [path for package in GATES for path in foreign(house, package)]
    names = set[str]().union(*(reached(house, classes, package) for package in GATES))
    bad += [path for name in names for path in writing(classes, name)]
    return Figure(len(bad), places((1, path) for path in bad))
