"""The control ledger's parts: one small protocol each."""
