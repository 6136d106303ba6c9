"""Implementations of the ports: databases, catalogs, object stores, engines; some in memory."""
