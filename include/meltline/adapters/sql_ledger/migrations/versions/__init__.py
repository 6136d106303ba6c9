"""One module per revision of the schema, never changed once it is released."""
