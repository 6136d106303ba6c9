"""Chunks: time ranges of partitioned tables, their policies, and proof of their durability."""
