"""REST catalogs: the protocol, their tables, expirations that lose no ref, and a server probe."""
