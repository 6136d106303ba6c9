"""Runs revisions on the connection that `migrate.upgrade` passes, in its transaction."""

from alembic import context

from meltline.adapters.sql_ledger.tables.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
