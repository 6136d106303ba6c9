"""How often a refused plan was planned again: it is one plan, not one each night."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column; plans of before were never counted."""
    op.add_column(
        "plans", sa.Column("repeats", sa.Integer, nullable=False, server_default=sa.text("0"))
    )
