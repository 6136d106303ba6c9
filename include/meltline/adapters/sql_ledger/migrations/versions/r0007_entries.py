"""Registrations of tables have ids of their own: Iceberg's UUID is shared by copies."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the ids that were given; a table that was known by its UUID keeps that as its id."""
    op.create_table(
        "entries",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("table_uuid", sa.Text, nullable=False),
    )
    for column in ("table_uuid", "newest"):
        op.add_column(
            "tables", sa.Column(column, sa.Text, nullable=False, server_default=sa.text("''"))
        )
    op.execute("UPDATE tables SET table_uuid = uuid")
    op.execute("INSERT INTO entries (id, table_uuid) SELECT DISTINCT uuid, uuid FROM tables")
