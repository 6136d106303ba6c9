"""Loads `meltline.yaml`: finds, parses and validates it, and returns frozen values.

The keys of the file are the interface (docs/configure.md). Their values are resolved here once:
`${NAME}` comes from the environment, relative paths start at the file's directory, durations and
sizes become numbers. Values that may contain a secret are never repeated in an error.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from meltline.config.schema import (
    AccountSection,
    BatchesSection,
    CatalogSection,
    CatalogType,
    ConfigFile,
    GatesSection,
    IoSection,
    LimitsSection,
    Section,
    SweepSection,
)
from meltline.config.secrets import secret_values
from meltline.config.values import FileContext, catalogs_in
from meltline.domain.deletion.batches import BatchSettings
from meltline.domain.deletion.half_seen import is_place
from meltline.domain.deletion.limits import ChunkSettings, GateSettings, IoSettings, Limits
from meltline.domain.deletion.orphans import SweepSettings
from meltline.domain.errors import ConfigInvalid
from meltline.domain.path_aliases import StoreNames
from meltline.domain.redaction import keep_untold
from meltline.domain.retention.policy import PROFILES, AccountPolicy
from meltline.file_permissions import Access

Key: TypeAlias = tuple[str, ...]
_NOTHING = "nothing"


@dataclass(frozen=True)
class Problem:
    """A mistake: its key, the expected and the actual value, and the fix.

    Attributes:
        meant: The known key that a misspelt one probably means.
    """

    key: Key
    expected: str
    actual: str
    fix: str
    meant: Key = ()

    def __str__(self) -> str:
        return f"{'.'.join(self.key)}: expected {self.expected}, found {self.actual}; {self.fix}"


def invalid(path: Path, problems: Sequence[Problem]) -> ConfigInvalid:
    """Builds one error for all mistakes."""
    problems = _once(problems)

    def joined(words: list[str]) -> str:
        if len(problems) == 1:
            return words[0]
        return "; ".join(f"{'.'.join(p.key)}: {w}" for p, w in zip(problems, words, strict=True))

    error = ConfigInvalid(
        "\n".join(f"{path}: {problem}" for problem in problems),
        object=", ".join(f"{path}: {'.'.join(problem.key)}" for problem in problems),
        expected=joined([problem.expected for problem in problems]),
        found=joined([problem.actual for problem in problems]),
        next=joined([problem.fix for problem in problems]),
    )
    error.tells_all = True
    return error


def _once(problems: Sequence[Problem]) -> list[Problem]:
    """Removes duplicates: a misspelt key is not reported as missing, too."""
    meant = {problem.meant for problem in problems}
    return [p for p in problems if not (p.key in meant and p.actual == _NOTHING)]


def problem_of(detail: ErrorDetails, written: Mapping[str, object]) -> Problem:
    """Converts a validation error into the mistake in the file."""
    key = tuple(str(part) for part in detail["loc"] if part != "[key]")
    present = repr(key[-1]) if "[key]" in detail["loc"] else _shown(key, written)
    context = detail.get("ctx", {})
    if detail["type"] == "missing":
        return Problem(key, "a value", _NOTHING, f"add {key[-1]}")
    if detail["type"] == "extra_forbidden":
        known_keys = _known_keys(key[:-1])
        near = _nearest(key[-1], known_keys)
        if near:
            return _misspelt(key, near)
        fix = f"remove it; known are {', '.join(known_keys)}"
        return Problem(key, "a known key", "an unknown one", fix)
    if detail["type"] in {"model_type", "model_attributes_type", "dict_type"}:
        return Problem(key, "keys and values", present, "indent its keys below it")
    expected = context.get("expected") or detail["msg"].removeprefix("Input should be ")
    expected = str(expected).partition(", unable to")[0]
    fix = str(context.get("fix", "")) or f"write {expected}"
    return Problem(key, expected, present, fix)


def _misspelt(key: Key, near: str) -> Problem:
    fix, meant = f"did you mean {near}?", (*key[:-1], near)
    return Problem(key, "a known key", "an unknown one", fix, meant)


def _known_keys(section: Key) -> list[str]:
    sections: dict[str, type[Section]] = {
        "account": AccountSection,
        "limits": LimitsSection,
        "gates": GatesSection,
        "sweep": SweepSection,
        "batches": BatchesSection,
        "io": IoSection,
    }
    model = sections.get(section[0], ConfigFile) if section else ConfigFile
    return sorted(str(field.alias) for field in model.model_fields.values())


def _nearest(word: str, vocabulary: list[str], cutoff: float = 0.6) -> str:
    plain = word.lower().replace("_", "-")
    return next(iter(difflib.get_close_matches(plain, vocabulary, n=1, cutoff=cutoff)), "")


def _shown(key: Key, written: Mapping[str, object]) -> str:
    """Returns the value as written, before `${NAME}` is resolved, unless it may be a secret."""
    node: object = written
    for part in key:
        node = node.get(part) if isinstance(node, dict) else None
    if node is None:
        return _NOTHING
    if isinstance(node, dict | list):
        return "keys and values" if isinstance(node, dict) else "a list"
    open_catalog_keys = {"type", "observe-only", "catalog-name"}
    if key[0] == "control" or (key[0] == "catalogs" and key[-1] not in open_catalog_keys):
        return "another value"
    return repr(node)


def misspelt_catalog_keys(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields misspelt keys of catalogs, which accept any property: `observe_only` has no effect."""
    aliases = sorted(str(field.alias) for field in CatalogSection.model_fields.values())
    for name, catalog in catalogs_in(tree).items():
        for word in catalog.keys() - set(aliases):
            if near := _nearest(word, aliases, cutoff=0.85):
                yield _misspelt(("catalogs", name, word), near)


