"""The control ledger's parts in SQL, each on the given database."""
