"""People's no to purges above the limit, each to one digest."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "rejections",
        sa.Column("seq", number, primary_key=True),
        sa.Column("plan_id", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_rejections_digest", "rejections", ["digest"])
