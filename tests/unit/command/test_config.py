"""`meltline.yaml`: what it may say, where it is found, and what is said when it is wrong."""

import json
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from meltline.config.load import Config, json_schema, load_config
from meltline.domain.deletion.batches import BatchSettings
from meltline.domain.deletion.limits import GateSettings, IoSettings, Limits
from meltline.domain.deletion.orphans import SweepSettings
from meltline.domain.errors import ConfigInvalid
from meltline.domain.retention.policy import PROFILES, AccountPolicy

MINIMAL = """
hot: lake
catalogs:
  lake:
    type: sql
    uri: sqlite:///catalog.db
    warehouse: warehouse
"""

COMPLETE = """
control: postgresql+psycopg://meltline:${PGPASSWORD}@db/meltline
hot: lake
sandbox: true
ledger-namespace: ops.meltline
catalogs:
  lake:
    type: sql
    uri: sqlite:////srv/catalog.db?timeout=30
    warehouse: s3://bucket/warehouse
    catalog-name: old_lake
    s3.endpoint: http://127.0.0.1:9000
    s3.access-key-id: ${KEY}
    s3.path-style-access: true
    s3.connect-timeout: 1.10
  ice:
    type: rest
    uri: https://catalog.example.com
    warehouse: theirs
    observe-only: true
  archive:
    type: sql
    uri: sqlite:////srv/archive.db
    warehouse: s3://archive/warehouse
cold: archive
deep: s3://vault/meltline
account:
  profile: lakehouse
  retention-days: infinite
  min-retention-days: 1
  failsafe-days: 14
  transient-failsafe-days: 2
  reader-grace: 0
  cold: weekly
  cold-retention-days: 30
  deep: true
limits:
  max-head-loss: 1
  max-delete-ratio: 0.5
  max-growth: 2.5
  approve-above: 10 GiB
  full-proof-above: 1048576
  delete-keys-per-second: 100
  lock-wait: 30s
gates: {ttl: 30m, full-proof-every: 7d, approval-wait: 12h}
sweep: {minimum-age: 36h, listings-apart: 6h, inventory-age: 1d}
batches: {most-apps: 3, files-per-app: 20000}
io: {store-iops: 5500, quiet-window: 22:30-04:00, parallelism: 5}
"""


def write(directory: Path, content: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "meltline.yaml"
    path.write_text(content, encoding="utf-8")
    return path


def load(directory: Path, content: str, environ: Mapping[str, str] | None = None) -> Config:
    return load_config(write(directory, content), environ or {}, directory)


def refusal(
    directory: Path, content: str, environ: Mapping[str, str] | None = None
) -> ConfigInvalid:
    with pytest.raises(ConfigInvalid) as caught:
        load(directory, content, environ)
    assert caught.value.exit_code == 2
    assert str(directory / "meltline.yaml") in caught.value.message
    return caught.value


def test_what_is_not_said_has_the_documented_defaults(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL)
    assert config.path == tmp_path / "meltline.yaml"
    assert config.control == f"sqlite:///{tmp_path}/control.db"
    assert (config.hot, config.sandbox, config.ledger_namespace) == ("lake", False, "meltline")
    lake = config.catalogs["lake"]
    assert (lake.name, lake.type, lake.catalog_name, lake.observe_only) == (
        "lake",
        "sql",
        "lake",
        False,
    )
    assert lake.properties == {}
    assert config.account == AccountPolicy(profile=PROFILES["business"])
    assert config.limits == Limits(0, 0.95, 5.0, 1024**4, 1024**4, 3000, timedelta(minutes=10))
    assert config.limits == Limits()
    gates = GateSettings(timedelta(hours=6), timedelta(days=30), timedelta(days=3))
    assert config.gates == gates == GateSettings()
    three, half, two = timedelta(days=3), timedelta(hours=12), timedelta(days=2)
    assert config.sweep == SweepSettings(three, half, two) == SweepSettings()
    assert config.batches == BatchSettings(8, 1_000_000) == BatchSettings()
    assert (config.cold, config.deep, config.io) == ("", "", IoSettings(0, None, None))


def test_everything_that_can_be_said_arrives(tmp_path: Path) -> None:
    config = load(tmp_path, COMPLETE, {"PGPASSWORD": "p", "KEY": "k"})
    assert config.control == "postgresql+psycopg://meltline:p@db/meltline"
    assert (config.sandbox, config.ledger_namespace) == (True, "ops.meltline")
    lake, ice = config.catalogs["lake"], config.catalogs["ice"]
    assert lake.uri == "sqlite:////srv/catalog.db?timeout=30"
    assert (lake.warehouse, lake.catalog_name) == ("s3://bucket/warehouse", "old_lake")
    assert lake.properties == {
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.access-key-id": "k",
        "s3.path-style-access": "true",
        "s3.connect-timeout": "1.10",
    }
    assert (ice.type, ice.observe_only, ice.warehouse) == ("rest", True, "theirs")
    assert config.account == AccountPolicy(
        PROFILES["lakehouse"], "infinite", 1, 14, 2, timedelta(0), "weekly", 30, True
    )
    assert config.limits == Limits(1, 0.5, 2.5, 10 * 1024**3, 1048576, 100, timedelta(seconds=30))
    gates = GateSettings(timedelta(minutes=30), timedelta(days=7), timedelta(hours=12))
    assert config.gates == gates
    assert config.sweep == SweepSettings(timedelta(hours=36), timedelta(hours=6), timedelta(days=1))
    assert config.batches == BatchSettings(3, 20_000)
    assert (config.cold, config.deep) == ("archive", "s3://vault/meltline")
    assert config.io == IoSettings(5500, 22 * 60 + 30, 4 * 60, 5)


def test_retention_in_days_is_a_whole_number(tmp_path: Path) -> None:
    assert load(tmp_path, MINIMAL + "account: {retention-days: 30}").account.retention_days == 30
    for wrong in ("1.5", "-1", "7d", "never", "²"):
        error = refusal(tmp_path, MINIMAL + f"account: {{retention-days: '{wrong}'}}")
        assert "account.retention-days: expected a whole number of days, or infinite" in str(error)


def test_a_section_with_nothing_in_it_is_all_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, MINIMAL + "limits:\n  # max-growth: 5\n").limits == Limits()


