"""Meltline's DAGs for any Airflow 3: a file of three lines in the DAGs folder makes each.

    from meltline.airflow import lifecycle_dag

    dag = lifecycle_dag()

`meltline airflow init DIR` writes these files. Only the DAG that is asked for is loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meltline.airflow.approval import approval_dag
    from meltline.airflow.chunks import chunks_dag
    from meltline.airflow.holds import holds_dag
    from meltline.airflow.lifecycle import lifecycle_dag
    from meltline.airflow.orphan_sweep import orphan_sweep_dag
    from meltline.airflow.replicate import replicate_dag
    from meltline.airflow.restore import restore_dags

__all__ = [
    "approval_dag",
    "chunks_dag",
    "holds_dag",
    "lifecycle_dag",
    "orphan_sweep_dag",
    "replicate_dag",
    "restore_dags",
]


def __getattr__(name: str) -> Any:
    """A function of the module that is named after it: `lifecycle_dag` of `lifecycle`."""
    if name not in __all__:
        raise AttributeError(f"module 'meltline.airflow' has no attribute {name!r}")
    module = import_module(f"meltline.airflow.{name.rpartition('_')[0]}")
    return getattr(module, name)
