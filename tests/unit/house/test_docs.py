"""The pages say what the code does: commands, keys, defaults, facts, errors, links."""

import json
import re
import tomllib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
import yaml
from typer.main import get_command

from meltline.cli.commands import COMMANDS as SINGLE
from meltline.cli.commands import GROUPS, parser
from meltline.config.load import load_config
from meltline.domain import errors
from meltline.domain.deletion.limits import GateSettings, Limits
from meltline.domain.retention.policy import INFINITE, PROFILES
from meltline.domain.units import format_duration
from meltline.gates.suites import SUITES
from tests import command_reference

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
EXAMPLE = ROOT / "include" / "meltline" / "config" / "example.yaml"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
TEXTS = [*PAGES, EXAMPLE]

FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
CALL = re.compile(r"(?<![\w./:@-])meltline (?P<words>[^\n|;>&]+)")
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def shown(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pages(*paths: Path) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", paths, ids=shown)


# --- the command -----------------------------------------------------------------------------


class Command(NamedTuple):
    """A command as the help knows it."""

    path: tuple[str, ...]
    options: frozenset[str]


def command(*path: str) -> Command:
    """A command with its options; `--no-` twins of flags go without saying."""
    found: Any = get_command(parser(path))
    for name in path:
        found = found.commands[name]
    options = {word for param in found.params for word in param.opts if word.startswith("--")}
    return Command(path, frozenset(options) | {"--help"})


OF_ITSELF = {"--version", "--install-completion", "--show-completion"}
COMMANDS = {
    known.path: known
    for known in (
        *(command(name) for name in SINGLE),
        *(command(group, name) for group, (_, names) in GROUPS.items() for name in names),
    )
}


def code(page: Path) -> Iterator[str]:
    """Everything on a page that is set as code: blocks line by line, and spans."""
    content = text(page)
    for _, block in FENCED.findall(content):
        yield from re.sub(r"\\\n\s*", " ", block).splitlines()
    yield from INLINE.findall(FENCED.sub("", content))


def calls(page: Path) -> Iterator[list[str]]:
    """The words after each `meltline` that stands as a command."""
    for line in code(page):
        for call in CALL.finditer(line.split("  #")[0]):
            words = call["words"].replace("'", "").replace('"', "").split()
            if words and not words[0].isupper():
                yield words


def problem(words: list[str]) -> str:
    """What the command would say to these words; empty when it knows them."""
    path = next((tuple(words[:n]) for n in (2, 1) if tuple(words[:n]) in COMMANDS), None)
    if path is None:
        named = words[0] in OF_ITSELF or words[-1:] == ["--help"]
        return "" if named else f"no command {' '.join(words[:2])}"
    known = COMMANDS[path].options
    unknown = [w for w in words if w.startswith("--") and w.partition("=")[0] not in known]
    return f"{' '.join(path)} has no {', '.join(unknown)}" if unknown else ""


def test_the_pages_are_there_and_call_the_command() -> None:
    assert len(PAGES) > 12
    assert len(COMMANDS) > 12
    assert sum(len(list(calls(page))) for page in PAGES) > 50


@pages(*PAGES)
def test_no_code_runs_over_the_end_of_a_line_where_it_would_not_be_checked(page: Path) -> None:
    lines = FENCED.sub("", text(page)).splitlines()
    assert [line for line in lines if line.count("`") % 2] == []


@pages(*PAGES)
def test_every_call_on_a_page_is_one_the_command_knows(page: Path) -> None:
    assert [found for words in calls(page) if (found := problem(words))] == []


def test_a_call_that_the_command_does_not_know_would_be_found() -> None:
    assert problem(["frobnicate"])
    assert problem(["show", "--items"])
    assert problem(["run", "--adopt"])
    assert not problem(["show", "plan", "last", "--items", "--json"])


def test_an_option_on_its_own_is_one_of_some_command() -> None:
    known = {option for command in COMMANDS.values() for option in command.options} | OF_ITSELF
    found = {
        (shown(page), span.split()[0])
        for page in PAGES
        for span in INLINE.findall(FENCED.sub("", text(page)))
        if span.startswith("--")
    }
    # Spark's own, named where it is said why catalogs do not travel that way.
    assert {(page, option) for page, option in found if option not in known | {"--conf"}} == set()


def test_the_page_of_commands_is_what_the_command_says_of_itself() -> None:
    assert text(command_reference.PAGE) == command_reference.written(), "run `make pages`"
    assert set(command_reference.paths()) == set(COMMANDS)


def test_every_make_target_on_a_page_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", text(ROOT / "Makefile"), re.MULTILINE))
    named = {
        word
        for page in PAGES
        for line in code(page)
        for word in re.findall(r"\bmake ([a-z]+)", line)
    }
    assert named
    assert named <= targets


def test_every_setting_of_the_environment_on_a_page_is_read_somewhere() -> None:
    sources = [
        path
        for folder in ("include", "setup", "demo", "dags")
        for path in (ROOT / folder).rglob("*.py")
    ]
    sources += [ROOT / "tests" / "seeds.py", ROOT / "tests" / "tiers" / "declared.py"]
    sources.append(ROOT / "tests" / "unit" / "command" / "test_config.py")
    sources.append(ROOT / "docker-compose.yaml")  # what it asks a site for
    read = set(re.findall(r"MELTLINE_[A-Z_]+", "\n".join(map(text, sources))))
    named = set(re.findall(r"MELTLINE_[A-Z_]+", "\n".join(map(text, PAGES))))
    assert named - read == set()
    assert "MELTLINE_CONFIG" in named


# --- the configuration -----------------------------------------------------------------------


SCHEMA: dict[str, Any] = json.loads(text(DOCS / "meltline.schema.json"))


def keys(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of the file with its default; a catalog's name is `*`."""
    required = schema.get("required", [])
    for name, found in schema["properties"].items():
        if reference := found.get("$ref"):
            yield from keys(SCHEMA["$defs"][reference.rpartition("/")[2]], f"{prefix}{name}.")
            continue
        yield f"{prefix}{name}", "required" if name in required else found.get("default", "profile")
        for inner in found.get("patternProperties", {}).values():
            section = SCHEMA["$defs"][inner["$ref"].rpartition("/")[2]]
            yield from keys(section, f"{prefix}{name}.*.")


KEYS = dict(keys(SCHEMA))


def rows(page: Path) -> Iterator[list[str]]:
    """The rows of a page's tables, cell by cell."""
    for line in text(page).splitlines():
        if line.startswith("| ") and not line.startswith("|--"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_every_key_and_no_other_is_explained_with_its_default() -> None:
    told = {row[0].strip("`"): row[1] for row in rows(DOCS / "configure.md") if len(row) == 3}
    known = {name: default for name, default in KEYS.items() if name != "catalogs.*.catalog-name"}
    for name, default in known.items():
        said = "empty" if default == "" else default if isinstance(default, str) else ""
        assert told[name].strip("`") == (said or json.dumps(default)), name
    assert "catalogs.*.catalog-name" in told
    dotted = {name for name in told if name.startswith(("account.", "limits.", "gates.", "cat"))}
    assert dotted <= set(KEYS)


def test_every_profile_is_explained_with_its_days() -> None:
    told = {row[0].strip("`"): row[1:] for row in rows(DOCS / "configure.md") if len(row) == 4}

    def days(default: int | None, least: int, most: int | None) -> str:
        allowed = "any" if most is None else str(most) if least == most else f"{least} to {most}"
        return f"{INFINITE if default is None else f'{default} d'}, {allowed}"

    for name, profile in PROFILES.items():
        least, most = profile.min_days, profile.transient_max_days
        transient = days(profile.transient_default_days, least, most)
        assert told[name] == [
            days(profile.default_days, least, profile.max_days),
            f"{profile.failsafe_days} d",
            f"{transient}, {profile.transient_failsafe_days} d",
        ]


def test_the_example_is_valid_and_says_the_defaults() -> None:
    config = load_config(EXAMPLE, {}, ROOT)
    assert config.limits == Limits()
    assert config.gates == GateSettings()
    assert config.account.profile is PROFILES["business"]
    assert config.account.retention_days is None
    assert format_duration(config.account.reader_grace) == KEYS["account.reader-grace"] == "6h"
    assert config.account.reader_grace == timedelta(hours=6)
    assert list(config.catalogs) == ["lake"]


def test_the_example_fits_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    example = yaml.safe_load(text(EXAMPLE))
    assert list(validator.iter_errors(example)) == []
    assert list(validator.iter_errors(example | {"sandboxed": True}))


def test_the_example_shows_every_key() -> None:
    content = text(EXAMPLE)
    parts = {name.rpartition(".")[2] for name in KEYS}
    missing = [part for part in parts if not re.search(rf"^[\s#{{]*{part}:", content, re.M)]
    assert missing == []


def test_what_the_example_has_commented_out_is_valid_too() -> None:
    content = re.sub(r"(?m)^( +)# (?=(?:  )?[\w.-]+:( |$))", r"\1", text(EXAMPLE))
    tree = yaml.safe_load(content)
    assert set(tree["catalogs"]) == {"lake", "partner"}
    assert "s3.access-key-id" in tree["catalogs"]["lake"]
    assert set(tree["account"]) == {key.partition(".")[2] for key in KEYS if "account." in key}
    assert list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(tree)) == []


# --- gates and errors ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SUITES)
def test_every_fact_of_a_suite_is_described_in_its_own_words(kind: Any) -> None:
    suite = SUITES[kind](Limits())
    page = text(DOCS / "gates.md")
    section = page.split(f"suite `{suite.name}`\n")[1].split("\n## ")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE))
    assert told == {e.fact: e.meaning for e in suite.expectations}


