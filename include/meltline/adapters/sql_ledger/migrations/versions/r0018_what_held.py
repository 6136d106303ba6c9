"""What a gate found where an expectation held, too: its page has every value beside its limit."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column; of what was judged before only what failed is known."""
    op.add_column(
        "gate_results",
        sa.Column("held", sa.Text, nullable=False, server_default=sa.text("'[]'")),
    )
