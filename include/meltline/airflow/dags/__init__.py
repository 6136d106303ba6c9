"""What the files of `dags/` are made of: the DAG and its defaults, its form, its verdict."""
