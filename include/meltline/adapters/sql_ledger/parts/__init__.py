"""The control ledger's parts in SQL: each works on the database that it is given."""
