"""The daily lifecycle: what expires leaves its table, waits in failsafe, is deleted."""

from meltline.airflow import lifecycle_dag

dag = lifecycle_dag()