# --- where it is found -----------------------------------------------------------------------


def test_config_wins_over_the_environment_which_wins_over_the_working_directory(
    tmp_path: Path,
) -> None:
    paths = {name: write(tmp_path / name, MINIMAL) for name in ("explicit", "environ", "cwd")}
    environ = {"MELTLINE_CONFIG": str(paths["environ"])}
    cwd = tmp_path / "cwd"
    assert load_config(paths["explicit"], environ, cwd).path == paths["explicit"]
    assert load_config(None, environ, cwd).path == paths["environ"]
    assert load_config(None, {}, cwd).path == paths["cwd"]
    assert load_config(None, {"MELTLINE_CONFIG": ""}, cwd).path == paths["cwd"]
    assert load_config(Path("../explicit/meltline.yaml"), {}, cwd).path == paths["explicit"]


@pytest.mark.parametrize(
    ("explicit", "environ", "place"),
    [
        (Path("no.yaml"), {}, "--config"),
        (None, {"MELTLINE_CONFIG": "no.yaml"}, "MELTLINE_CONFIG"),
        (None, {}, "the working directory"),
    ],
)
def test_a_missing_file_says_where_it_was_looked_for_and_what_to_do(
    tmp_path: Path, explicit: Path | None, environ: dict[str, str], place: str
) -> None:
    if explicit or environ:
        write(tmp_path, MINIMAL)  # must not be fallen back to
    with pytest.raises(ConfigInvalid, match=f"there is no configuration at .*{place}") as caught:
        load_config(explicit, environ, tmp_path)
    assert "docs/configure.md" in caught.value.next
    assert "--config" in caught.value.next
    assert str(tmp_path) in caught.value.object


@pytest.mark.parametrize("odd", ["plain", "a b", "it's", "t[1]", "50%", "a%20b", "what?", "x#y"])
def test_relative_paths_count_from_the_file_whatever_its_directory_is_called(
    tmp_path: Path, odd: str
) -> None:
    home = tmp_path / odd
    path = write(home, MINIMAL)
    config = load_config(path, {}, tmp_path)
    assert config.catalogs["lake"].warehouse == f"file://{home}/warehouse"
    for url, name in ((config.control, "control.db"), (config.catalogs["lake"].uri, "catalog.db")):
        assert make_url(url).database == str(home / name)
        with create_engine(url).connect() as connection:
            connection.execute(text("create table t (x int)"))
        assert (home / name).exists()


@pytest.mark.parametrize(
    ("written", "absolute"),
    [
        ("warehouse", "file://{home}/warehouse"),
        ("./a/../warehouse/", "file://{home}/warehouse"),
        ("file:warehouse", "file://{home}/warehouse"),
        ("file:/srv/w h", "file:///srv/w h"),
        ("file:///srv/w", "file:///srv/w"),
        ("/srv/w", "file:///srv/w"),
        ("s3://bucket/x", "s3://bucket/x"),
    ],
)
def test_a_local_warehouse_becomes_absolute(tmp_path: Path, written: str, absolute: str) -> None:
    config = load(tmp_path, MINIMAL.replace("warehouse: warehouse", f"warehouse: {written}"))
    assert config.catalogs["lake"].warehouse == absolute.format(home=tmp_path)


