"""To which epochs the catalog was set, so that an old backup of this ledger is known for one."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table. The first epoch begins with the next decision or run."""
    op.create_table(
        "epochs",
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("nonce", sa.Text, primary_key=True),
        sa.Column("why", sa.Text, nullable=False, index=True),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("confirmed", sa.Boolean, nullable=False),
    )
    op.create_index("ix_epochs_number", "epochs", ["number"])
