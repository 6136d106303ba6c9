"""Counts stilted English in pages, docstrings, comments and identifiers (docs/develop.md).

    python -m tests.house.english [UNIT]    lists the places of a unit, such as app/purge or docs
    python -m tests.house.english --record  lowers the recorded figures to those of today

`python -m tests.house` calls it and fails where a figure is above its limit and its record.
"""

import ast
import io
import json
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from tests.house.given_up import GIVEN_UP
from tests.house.sources import House, Source, read

IDIOMS = {
    "came to (= resulted in)": r"\b(came|come|comes) to\b(?! be\b)(?! light)",
    "anew, afresh": r"\b(anew|afresh)\b",
    "let go": r"\b(let|lets|letting) go\b",
    "held against (= compared)": r"\b(held|hold|holds|holding) \w*\s?(\w+ )?against\b",
    "take back, wanted back": r"\b(take|takes|taken|taking|wanted|wants) (it |them |that )?back\b",
    "a person's word": r"\b(person's word|people's word|somebody's word|a word for|a person's)\b",
    "stands (= is)": r"\b(stand|stands|standing|stood)\b",
    "so many (as a noun)": r"\b[Ss]o many\b",
    "whoever, nobody, somebody": r"\b(Whoever|whoever|[Nn]obody|[Ss]omebody)\b",
    "of which, of whom, of that": r"\bof (which|whom|that|these|those)\b",
    'a clause with "What" as a sentence': r"(^|[.:;] )What \w+",
    "is there": r"\b(is|are|was|were) (not )?there\b",
    "wholly": r"\bwholly\b",
    "goes on": r"\b(go|goes|gone|going|went) on\b",
    "told of, says of": r"\b(told|tells?|says|said) (of|by|apart)\b",
    "words (= arguments)": r"\bwords\b",
    "a look (= a read or scan)": r"\b(a|one|this|the|last|later|fresh) looks?\b",
    "place (= path, bucket)": r"\bplaces?\b",
    "departs (a verb)": r"\bdeparts\b",
    "made of": r"\bmade of\b",
    "by itself": r"\bby (itself|themselves)\b",
    "odd": r"\bodd\b",
}
"""What to say instead is in docs/develop.md."""

MOST_PROSE, MOST_CODE = 15, 20
"""Idioms for each 10,000 words of pages, and of docstrings and comments."""

RECORDS = Path(__file__).with_suffix(".json")
"""Figures of the units that are above their limits; they may only fall."""

FREE = ("benchmarks", "dags", "demo", "plugins", "setup", "spark_apps", "tests")
"""Folders that are counted and have no limit."""

LAYERS = ("adapters", "app", "domain", "ports")
"""Folders of the package whose folders are units; each other folder is one unit."""

GENERATED = ("docs/commands.md", "docs/requirements.md")
"""Pages that a command writes."""

