"""Chunks: time ranges of partitioned tables, their policies, and what proves them durable."""
