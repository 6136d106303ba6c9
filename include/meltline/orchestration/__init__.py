"""How Airflow sees Meltline: the operator behind each step, the `as_of` rule, the verdict."""
