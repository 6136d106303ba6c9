"""Building blocks of the files in `dags/`: the DAG and its defaults, its form, its verdict."""
