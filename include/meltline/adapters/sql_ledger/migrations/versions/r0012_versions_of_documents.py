"""Which object a remembered metadata file was: its path may be used again, by one as long."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column; a document without a version is read again."""
    op.add_column(
        "metadata_documents",
        sa.Column("version", sa.Text, nullable=False, server_default=sa.text("''")),
    )
