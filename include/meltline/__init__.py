"""Meltline decides what melts, and when: the storage lifecycle of Apache Iceberg tables."""

__version__ = "0.1.0"
