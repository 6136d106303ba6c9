"""Partitions by age: what is proved to be in cold leaves hot, behind a gate."""

from meltline.airflow import chunks_dag

dag = chunks_dag()
