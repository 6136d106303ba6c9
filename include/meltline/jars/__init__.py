"""The jars that Spark needs beside its own: their list, their folder, and how to fetch them.

Standard library only, without Spark: the set-up of a checkout uses it before anything is installed,
and Airflow uses it when Spark is in another environment.
"""
