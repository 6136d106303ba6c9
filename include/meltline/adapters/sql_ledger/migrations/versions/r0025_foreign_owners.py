"""Foreign owners: signs in folders that somebody uses them whom no catalog shows."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the two tables. Sweeps fill the first, and purges of folders never looked at."""
    op.create_table(
        "foreign_signs",
        *(sa.Column(key, sa.Text, primary_key=True) for key in ("root", "id", "kind", "path")),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "allowed_owners",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