WORD = re.compile(r"[A-Za-z][\w'-]*")
CODE = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*$|`[^`\n]*`|\]\([^)\s]*\)|<[^>\n]*>", re.M | re.S)
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True)
class Text:
    """A paragraph, a docstring, or a block of comments."""

    where: str
    text: str

    @property
    def words(self) -> int:
        return len(WORD.findall(self.text))

    def idioms(self) -> Iterator[str]:
        for name, pattern in IDIOMS.items():
            for match in re.finditer(pattern, self.text):
                around = self.text[max(0, match.start() - 40) : match.end() + 40]
                yield f"{self.where}: {name}: {around}"


@dataclass
class Unit:
    """A package or a group of pages, with what is counted in it."""

    limit: float | None
    texts: list[Text] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)

    @cached_property
    def idioms(self) -> list[str]:
        return [place for text in self.texts for place in text.idioms()]

    @cached_property
    def rate(self) -> float:
        """Idioms for each 10,000 words."""
        words = sum(text.words for text in self.texts)
        return round(10_000 * len(self.idioms) / words, 1) if words else 0.0


def plain(text: str) -> str:
    """A text on one line, without code."""
    return " ".join(CODE.sub(" `` ", text).split())


def paragraphs(path: PurePosixPath, text: str) -> Iterator[Text]:
    """The paragraphs, list items and rows of a page."""
    blank = CODE.sub(lambda match: "``" + "\n" * match[0].count("\n"), text)
    for match in re.finditer(r"^\S.*(\n(?! *([-*|#]|\d+\.) ?)[^\n]+)*|^ +\S.*", blank, re.M):
        number = blank.count("\n", 0, match.start()) + 1
        yield Text(f"{path}:{number}", " ".join(match[0].split()))


def docstrings(source: Source) -> Iterator[Text]:
    """Strings that are statements: of modules, classes, functions and attributes."""
    for node in source.nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield Text(f"{source.path}:{node.lineno}", plain(text))


def comments(source: Source, tokens: Iterable[tokenize.TokenInfo]) -> Iterator[Text]:
    """Comments, those of consecutive lines as one text."""
    block: list[str] = []
    last = -1
    for token in tokens:
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != last + 1:
                yield Text(f"{source.path}:{last}", plain(" ".join(block)))
                block = []
            block.append(token.string.strip("# "))
            last = token.start[0]
    if block:
        yield Text(f"{source.path}:{last}", plain(" ".join(block)))


def given_up(name: str) -> str | None:
    """The term in an identifier that was given up, if there is one."""
    parts = "_".join(part.lower() for part in PART.findall(name))
    terms = (term for term in GIVEN_UP if f"_{term}_" in f"_{parts}_")
    return next(terms, None)


def identifiers(source: Source, tokens: Iterable[tokenize.TokenInfo]) -> Iterator[str]:
    """Each use of an identifier with a given-up term, and the term that replaces it."""
    for token in tokens:
        if token.type == tokenize.NAME and (term := given_up(token.string)):
            yield f"{source.path}:{token.start[0]}: {token.string}: say {GIVEN_UP[term]}"


def unit_of(path: PurePosixPath) -> str:
    """Maps a Python file to its unit: app/purge, cli, meltline (its root), tests."""
    if path.parts[:2] != ("include", "meltline"):
        return path.parts[0]
    folders = path.parts[2:-1]
    return "/".join(folders[: 2 if folders[:1] and folders[0] in LAYERS else 1]) or "meltline"


def page_unit(path: PurePosixPath) -> str:
    if path.as_posix() in GENERATED:
        return "docs, generated"
    return "docs/decisions" if path.parts[:2] == ("docs", "decisions") else "docs"


def code_units(house: House) -> dict[str, Unit]:
    units: dict[str, Unit] = {}
    for source in house.sources:
        name = unit_of(source.path)
        unit = units.setdefault(name, Unit(None if name in FREE else MOST_CODE))
        tokens = list(tokenize.generate_tokens(io.StringIO(source.text).readline))
        unit.texts += [*docstrings(source), *comments(source, tokens)]
        unit.given_up += identifiers(source, tokens)
    return units


def page_units(pages: dict[PurePosixPath, str]) -> dict[str, Unit]:
    units: dict[str, Unit] = defaultdict(lambda: Unit(MOST_PROSE))
    for path, text in pages.items():
        units[page_unit(path)].texts += paragraphs(path, text)
    return dict(units)


def read_pages(root: Path) -> dict[PurePosixPath, str]:
    """The pages at the root and below docs/, by their paths."""
    paths = sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])
    return {
        PurePosixPath(path.relative_to(root).as_posix()): path.read_text("utf-8") for path in paths
    }


Record = dict[str, list[float]]
"""For each unit above its limits, the most idioms for 10,000 words and the most given-up names."""


def bounds(name: str, unit: Unit, record: Record) -> tuple[float, float]:
    """How high the two figures of a unit may be: the record where there is one, else the limits."""
    most, names = record.get(name, (0, 0))
    return (float("inf"),) * 2 if unit.limit is None else (max(unit.limit, most), names)


def lowered(units: dict[str, Unit], record: Record) -> Record:
    """The record with the figures that fell, without units within their limits; adds no unit."""
    lower: Record = {}
    for name, (most, names) in record.items():
        unit = units.get(name, Unit(0))
        figures = [min(unit.rate, most), min(len(unit.given_up), names)]
        if figures[0] > (unit.limit or 0) or figures[1]:
            lower[name] = figures
    return lower


def held(units: dict[str, Unit], record: Record) -> bool:
    """Prints both figures of each unit above its limits; returns whether none rose."""
    good = True
    for name, unit in sorted(units.items(), key=lambda each: -each[1].rate):
        most, names = bounds(name, unit, record)
        rose = unit.rate > most or len(unit.given_up) > names
        good &= not rose
        if rose or name in record:
            verdict = "WORSE THAN IT MAY BE" if rose else "no worse than it was"
            print(
                f"{unit.rate:>6g}  idioms per 10,000 words (at most {most:g}),"
                f" {len(unit.given_up)} given-up identifiers ({names:g}), {name}: {verdict}"
            )
        if rose:
            shown = unit.idioms[:5] if unit.rate > most else unit.given_up[:5]
            print("".join(f"            {place}\n" for place in shown), end="")
    return good


def totals(units: dict[str, Unit]) -> str:
    """The two rates over all limited units: of pages, and of code."""
    lines = []
    for title, prose in (("docs", True), ("docstrings and comments", False)):
        chosen = [
            unit
            for name, unit in units.items()
            if unit.limit is not None and name.startswith("docs") is prose
        ]
        total = Unit(None, [text for unit in chosen for text in unit.texts])
        lines.append(f"{total.rate:>6g}  idioms per 10,000 words of {title}")
    names = sum(len(unit.given_up) for unit in units.values() if unit.limit is not None)
    return "\n".join([*lines, f"{names:>6}  identifiers of the package with a given-up term"])


def all_units(root: Path, house: House) -> dict[str, Unit]:
    return {**page_units(read_pages(root)), **code_units(house)}


def stored() -> Record:
    record: Record = json.loads(RECORDS.read_text("utf-8"))
    return record


def main(arguments: list[str]) -> int:
    """Lists the places of a unit, or lowers the record; returns the exit code."""
    root = Path(__file__).parents[2]
    house = read(root)
    named = tuple(source for source in house.sources if unit_of(source.path) in arguments)
    units = all_units(root, House(named) if named else house)
    if arguments == ["--record"]:
        text = json.dumps(lowered(units, stored()), indent=2)
        RECORDS.write_text(re.sub(r"\[\s+(\S+)\s+(\S+)\s+\]", r"[\1 \2]", text) + "\n", "utf-8")
    for name in arguments:
        if name in units:
            print("\n".join([*units[name].idioms, *units[name].given_up]))
    rows = sorted((unit.rate, len(unit.given_up), name) for name, unit in units.items())
    if not arguments:
        print("\n".join(f"{rate:>6g} {names:>6} {name}" for rate, names, name in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
