"""Human-in-the-loop approval of one large purge: a DAG run, a question, an answer."""