def test_a_link_to_the_file_counts_from_where_the_link_is(tmp_path: Path) -> None:
    real = write(tmp_path / "real", MINIMAL)
    link = tmp_path / "linked.yaml"
    link.symlink_to(real)
    assert load_config(link, {}, tmp_path).control == f"sqlite:///{tmp_path}/control.db"


# --- what is refused -------------------------------------------------------------------------

REFUSED = {
    "limits.max-growth": ("limits: {max-growth: lots}", "a valid number, found 'lots'"),
    "limits.max-delete-ratio": ("limits: {max-delete-ratio: 1.5}", "less than or equal to 1"),
    "limits.max-head-loss": ("limits: {max-head-loss: -1}", "greater than or equal to 0"),
    "limits.approve-above": ("limits: {approve-above: 1TB}", "expected a size, found '1TB'"),
    "limits.lock-wait": ("limits: {lock-wait: 10}", "expected a duration, found '10'"),
    "limits.delete-keys-per-second": ("limits: {delete-keys-per-second: 0}", "equal to 1"),
    "limits.max-grwth": ("limits: {max-grwth: 5}", "did you mean max-growth?"),
    "gates.ttl": ("gates: {ttl: 0}", "a duration longer than 0"),
    "gates.approval-wait": ("gates: {approval-wait: 0}", "a duration longer than 0"),
    "sweep.minimum-age": ("sweep: {minimum-age: 23h}", "at least 24h, found '23h'"),
    "sweep.listings-apart": ("sweep: {listings-apart: 0}", "a duration longer than 0"),
    "batches.most-apps": ("batches: {most-apps: 0}", "greater than or equal to 1"),
    "batches.files-per-app": ("batches: {files-per-app: 1.5}", "a valid integer"),
    "batches.most-app": ("batches: {most-app: 4}", "did you mean most-apps?"),
    "sweep.min-age": ("sweep: {min-age: 3d}", "did you mean minimum-age?"),
    "gates": ("gates: 6h", "expected keys and values, found '6h'"),
    "account.profile": ("account: {profile: busines}", "'business', 'lite_paid'"),
    "account.failsafe_days": ("account: {failsafe_days: 3}", "did you mean failsafe-days?"),
    "account.reader-grace": ("account: {reader-grace: 0}", "sandbox: true"),
    "sandbox": ("sandbox: maybe", "a valid boolean, found 'maybe'"),
    "sandboks": ("sandboks: true", "did you mean sandbox?"),
    "zebra": ("zebra: 1", "known are account, batches, catalogs, chunks, cold, control"),
    "ledger-namespace": ("ledger-namespace: a..b", "a namespace"),
    "control": ("control: mysql://u:hush@h/d", "sqlite or postgresql, found another value"),
}
OTHER_SPELLINGS = [
    ("postgres://u:hush@h/d", "postgresql:// for postgres://"),
    ("jdbc:postgresql://h/d", "postgresql:// for jdbc:postgresql://"),
]


@pytest.mark.parametrize(("url", "fix"), OTHER_SPELLINGS)
@pytest.mark.parametrize("key", ["control", "catalogs.lake.uri"])
def test_a_database_that_is_called_as_elsewhere_is_answered_with_its_name(
    tmp_path: Path, key: str, url: str, fix: str
) -> None:
    content = MINIMAL.replace("sqlite:///catalog.db", url) if "uri" in key else MINIMAL
    error = refusal(tmp_path, content + ("" if "uri" in key else f"control: {url}\n"))
    assert error.object == f"{tmp_path}/meltline.yaml: {key}" and error.next == f"write {fix}"


def test_a_key_that_is_misspelt_is_not_missing_as_well(tmp_path: Path) -> None:
    error = refusal(tmp_path, "catalog: {lake: {type: glue}}")
    assert error.message.count("\n") == 0 and error.next == "did you mean catalogs?"
    error = refusal(tmp_path, "catalogs: {lake: {typ: glue}}")
    assert error.message.count("\n") == 0 and error.next == "did you mean type?"


