"""Meltline in Airflow 3: the code behind the DAG files in `dags/`, and the plugin.

`meltline airflow init DIR` writes these files into a DAGs folder.
"""