FILE_NAME = "meltline.yaml"
ENVIRONMENT = "MELTLINE_CONFIG"


@dataclass(frozen=True)
class CatalogConfig:
    """One catalog, in PyIceberg's terms.

    Attributes:
        name: The first part of the tables' names.
        uri: The catalog's address; empty if its type needs none. May contain a secret.
        warehouse: The folder or bucket of tables without a location; empty if the catalog has its
            own.
        catalog_name: The name in the SQL catalog's rows.
        observe_only: Read for reachability, never changed.
        properties: Further PyIceberg properties, as written. May contain secrets.
    """

    name: str
    type: CatalogType
    uri: str
    warehouse: str
    catalog_name: str
    observe_only: bool
    properties: Mapping[str, str]

    @property
    def server_commits(self) -> bool:
        """Whether its server writes the metadata: a commit may lose concurrent refs."""
        return self.type == "rest"

    def __repr__(self) -> str:
        return f"CatalogConfig(name={self.name!r}, type={self.type!r})"


@dataclass(frozen=True)
class Config:
    """The content of `meltline.yaml`; every path in it is absolute.

    Attributes:
        path: The path of the file.
        control: SQLAlchemy URL of the control ledger. May contain a secret.
        hot: The live catalog; one of `catalogs`, never observe-only.
        sandbox: Whether a simulated clock and a zero reader grace are allowed.
        ledger_namespace: The namespace of the file ledger's tables, dotted.
        cold: The archive's catalog, one of `catalogs`; empty if there is none.
        deep: The location of permanent copies; empty for none. `deep_storage_class` is their
            storage class on S3.
        local_access: Who may read and write Meltline's files on local disk.
        metrics_file: The path of the metrics, for monitoring; None: no file.
        holds_group: Whether a table with an unsupported format blocks purges at its locations
            alone, and not of other tables.
        storage_roots: Folders and buckets of tables beside the warehouses: files there may be
            deleted too.
        stores: Which names of stores mean the same store, and which different ones.
    """

    path: Path
    control: str
    hot: str
    sandbox: bool
    ledger_namespace: str
    catalogs: Mapping[str, CatalogConfig]
    account: AccountPolicy
    limits: Limits
    gates: GateSettings
    sweep: SweepSettings = field(default_factory=SweepSettings)
    batches: BatchSettings = field(default_factory=BatchSettings)
    chunks: ChunkSettings = field(default_factory=ChunkSettings)
    io: IoSettings = field(default_factory=IoSettings)
    cold: str = ""
    deep: str = ""
    deep_storage_class: str = ""
    local_access: Access = Access.OWNER
    metrics_file: Path | None = None
    holds_group: bool = False
    storage_roots: tuple[str, ...] = ()
    stores: StoreNames = field(default_factory=StoreNames)

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders and buckets outside which nothing is ever deleted.

        These are the warehouses of the catalogs that are not observe-only, without the archive's,
        and the storage roots.
        """
        ours = (catalog for name, catalog in self.catalogs.items() if name != self.cold)
        places = [catalog.warehouse for catalog in ours if not catalog.observe_only]
        return tuple(dict.fromkeys([*filter(is_place, places), *self.storage_roots]))

    @property
    def archives(self) -> tuple[str, ...]:
        """The folders of the archive and of permanent copies: files in them are never deleted."""
        cold = self.catalogs[self.cold].warehouse if self.cold else ""
        return tuple(place for place in (cold, self.deep) if place)

    @property
    def docs_folder(self) -> Path:
        """The folder of the gates' Data Docs pages: beside `meltline.yaml`."""
        return self.path.parent / "meltline-docs"

    @property
    def secrets(self) -> frozenset[str]:
        """The texts that must not be in any message, whatever its source."""
        catalogs = self.catalogs.values()
        addresses = [self.control, *(each.uri for each in catalogs)]
        return secret_values(addresses, [each.properties for each in catalogs])

    def __repr__(self) -> str:
        return f"Config(path={str(self.path)!r}, hot={self.hot!r})"


