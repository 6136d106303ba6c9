"""Tables as catalogs hold them: names, registrations, metadata, commits."""
