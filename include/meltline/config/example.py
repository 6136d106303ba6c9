"""Writes the commented example configuration for a new installation.

`meltline init` calls it.
"""

import json
from importlib.resources import files
from pathlib import Path

from meltline.config.load import json_schema
from meltline.domain.errors import UsageInvalid

SCHEMA = "meltline.schema.json"


def write_example(config: Path) -> Path:
    """Writes a configuration with every key, and beside it the JSON Schema for editors.

    Args:
        config: The path of the configuration; an existing file is never overwritten.

    Returns:
        The path of the schema.

    Raises:
        UsageInvalid: A configuration exists already.
    """
    text = files("meltline.config").joinpath("example.yaml").read_text("utf-8")
    config.parent.mkdir(parents=True, exist_ok=True)
    try:
        with config.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as there:
        raise UsageInvalid(
            "there is a configuration",
            object=str(config),
            expected="no file of that name",
            found="one, which stays as it is",
            next="name another place with --config, or edit this one",
        ) from there
    schema = config.with_name(SCHEMA)
    schema.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    return schema
