"""By what name something refers to a file that is withheld: a claimant, no longer `other`."""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Renames the column; the key and the rows stay."""
    op.execute("ALTER TABLE withheld RENAME COLUMN other TO claimant")
