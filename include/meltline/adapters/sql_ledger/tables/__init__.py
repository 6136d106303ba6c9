"""The tables of the control ledger."""
