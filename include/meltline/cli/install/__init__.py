"""Commands before a first run: the ledgers, the jars, the DAG files of an Airflow."""
