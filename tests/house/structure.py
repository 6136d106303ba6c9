"""How the parts of the package hang together: rooms that import each other, classes and heirs."""

import ast
from collections import defaultdict

from tests.house.figures import Figure, largest
from tests.house.sources import Function, House


def room(module: str) -> str:
    """What a module stands in: a folder or module directly in a layer, `meltline.app.gate`."""
    return ".".join(module.split(".")[:3])


def arrows(house: House) -> dict[str, set[str]]:
    """Which rooms of its own layer each room imports; what only types need counts too."""
    rooms = {room(source.module) for source in house.package if source.module.count(".") > 1}
    arrows: dict[str, set[str]] = defaultdict(set)
    for source in house.package:
        home = room(source.module)
        targets = rooms & {room(full) for _, full in source.imports} - {home}
        layer = home.rpartition(".")[0]
        arrows[home] |= {target for target in targets if target.rpartition(".")[0] == layer}
    return arrows


def reach(start: str, arrows: dict[str, set[str]]) -> set[str]:
    """The rooms that imports lead to from one, in any number of steps."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = arrows.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached


def circles(house: House) -> Figure:
    """How many rooms reach themselves by imports within their layer."""
    graph = arrows(house)
    round_about = sorted(home for home in graph if home in reach(home, graph))
    return Figure(
        len(round_about),
        [f"{home} -> {', '.join(sorted(graph[home] & {*round_about}))}" for home in round_about],
    )


class Classes:
    """The classes of the package, each by its full name."""

    def __init__(self, house: House) -> None:
        self.imports = {source.module: dict(source.imports) for source in house.package}
        self.nodes = {
            f"{source.module}.{node.name}": node
            for source in house.package
            for node in source.nodes
            if isinstance(node, ast.ClassDef)
        }

    def full_name(self, module: str, name: str) -> str:
        """Of a class that a module names: where it is defined, through all that import it on."""
        head, dot, tail = name.partition(".")
        full = self.imports[module].get(head, f"{module}.{head}") + dot + tail
        module, _, name = full.rpartition(".")
        imported_on = full not in self.nodes and name in self.imports.get(module, ())
        return self.full_name(module, name) if imported_on else full

    def bases(self, name: str) -> list[str]:
        """In full; a base's type arguments are left away."""
        texts = [ast.unparse(base).partition("[")[0] for base in self.nodes[name].bases]
        return [self.full_name(name.rpartition(".")[0], text) for text in texts]

    def methods(self, name: str) -> set[str]:
        """By name, with what is inherited from classes of the package."""
        if name not in self.nodes:
            return set()
        own = {node.name for node in self.nodes[name].body if isinstance(node, Function)}
        return own.union(*map(self.methods, self.bases(name)))


def methods(house: House, protocols: bool) -> Figure:
    """Methods of the largest protocol, or of the largest other class; inherited ones count."""
    classes = Classes(house)
    names = [
        name for name in classes.nodes if ("typing.Protocol" in classes.bases(name)) is protocols
    ]
    return largest([(len(classes.methods(name)), name) for name in names])
