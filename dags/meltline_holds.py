"""Holds, by a form: nothing of what is held departs or is purged."""

from meltline.airflow import holds_dag

dag = holds_dag()
