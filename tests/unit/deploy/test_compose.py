"""The compose file, checked without Docker: references resolve, nothing secret, nothing exposed."""

import re
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from tests.unit.deploy.compose_file import (
    RAW,
    ROOT,
    SERVICES,
    TEXT,
    example_settings,
    interpolated,
    mounts,
    variables,
)

EVERY_SERVICE = pytest.mark.parametrize("service", sorted(SERVICES))
ONCE = sorted(name for name, service in SERVICES.items() if service["restart"] == "no")
LONG_RUNNING = sorted(SERVICES.keys() - set(ONCE))
IMAGE = SERVICES["api-server"]["image"]
FILLED = {name: value or "x" for name, value in example_settings(commented=False).items()}


def as_docker_reads(text: str) -> str:
    """The file with variables put in, and without the shorthands of YAML that the parser lacks."""
    return yaml.safe_dump(yaml.safe_load(interpolated(text, FILLED)))


def test_it_is_as_the_specification_of_compose_wants_it() -> None:
    compose = PyCompose.from_yaml(as_docker_reads(TEXT))
    assert sorted(compose.service_names()) == sorted(SERVICES)


def test_a_key_that_compose_does_not_know_would_be_found() -> None:
    wrong = TEXT.replace("shm_size:", "shm_sise:")
    assert wrong != TEXT
    with pytest.raises(ValueError, match="shm_sise"):
        PyCompose.from_yaml(as_docker_reads(wrong))


def test_every_airflow_component_runs_as_a_service() -> None:
    for command in ("api-server", "scheduler", "dag-processor", "triggerer"):
        assert SERVICES[command]["command"] == command


def test_the_ledgers_are_prepared_after_airflow_and_before_the_first_task() -> None:
    prepares = SERVICES["meltline"]
    assert (prepares["entrypoint"], prepares["command"]) == (["meltline"], ["init"])
    completed = {"condition": "service_completed_successfully"}
    assert prepares["depends_on"]["airflow-init"] == completed
    assert SERVICES["scheduler"]["depends_on"]["meltline"] == completed
    assert sorted(ONCE) == ["airflow-init", "meltline", "s3-init"]


@EVERY_SERVICE
def test_what_a_service_waits_for_exists_and_can_say_that_it_is_ready(service: str) -> None:
    for other, how in SERVICES[service].get("depends_on", {}).items():
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other]
        else:
            assert how["condition"] == "service_completed_successfully"
            assert other in ONCE
        # A service outside of a profile does without one that is inside of it.
        mine, its = SERVICES[service].get("profiles"), SERVICES[other].get("profiles")
        assert how.get("required", True) == (its in (None, mine))


@EVERY_SERVICE
def test_every_mount_comes_from_the_tree_a_declared_volume_or_a_required_variable(
    service: str,
) -> None:
    for source, _ in mounts(service):
        if source.startswith("./"):
            assert (ROOT / source).exists(), source
        elif source.startswith("$"):
            assert ":?" in source
        else:
            assert source in RAW["volumes"]


def test_every_declared_volume_is_used() -> None:
    used = {source for service in SERVICES for source, _ in mounts(service)}
    assert set(RAW["volumes"]) <= used


def test_logs_and_the_pages_of_gates_outlive_their_containers() -> None:
    configuration = next(t for s, t in mounts("scheduler") if s.startswith("${MELTLINE_YAML"))
    beside = configuration.replace("meltline.yaml", "meltline-docs")  # where gates write
    assert ("pages", beside) in mounts("scheduler")
    for component in ("scheduler", "api-server"):
        assert ("logs", "/opt/airflow/logs") in mounts(component)


def test_a_volume_is_new_with_the_owner_that_the_image_gave_its_folder() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    folders = re.search(r"install -d (.*?)\nUSER", dockerfile, re.DOTALL)
    assert folders
    ours = {target for name in SERVICES for source, target in mounts(name) if source in
            RAW["volumes"] and SERVICES[name]["image"] == IMAGE}  # fmt: skip
    assert ours - {"/opt/airflow/logs"} <= set(folders[1].split())  # that one is the base image's


@pytest.mark.parametrize("service", LONG_RUNNING)
def test_what_keeps_running_has_a_health_check(service: str) -> None:
    assert SERVICES[service]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}


@EVERY_SERVICE
def test_every_service_has_limits_and_keeps_a_bounded_log(service: str) -> None:
    limits = SERVICES[service]["deploy"]["resources"]["limits"]
    assert re.fullmatch(r"\d+[GM]|\$\{[A-Z_]+:-\d+G\}", limits["memory"])
    assert limits["cpus"]
    assert SERVICES[service]["logging"]["options"]["max-size"]
    assert SERVICES[service]["security_opt"] == ["no-new-privileges:true"]


def test_only_loopback_ports_are_published() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert not any("network_mode" in service for service in SERVICES.values())


# --- secrets ---------------------------------------------------------------------------------

OF_PROFILES = {"S3_ACCESS_KEY", "S3_SECRET_KEY"}
"""Compose cannot ask for them only where a profile does: the store itself refuses to start."""


@EVERY_SERVICE
def test_secrets_come_from_the_environment_and_their_absence_is_explained(service: str) -> None:
    for name, value in SERVICES[service].get("environment", {}).items():
        if not re.search(r"PASSWORD$|SECRET|_KEY(_ID)?$", name):
            continue
        if name in OF_PROFILES:
            assert value is None
        elif "profiles" in SERVICES[service]:
            assert set(variables(value)) <= OF_PROFILES
            assert value.endswith(":-}")
        else:
            assert re.fullmatch(r"\$\{[A-Z_]+:\?set \S.+\}", value), name


def test_no_url_carries_a_password() -> None:
    assert not re.findall(r"://[^/\s@]*:[^/\s@]*@", TEXT)


def users_of(variable: str) -> set[str]:
    return {
        name
        for name, service in SERVICES.items()
        for value in service.get("environment", {}).values()
        if variable in variables(str(value))
    }


def test_each_database_has_a_user_whose_password_nobody_else_is_told() -> None:
    assert users_of("POSTGRES_PASSWORD") == {"postgres"}
    of_airflow = {name for name in SERVICES if "AIRFLOW__CORE__EXECUTOR" in environment(name)}
    assert users_of("AIRFLOW_DB_PASSWORD") == {"postgres", *of_airflow}
    assert users_of("LEDGER_PASSWORD") == {"postgres", "meltline", *of_airflow}
    passwords = ("POSTGRES", "AIRFLOW_DB", "LEDGER", "CATALOG")
    assert {f"{name}_PASSWORD" for name in passwords} <= environment("postgres").keys()


def environment(service: str) -> dict[str, Any]:
    return SERVICES[service].get("environment", {})


def test_executors_are_told_no_password() -> None:
    for service in ("spark-master", "spark-worker"):
        assert environment(service) == {}
        assert SERVICES[service]["image"] == IMAGE
