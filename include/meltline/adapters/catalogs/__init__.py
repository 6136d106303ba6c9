"""Catalog adapters for SQL, REST, Hive and Glue, through PyIceberg and the metastores' clients."""