def test_every_error_is_named_with_its_exit_code() -> None:
    found = {
        name: str(value.exit_code)
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.MeltlineError)
    }
    page = text(DOCS / "when-things-go-wrong.md")
    told = dict(re.findall(r"^\| `(\w+)` \| (\d) \|", page, re.MULTILINE))
    assert told == found


def test_every_finding_of_doctor_is_named() -> None:
    app = ROOT / "include/meltline/app"
    modules = [*(app / "doctor").glob("*.py"), *app.rglob("*_findings.py")]
    source = "".join(text(module) for module in sorted({*modules}))
    found = set(re.findall(r'^\s+"([a-z]+(?:_[a-z]+)*)",$', source, re.MULTILINE))
    found |= set(re.findall(r'_error\("(\w+)"', source))
    found |= set(re.findall(r'Finding\("\w+", "(\w+)"', source))
    found |= set(re.findall(r'_refusals\("(\w+)"', source))
    obstacles = text(app / "observe" / "open_commits.py")
    found |= set(re.findall(r'Obstacle\(\s*"(\w+)"', obstacles))
    found -= {"error", "warning", "info"}
    page = text(DOCS / "when-things-go-wrong.md")
    told = set(re.findall(r"^\| `(\w+)` \| (?:error|warning|info) \|", page, re.MULTILINE))
    assert told == found


