"""The weekly sweep: what no commit has named, and is old, begins to wait in failsafe."""

from meltline.airflow import orphan_sweep_dag

dag = orphan_sweep_dag()
