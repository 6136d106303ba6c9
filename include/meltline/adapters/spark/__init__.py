"""Adapters on Spark: the session, SQL and snapshot reads, and expiration commits."""
