"""The control ledger in SQL: SQLite by default, Postgres in production."""
