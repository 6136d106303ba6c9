"""Catalogs whose rows point at metadata files that clients write: Hive's metastore and Glue."""
