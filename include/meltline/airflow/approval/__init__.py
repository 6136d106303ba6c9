"""How a person is asked in Airflow about one large purge: a run, a question, an answer."""
