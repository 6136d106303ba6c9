"""Locates the root folders that the wheel bundles: `dags`, `plugins`, `spark_apps`.

The DAGs and `meltline airflow init` use it; both also work from a checkout.
"""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def bundled(folder: str) -> Path:
    """Returns the path of such a folder: inside the package, or beside `include` in a checkout."""
    inside = _PACKAGE / folder
    return inside if inside.is_dir() else _PACKAGE.parents[1] / folder
