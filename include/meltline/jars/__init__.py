"""The jars that Spark needs beside its own: which they are, where they lie, how they get there.

Standard library only, and nothing of Spark: the set-up of a checkout uses it before anything is
installed, and Airflow where Spark is in another environment.
"""
