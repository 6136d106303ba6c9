"""Observing tables into the ledgers."""
