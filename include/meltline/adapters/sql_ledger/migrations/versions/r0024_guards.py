"""Guards: what Meltline, or a person, did about the gc.enabled of a registration.

Until now only lifted guards were recorded. Tables that share files have their guard from Meltline;
where the table's own mark is missing, the setting is its owner's all the same.
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_BEFORE = "'', 'recorded by an earlier release', 0"


def upgrade() -> None:
    """Adds the table, and takes over what is known."""
    op.create_table(
        "guards",
        sa.Column("table_uuid", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    lifted = f"SELECT table_uuid, 'lifted', {_BEFORE} FROM lifted_guards"
    sharing = "SELECT table_uuid FROM sharing UNION SELECT other_uuid FROM sharing"
    op.execute(f"INSERT INTO guards {lifted}")
    op.execute(f"INSERT INTO guards SELECT table_uuid, 'set', {_BEFORE} FROM ({sharing}) AS shared")
    op.drop_table("lifted_guards")
