"""To which epochs the catalog was set."""

from collections.abc import Sequence

from sqlalchemy import func, insert, select, update

from meltline.adapters.sql_ledger.database import Database
from meltline.adapters.sql_ledger.rows import from_row, to_row
from meltline.adapters.sql_ledger.tables.decision_tables import epochs
from meltline.domain.epochs import Epoch


class EpochRows(Database):
    """The port `EpochLedger`."""

    def epochs(self, since: int | None = None) -> Sequence[Epoch]:
        """By number, from this one on; None is from the newest that was confirmed."""
        newest = select(func.coalesce(func.max(epochs.c.number), 0)).where(epochs.c.confirmed)
        first = newest.scalar_subquery() if since is None else since
        wanted = select(epochs).where(epochs.c.number >= first)
        with self._reading() as connection:
            rows = connection.execute(wanted.order_by(epochs.c.number, epochs.c.nonce)).all()
        return [from_row(Epoch, row) for row in rows]

    def add_epoch(self, epoch: Epoch) -> None:
        """Notes an epoch to which the catalog is about to be set."""
        with self._writing() as connection:
            connection.execute(insert(epochs), to_row(epoch))

    def confirm_epoch(self, nonce: str) -> None:
        """The catalog was set to it."""
        with self._writing() as connection:
            known = update(epochs).where(epochs.c.nonce == nonce)
            connection.execute(known.values(confirmed=True))

    def has_epoch(self, why: str) -> bool:
        """Whether one that began with this was confirmed."""
        wanted = select(epochs.c.nonce).where(epochs.c.why == why, epochs.c.confirmed).limit(1)
        with self._reading() as connection:
            return connection.execute(wanted).first() is not None
