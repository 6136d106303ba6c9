"""That a person has armed the catalog: a ledger of before says so of none."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table. Until `meltline arm` is run, nothing is destroyed."""
    op.create_table(
        "arming",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("warehouse", sa.Text, nullable=False),
        sa.Column("nonce", sa.Text, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
