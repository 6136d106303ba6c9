"""The compose file, checked without Docker: references resolve, nothing secret, nothing exposed."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docker-compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
LONG_RUNNING = sorted(SERVICES.keys() - {"airflow-init"})


def mounts(service: str) -> list[tuple[str, str]]:
    """Source and target of each mount, whichever way it is written."""
    pairs = []
    for volume in SERVICES[service].get("volumes", []):
        if isinstance(volume, dict):
            pairs.append((volume["source"], volume["target"]))
        else:
            source, target = volume.split(":")[:2]
            pairs.append((source, target))
    return pairs


def test_every_airflow_component_runs_as_a_service() -> None:
    for command in ("api-server", "scheduler", "dag-processor", "triggerer"):
        assert SERVICES[command]["command"] == command


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_what_a_service_waits_for_exists_and_can_say_that_it_is_ready(service: str) -> None:
    for other, how in SERVICES[service].get("depends_on", {}).items():
        assert other in SERVICES
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other]
        else:
            assert how["condition"] == "service_completed_successfully"
            assert SERVICES[other]["restart"] == "no"


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_every_mount_comes_from_the_tree_a_declared_volume_or_a_required_variable(
    service: str,
) -> None:
    for source, _ in mounts(service):
        if source.startswith("./"):
            assert (ROOT / source).is_dir(), source
        elif source.startswith("$"):
            assert ":?" in source
        else:
            assert source in COMPOSE["volumes"]
    for config in SERVICES[service].get("configs", []):
        assert config["source"] in COMPOSE["configs"]


def test_every_declared_volume_is_used() -> None:
    used = {source for service in SERVICES for source, _ in mounts(service)}
    assert set(COMPOSE["volumes"]) <= used


@pytest.mark.parametrize("service", LONG_RUNNING)
def test_what_keeps_running_has_a_health_check(service: str) -> None:
    assert SERVICES[service]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}


def test_only_loopback_ports_are_published() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert not any("network_mode" in service for service in SERVICES.values())


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_secrets_come_from_the_environment_and_their_absence_is_explained(service: str) -> None:
    for name, value in SERVICES[service]["environment"].items():
        if re.search(r"PASSWORD$|SECRET|_KEY$", name):
            assert re.fullmatch(r"\$\{[A-Z_]+:\?set \S.+\}", value), name


def test_no_url_carries_a_password() -> None:
    assert not re.findall(r"://[^/\s@]*:[^/\s@]*@", TEXT)


def test_what_the_image_copies_reaches_the_builder() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    allowed = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    copied = re.findall(r"^COPY (?!--)(\S+) ", dockerfile, re.MULTILINE)
    assert copied
    assert set(copied) <= set(allowed)


def test_the_image_is_of_the_locked_airflow() -> None:
    image = re.search(
        r"^FROM apache/airflow:([\d.]+)-python3\.11$", (ROOT / "Dockerfile").read_text(), re.M
    )
    assert image
    assert f"\napache-airflow=={image[1]} " in (ROOT / "requirements.txt").read_text()
