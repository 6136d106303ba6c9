"""What a site copies: `.env.example` names what is asked for, each `meltline.yaml` is one."""

import base64
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from meltline.config.load import load_config
from meltline.domain.errors import MeltlineError
from tests.unit.deploy.compose_file import (
    EXAMPLE,
    ROOT,
    SERVICES,
    TEXT,
    example_settings,
    interpolated,
    variables,
)

DEPLOY = ROOT / "deploy"
CONFIGURATIONS = sorted(DEPLOY.glob("meltline*.yaml"))
ASKED = variables(TEXT)
REQUIRED = {name for name, rule in ASKED.items() if rule == "?"}
PASSED_ON = {
    name
    for service in SERVICES.values()
    for name, value in service.get("environment", {}).items()
    if value is None
}
SECRETS = {name for name, value in example_settings(commented=False).items() if not value}


def test_the_example_sets_what_must_be_set_and_shows_what_may_be() -> None:
    assert {"POSTGRES_PASSWORD", "MELTLINE_YAML"} < REQUIRED
    assert example_settings(commented=False).keys() == REQUIRED | PASSED_ON
    optional = ASKED.keys() - REQUIRED - PASSED_ON
    assert example_settings(commented=True).keys() == optional | {"COMPOSE_PROFILES"}


def test_what_the_example_shows_is_what_the_compose_file_has() -> None:
    shown = example_settings(commented=True)
    profiles = {name for service in SERVICES.values() for name in service.get("profiles", [])}
    assert set(shown["COMPOSE_PROFILES"].split(",")) == profiles
    for name in ("AIRFLOW_PORT", "TASK_CPUS", "TASK_MEMORY"):
        assert f"${{{name}:-{shown[name]}}}" in TEXT
    host, _, port = shown["SPARK_MASTER"].removeprefix("spark://").partition(":")
    assert SERVICES["spark-master"]["command"][:4] == ["--host", host, "--port", port]


def test_the_example_has_no_secret_and_without_one_nothing_starts() -> None:
    assert (REQUIRED | PASSED_ON) - {"MELTLINE_YAML"} == SECRETS
    filled = dict.fromkeys(REQUIRED, "x")
    yaml.safe_load(interpolated(TEXT, filled))
    for name in REQUIRED:
        with pytest.raises(LookupError, match=f"set {name}"):
            interpolated(TEXT, {**filled, name: ""})


def written(file: Path) -> dict[str, str]:
    script = [str(DEPLOY / "secrets.sh"), str(file)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    lines = re.findall(r"^([A-Z0-9_]+)=(.*)$", file.read_text(), re.MULTILINE)
    assert not any(secret in done.stdout + done.stderr for name, secret in lines if name in SECRETS)
    return dict(lines)


def test_a_script_sets_every_secret_at_random_and_leaves_those_that_are_set(tmp_path: Path) -> None:
    first = written(tmp_path / "env")
    assert first.keys() == example_settings(commented=False).keys()
    assert len({first[name] for name in SECRETS}) == len(SECRETS)
    assert all(re.fullmatch(r"[\w=-]{44,}", first[name]) for name in SECRETS)
    assert len(base64.urlsafe_b64decode(first["AIRFLOW_FERNET_KEY"])) == 32
    assert written(tmp_path / "env") == first
    assert first["MELTLINE_YAML"] == example_settings(commented=False)["MELTLINE_YAML"]


def test_a_secret_that_a_newer_version_asks_for_is_added(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("POSTGRES_PASSWORD=mine\nAIRFLOW_JWT_SECRET=\nOWN=1")
    after = written(tmp_path / "env")
    assert (after["POSTGRES_PASSWORD"], after["OWN"]) == ("mine", "1")
    assert all(after[name] for name in SECRETS)


def test_git_takes_the_example_and_never_the_secrets() -> None:
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()
    assert EXAMPLE.name != ".env"


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_each_configuration_loads_with_what_the_containers_are_told(path: Path) -> None:
    told = SERVICES["meltline"]["environment"]
    config = load_config(path, dict.fromkeys(told, "hidden-word"), ROOT)
    assert config.hot == "lake"
    database = "postgresql+psycopg://meltline:hidden-word@postgres/meltline"
    assert config.control == database
    assert "lake:hidden-word@postgres/lake" in config.catalogs["lake"].uri
    assert not config.sandbox


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_each_configuration_says_which_secret_is_not_set(path: Path) -> None:
    needed = re.findall(r"\$\{(\w+)\}", path.read_text())
    assert needed
    for name in needed:
        others = dict.fromkeys(set(needed) - {name}, "hidden-word")
        with pytest.raises(MeltlineError, match=name) as refused:
            load_config(path, others, ROOT)
        assert "secret@" not in str(refused.value.as_json())


def test_the_store_of_the_profile_is_where_the_configuration_looks_for_it() -> None:
    catalog = yaml.safe_load((DEPLOY / "meltline-s3.yaml").read_text())["catalogs"]["lake"]
    endpoint, bucket = SERVICES["s3-init"]["command"][1:]
    assert catalog["s3.endpoint"] == endpoint
    assert catalog["warehouse"].startswith(f"s3://{bucket}/")
    assert endpoint.endswith(SERVICES["s3"]["environment"]["VGW_PORT"])


def test_a_lake_on_disk_lies_on_a_volume_that_executors_share() -> None:
    catalog = yaml.safe_load((DEPLOY / "meltline.yaml").read_text())["catalogs"]["lake"]
    for service in ("scheduler", "meltline", "spark-worker", "api-server"):
        assert "warehouse:/data" in SERVICES[service]["volumes"]
    assert catalog["warehouse"].startswith("file:///data/")