def load_config(explicit: Path | None, environ: Mapping[str, str], cwd: Path) -> Config:
    """Finds, reads and validates the configuration.

    Args:
        explicit: The path in `--config`; it takes precedence over `MELTLINE_CONFIG`, and that over
            `cwd`.
        environ: The environment, for `MELTLINE_CONFIG` and `${NAME}` in values.
        cwd: The working directory.

    Raises:
        ConfigInvalid: The file is missing, unreadable or invalid; lists all mistakes at once.
    """
    path = _find(explicit, environ, cwd)
    written = _read(path)
    problems: list[Problem] = []
    tree = _filled_in(written, (), environ, problems)
    surroundings = FileContext.of(tree, path.parent)
    problems.extend(misspelt_catalog_keys(tree))
    try:
        model = ConfigFile.model_validate(tree, context=surroundings)
    except ValidationError as error:
        unfilled = {problem.key for problem in problems}
        details = error.errors(include_url=False)
        refused = (problem_of(detail, written) for detail in details)
        problems.extend(problem for problem in refused if problem.key not in unfilled)
        raise invalid(path, problems) from None
    if problems:
        raise invalid(path, problems)
    config = _config(path, model)
    keep_untold(config.secrets)
    return config


def json_schema() -> dict[str, object]:
    """Returns the JSON Schema of `meltline.yaml`, also in `docs/meltline.schema.json`."""
    schema = ConfigFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _config(path: Path, model: ConfigFile) -> Config:
    account = model.account.model_dump(exclude={"profile"})
    return Config(
        path=path,
        control=model.control,
        hot=model.hot,
        sandbox=model.sandbox,
        ledger_namespace=model.ledger_namespace,
        catalogs=MappingProxyType(
            {name: _catalog(name, section) for name, section in model.catalogs.items()}
        ),
        account=AccountPolicy(profile=PROFILES[model.account.profile], **account),
        limits=Limits(**model.limits.model_dump()),
        gates=GateSettings(**model.gates.model_dump()),
        sweep=SweepSettings(**model.sweep.model_dump()),
        batches=BatchSettings(**model.batches.model_dump()),
        chunks=ChunkSettings(**model.chunks.model_dump()),
        io=IoSettings(model.io.store_iops, *model.io.quiet_window, model.io.parallelism),
        cold=model.cold,
        deep=model.deep,
        deep_storage_class=model.deep_storage_class,
        local_access=Access(model.local_access),
        metrics_file=path.parent / model.metrics_file if model.metrics_file else None,
        holds_group=model.unreadable == "hold-group",
        storage_roots=tuple(model.storage_roots),
        stores=StoreNames.of(model.same, model.different),
    )


def _catalog(name: str, section: CatalogSection) -> CatalogConfig:
    return CatalogConfig(
        name=name,
        type=section.type,
        uri=section.uri,
        warehouse=section.warehouse,
        catalog_name=section.catalog_name or name,
        observe_only=section.observe_only,
        properties=MappingProxyType(dict(section.model_extra or {})),
    )


# --- finding and reading ---------------------------------------------------------------------


def _find(explicit: Path | None, environ: Mapping[str, str], cwd: Path) -> Path:
    if explicit is not None:
        path, why = explicit, "--config"
    elif setting := environ.get(ENVIRONMENT):
        path, why = Path(setting), ENVIRONMENT
    else:
        path, why = Path(FILE_NAME), "the working directory"
    path = Path(os.path.abspath(cwd / path))  # noqa: PTH100 - a link's own directory counts
    if not path.exists():
        raise ConfigInvalid(
            f"there is no configuration at {path} (from {why})",
            object=str(path),
            expected=f"a {FILE_NAME}, by --config, {ENVIRONMENT}, or in the working directory",
            found="no such file",
            next="write one as docs/configure.md shows, or pass --config FILE",
        )
    return path


class _Loader(yaml.BaseLoader):
    """Keeps every scalar as written, and refuses duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            mark = next(key for key, _ in reversed(node.value) if key.value == twice).start_mark
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice} again", mark)
        return super().construct_mapping(node, deep)


def _read(path: Path) -> dict[str, object]:
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise _unreadable(path, str(reason), "make it a readable UTF-8 file") from None
    except yaml.YAMLError as error:
        # The parser's message may quote the line, and with it a secret.
        raise _unreadable(
            path, _place(error), "quote values that hold : # * & ! { [ or %"
        ) from None
    if not isinstance(tree, dict):
        raise _unreadable(
            path, "no keys", "write `catalogs:` and `hot:`, as docs/configure.md has it"
        )
    return tree


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    if isinstance(error, yaml.constructor.ConstructorError):
        return f"{error.problem}{where}"
    return f"something that is not YAML{where}"


def _unreadable(path: Path, reason: str, fix: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"{path} cannot be read: {reason}",
        object=str(path),
        expected="a YAML file of keys and values",
        found=reason,
        next=fix,
    )


def _filled_in(node: object, key: Key, environ: Mapping[str, str], problems: list[Problem]) -> Any:
    if isinstance(node, dict):
        return {k: _filled_in(v, (*key, str(k)), environ, problems) for k, v in node.items()}
    if not isinstance(node, str):
        return node
    for name in re.findall(r"\$\{([^}]*)\}", node):
        if name not in environ:
            absence = f"no variable {name} in the environment"
            problems.append(Problem(key, f"${{{name}}} to be set", absence, f"export {name}"))
    return re.sub(r"\$\{([^}]*)\}", lambda match: environ.get(match[1], ""), node)
