"""The compose file, as Docker reads it: variables put in, parsed, and its services by name."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docker-compose.yaml"
EXAMPLE = ROOT / "deploy" / ".env.example"

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?::(?P<rule>[-?])(?P<word>[^}]*))?\})")
_SETTING = re.compile(r"^(?:# )?(?P<name>[A-Z][A-Z0-9_]*)=(?P<value>\S*)$", re.MULTILINE)


def variables(text: str) -> dict[str, str | None]:
    """The rule of each variable that a text asks for: `-` has a default, `?` must be set."""
    return {found["name"]: found["rule"] for found in _VARIABLE.finditer(text) if found["name"]}


def interpolated(text: str, environment: Mapping[str, str]) -> str:
    """The text with the variables of the environment put in.

    Raises:
        LookupError: One that must be set is not.
    """

    def value(found: re.Match[str]) -> str:
        if found["name"] is None:
            return "$"
        if text := environment.get(found["name"]):
            return text
        if found["rule"] == "-":
            return str(found["word"])
        raise LookupError(found["word"] or f"{found['name']} is not set")

    return _VARIABLE.sub(value, text)


def example_settings(*, commented: bool) -> dict[str, str]:
    """What `.env.example` sets, or what it shows as a comment."""
    lines = EXAMPLE.read_text().splitlines()
    chosen = "\n".join(line for line in lines if line.startswith("# ") == commented)
    return {found["name"]: found["value"] for found in _SETTING.finditer(chosen)}


TEXT = FILE.read_text()
RAW: dict[str, Any] = yaml.safe_load(TEXT)
"""As it stands there, with its variables."""
SERVICES: dict[str, dict[str, Any]] = RAW["services"]


def bind_or_volume(volume: str | Mapping[str, str]) -> tuple[str, str]:
    """Source and target of a mount, whichever way it is written."""
    if not isinstance(volume, str):
        return volume["source"], volume["target"]
    source, target = volume.split(":")[:2]
    return source, target


def mounts(service: str) -> list[tuple[str, str]]:
    """Source and target of each mount of a service."""
    return [bind_or_volume(volume) for volume in SERVICES[service].get("volumes", [])]
