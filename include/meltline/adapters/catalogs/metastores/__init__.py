"""Metastore catalogs, Hive and Glue, whose rows point at metadata files that clients write."""
