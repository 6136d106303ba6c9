"""Adapters to Iceberg itself: manifest files, catalogs, the ledger's tables read without a JVM."""
