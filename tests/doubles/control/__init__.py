"""The control ledger in memory: small parts around one database."""