# --- links and paths -------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """What a page's headings, and rows with an id of their own, can be linked by."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text(page)), re.MULTILINE)
    ids = re.findall(r'<a id="([^"]+)">', text(page))
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in headings} | {*ids}


@pages(*PAGES)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(FENCED.sub("", text(page))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pages(*PAGES)
def test_every_module_that_a_page_names_is_there(page: Path) -> None:
    spans = {span.partition("::")[0] for span in INLINE.findall(FENCED.sub("", text(page)))}
    names = [re.sub("^T/", "tests/", span) for span in spans]
    ours = re.compile(r"(?:app|adapters|domain|ports|tests|include)/[\w/]+\.py")
    roots = (ROOT, ROOT / "include" / "meltline")
    gone = [n for n in names if ours.fullmatch(n) and not any((r / n).exists() for r in roots)]
    assert gone == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        links = LINK.findall(text(page))
        waiting += [
            (page.parent / link.partition("#")[0]).resolve()
            for link in links
            if "://" not in link and link.partition("#")[0]
        ]
    assert set(PAGES) - reached == set()


@pages(*TEXTS)
def test_no_page_names_a_path_of_somebodys_machine(page: Path) -> None:
    assert re.findall(r"(?<![\w.])/(?:work|tmp|root|home|Users)/\S*", text(page)) == []


def test_the_readme_names_the_python_that_the_project_needs() -> None:
    needed = tomllib.loads(text(ROOT / "pyproject.toml"))["project"]["requires-python"]
    (version,) = re.findall(r">=(\d\.\d+)", needed)
    assert f"Python {version}" in text(ROOT / "README.md")


def test_the_readme_is_short() -> None:
    assert len(text(ROOT / "README.md").splitlines()) <= 150
