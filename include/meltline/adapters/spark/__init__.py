"""Adapters on Spark: the session, the file ledger, expiration commits, bulk deletes."""
