"""The root folders that the wheel carries inside the package: `dags`, `plugins`, `spark_apps`."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def bundled(folder: str) -> Path:
    """One of these folders: in the package, or in a checkout beside `include`."""
    inside = _PACKAGE / folder
    return inside if inside.is_dir() else _PACKAGE.parents[1] / folder
