"""Alembic's environment; `migrate.upgrade` runs it."""
