"""Iceberg as its spec defines it: metadata, files, names, locations, histories."""
