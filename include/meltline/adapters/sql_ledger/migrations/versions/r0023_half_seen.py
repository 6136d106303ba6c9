"""Places where a catalog shows only a part of what is needed: nothing there is ever deleted."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table. The next observation fills it."""
    op.create_table(
        "half_seen",
        sa.Column("place", sa.Text, primary_key=True),
        sa.Column("catalog", sa.Text, nullable=False),
    )
