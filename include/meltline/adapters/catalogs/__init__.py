"""Catalogs through PyIceberg."""
