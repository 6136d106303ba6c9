"""Observation: reads all catalogs and indexes new snapshots in the ledgers."""