@pytest.mark.parametrize("key", REFUSED)
def test_a_bad_value_names_the_key_what_was_expected_and_what_is_there(
    tmp_path: Path, key: str
) -> None:
    content, said = REFUSED[key]
    error = refusal(tmp_path, MINIMAL + content)
    assert error.message.startswith(f"{tmp_path}/meltline.yaml: {key}: expected ")
    assert said in error.message
    assert error.object == f"{tmp_path}/meltline.yaml: {key}"
    assert error.expected
    assert error.found
    assert error.next


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    error = refusal(
        tmp_path,
        """
        hot: lak
        catalogs: {lake: {type: sqll, uri: '${NOWHERE}'}, ice: {type: sql, warehouse: w}}
        limits: {max-growth: -1, lock_wait: 3m}
        account: {reader-grace: 0m}
        """,
    )
    for key in (
        "hot",
        "catalogs.lake.type",
        "catalogs.lake.uri",
        "catalogs.ice.uri",
        "limits.max-growth",
        "limits.lock_wait",
        "account.reader-grace",
    ):
        assert f"meltline.yaml: {key}: expected" in error.message
    assert len(error.message.splitlines()) == 7


def test_the_hot_catalog_must_be_one_of_those_listed(tmp_path: Path) -> None:
    error = refusal(tmp_path, MINIMAL.replace("hot: lake", "hot: lakes"))
    assert "hot: expected the name of a catalog: lake, found 'lakes'" in error.message


def test_the_hot_catalog_must_not_be_observe_only(tmp_path: Path) -> None:
    error = refusal(tmp_path, MINIMAL + "    observe-only: true\n")
    assert "hot: expected a catalog that is not observe-only" in error.message


@pytest.mark.parametrize("slip", ["observe_only", "observeonly", "Observe-Only", "observe-onyl"])
def test_a_slip_in_observe_only_is_not_passed_on_as_a_property(tmp_path: Path, slip: str) -> None:
    error = refusal(tmp_path, MINIMAL + f"    {slip}: true\n")
    assert f"catalogs.lake.{slip}" in error.message
    assert "did you mean observe-only?" in error.message


@pytest.mark.parametrize(
    ("catalog", "said"),
    [
        ("{type: sql, warehouse: w}", "uri: expected a SQLAlchemy URL, found nothing"),
        ("{type: sql, uri: 'sqlite:///c.db'}", "warehouse: expected a folder or bucket"),
        ("{type: sql, warehouse: w, uri: 'sqlite://c.db'}", "uri: expected a SQLite file"),
        ("{type: sql, warehouse: w, uri: 'sqlite:///:memory:'}", "uri: expected a SQLite file"),
        ("{type: rest, uri: catalog.example.com}", "begins with http://"),
        ("{type: hive}", "begins with thrift://"),
        ("{uri: 'sqlite:///c.db'}", "type: expected a value, found nothing; add type"),
        ("{type: glue, warehouse: 'file://data/w'}", "a local path without a host"),
        ("{type: glue, auth: {type: basic}}", "auth: expected a valid string"),
        ("nothing", "expected keys and values, found"),
    ],
)
def test_a_catalog_that_cannot_work_is_refused(tmp_path: Path, catalog: str, said: str) -> None:
    assert said in refusal(tmp_path, f"catalogs: {{lake: {catalog}}}").message


WITH_ARCHIVE = """
catalogs:
  lake: {type: sql, uri: 'sqlite:///catalog.db', warehouse: warehouse}
  partner: {type: glue, observe-only: true}
  archive: {type: sql, uri: 'sqlite:///archive.db', warehouse: WHERE}
"""


@pytest.mark.parametrize(
    ("cold", "warehouse", "said"),
    [
        ("lake", "cold", "a catalog other than the hot one: partner, archive"),
        ("ice", "cold", "a catalog other than the hot one: partner, archive"),
        ("partner", "cold", "a catalog that is not observe-only"),
        ("archive", "warehouse", "whose warehouse is apart from that of lake"),
        ("archive", "warehouse/cold", "whose warehouse is apart from that of lake"),
        ("archive", ".", "whose warehouse is apart from that of lake"),
    ],
)
def test_an_archive_that_is_not_apart_is_refused(
    tmp_path: Path, cold: str, warehouse: str, said: str
) -> None:
    content = WITH_ARCHIVE.replace("WHERE", warehouse) + f"cold: {cold}\n"
    message = refusal(tmp_path, content).message
    assert "cold: expected " in message and said in message


def test_an_archive_beside_the_hot_warehouse_is_apart(tmp_path: Path) -> None:
    config = load(tmp_path, WITH_ARCHIVE.replace("WHERE", "warehouse-cold") + "cold: archive\n")
    assert config.cold == "archive"


