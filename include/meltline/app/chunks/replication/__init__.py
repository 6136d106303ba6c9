"""Replication of tables to cold: declared, carried out pass by pass, and held together."""
