"""What is known of single files in cold: their digests, and how their store showed them."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table of copies; of those from before nothing is known, and they are read once."""
    op.create_table(
        "copies",
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("modified_at", sa.BigInteger, nullable=False),
        sa.Column("etag", sa.Text, nullable=False),
        sa.Column("from_source", sa.Boolean, nullable=False),
    )
