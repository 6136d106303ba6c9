"""Who has leased what and for how long, and the statements that were run."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the columns of leases, and the table of statements."""
    op.add_column("leases", _text("table", server_default=""))
    op.add_column("leases", _text("who", server_default=""))
    op.add_column(
        "leases", sa.Column("ttl_ms", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    )
    op.create_table(
        "statements",
        _text("id", primary_key=True),
        _text("kind"),
        _text("who"),
        _text("state"),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("completed_at", sa.BigInteger, nullable=True),
    )


def _text(name: str, **options: bool | str) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=False, **options)  # type: ignore[arg-type]