@pytest.mark.parametrize("window", ["1-5", "01:00-25:00", "01:00", "01:00-01:00", "night"])
def test_a_quiet_window_is_two_times_of_day(tmp_path: Path, window: str) -> None:
    error = refusal(tmp_path, MINIMAL + f"io: {{quiet-window: '{window}'}}\n")
    assert "io.quiet-window: expected a time of day in UTC" in error.message


@pytest.mark.parametrize(
    "content", ["hot: lake", "catalogs: {}", "catalogs: {'a.b': {type: glue}}"]
)
def test_there_must_be_a_catalog_with_a_plain_name(tmp_path: Path, content: str) -> None:
    assert "meltline.yaml: catalogs" in refusal(tmp_path, content).message


@pytest.mark.parametrize("content", ["", "- a", "a: [", "\tx: y", "a: 1\na: 2", "text"])
def test_what_is_not_a_file_of_keys_is_refused(tmp_path: Path, content: str) -> None:
    assert "cannot be read" in refusal(tmp_path, content).message


def test_a_key_that_is_written_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    error = refusal(tmp_path, MINIMAL + "gates: {ttl: 6h, ttl: 7h}\n")
    assert "the key ttl again at line 8, column 18" in error.message


def test_a_file_that_is_no_text_or_no_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "meltline.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigInvalid, match="not UTF-8 text"):
        load_config(path, {}, tmp_path)
    with pytest.raises(ConfigInvalid, match="directory"):
        load_config(tmp_path, {}, tmp_path)


# --- secrets ---------------------------------------------------------------------------------


def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    error = refusal(tmp_path, COMPLETE, {"PGPASSWORD": "p"})
    assert error.message.count("\n") == 0
    assert "catalogs.lake.s3.access-key-id: expected ${KEY} to be set" in error.message
    assert error.next == "export KEY"


SECRET = "hush-hush"


@pytest.mark.parametrize(
    "content",
    [
        f"control: {SECRET}",
        f"control: mysql://u:{SECRET}@h/d",
        f"catalogs: {{lake: {{type: sql, uri: '{SECRET}', warehouse: w}}}}",
        f"catalogs: {{lake: {{type: rest, uri: 'u:{SECRET}@h'}}}}",
        f"catalogs: {{lake: {{type: glue, token: [{SECRET}]}}}}",
        f"catalogs: {{lake: {{type: glue, token: {{x: {SECRET}}}}}}}",
        f"catalogs: {{lake: {{type: glue, warehouse: 'file://{SECRET}/x'}}}}",
        f"catalogs: {{lake: {{type: glue, token: *{SECRET}}}}}",
        f"catalogs: {{lake: {{type: glue, token: {SECRET}: x}}}}",
        f"catalogs: {SECRET}",
        f"s3.secret-access-key: {SECRET}",
        "limits: {max-growth: '${SECRET}'}",
        "gates: {ttl: '${SECRET}'}",
        "hot: ${SECRET}",
    ],
)
def test_no_error_repeats_a_secret(tmp_path: Path, content: str) -> None:
    error = refusal(tmp_path, content, {"SECRET": SECRET})
    assert SECRET not in json.dumps(error.as_json())
    assert SECRET not in repr(error.__cause__)


def test_no_secret_is_printed_with_a_configuration(tmp_path: Path) -> None:
    config = load(tmp_path, COMPLETE, {"PGPASSWORD": SECRET, "KEY": SECRET})
    assert config.catalogs["lake"].properties["s3.access-key-id"] == SECRET
    assert SECRET not in repr(config)
    assert SECRET not in str(config.catalogs)


# --- the schema ------------------------------------------------------------------------------


def test_the_committed_json_schema_is_current() -> None:
    committed = Path(__file__).parents[3] / "docs" / "meltline.schema.json"
    current = json.dumps(json_schema(), indent=2) + "\n"
    if os.environ.get("MELTLINE_WRITE_SCHEMA"):
        committed.write_text(current, encoding="utf-8")
    assert committed.read_text(encoding="utf-8") == current, (
        "run this test once with MELTLINE_WRITE_SCHEMA=1 and commit docs/meltline.schema.json"
    )


def test_the_json_schema_knows_every_key_and_no_other() -> None:
    schema = json_schema()
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    assert schema["additionalProperties"] is False
    assert set(definitions["LimitsSection"]["properties"]) == {
        "max-head-loss",
        "max-delete-ratio",
        "max-growth",
        "approve-above",
        "full-proof-above",
        "delete-keys-per-second",
        "lock-wait",
    }
    assert definitions["LimitsSection"]["properties"]["lock-wait"]["default"] == "10m"
    assert definitions["CatalogSection"]["required"] == ["type"]
    assert definitions["CatalogSection"]["additionalProperties"]
