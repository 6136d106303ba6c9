"""Asks a person about one purge above the limit, and carries it out when they approve."""

from meltline.airflow import approval_dag

dag = approval_dag()
