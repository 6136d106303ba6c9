"""Replication of hot tables to cold: declaring a sync, its passes, and its conflicts."""
