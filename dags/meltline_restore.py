"""Undrop, rollback, recover and clone, a form for each: the past comes back."""

from meltline.airflow import restore_dags

undrop, rollback, recover, clone = restore_dags()
