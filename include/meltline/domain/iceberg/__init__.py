"""Iceberg as its spec has it: metadata, files, names, locations, histories."""
