"""One module per revision of the schema, never changed after a release."""
