"""Which batch of its run each plan belongs to."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the plans' batch; plans that were made before batches are of the first one."""
    op.add_column(
        "plans", sa.Column("batch", sa.Integer, nullable=False, server_default=sa.text("1"))
    )
