"""People's words for tables that cannot be read, and guards that are no longer needed.

Both were read out of the audit before, by name. Nothing is carried over: what a word was for, the
audit cannot tell, so it must be given anew.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds a table for each."""
    op.create_table(
        "vouched",
        sa.Column("table", sa.Text, primary_key=True),
        sa.Column("location", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=True),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_table("lifted_guards", sa.Column("table_uuid", sa.Text, primary_key=True))
