"""Replication to cold, every few minutes: synced tables have there what main has here."""

from meltline.airflow import replicate_dag

dag = replicate_dag()
