"""What stands behind the ports: databases, catalogs, object stores, engines; some in memory."""
