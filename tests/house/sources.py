"""The Python files of a repository, read once."""

import ast
import io
import tokenize
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

PACKAGE = PurePosixPath("include/meltline")
FOLDERS = ("include", "dags", "plugins", "spark_apps", "demo", "setup", "benchmarks", "tests")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One Python file; its path is told from the root of the repository."""

    path: PurePosixPath
    text: str

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.text, str(self.path))))

    @property
    def length(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def comments(self) -> list[str]:
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return [token.string for token in tokens if token.type == tokenize.COMMENT]

    @cached_property
    def module(self) -> str:
        """Its dotted name, `meltline.app.gate`; for files of the package."""
        parts = self.path.relative_to(PACKAGE.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def imports(self) -> list[tuple[str, str]]:
        """Each name that it imports, wherever in it, and what that stands for in full."""
        pairs = []
        for node in self.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                pairs += [(each.asname or each.name, package + each.name) for each in node.names]
        return pairs


@dataclass(frozen=True)
class House:
    """All Python files of a repository."""

    sources: tuple[Source, ...]

    @cached_property
    def package(self) -> list[Source]:
        return [source for source in self.sources if source.path.is_relative_to(PACKAGE)]


def read(root: Path) -> House:
    """Reads the folders that hold our Python, and no others."""
    paths = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    names = [PurePosixPath(path.relative_to(root).as_posix()) for path in paths]
    texts = [path.read_text("utf-8") for path in paths]
    return House(tuple(map(Source, names, texts)))
