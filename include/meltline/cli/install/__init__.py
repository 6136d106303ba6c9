"""Commands that come before a first run: the jars, and the DAG files of an Airflow."""
