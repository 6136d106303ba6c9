"""The control ledger in SQL, all its parts in one class."""

from meltline.adapters.sql_ledger.batches import BatchRows
from meltline.adapters.sql_ledger.copies import CopyRows
from meltline.adapters.sql_ledger.decisions import DecisionRows
from meltline.adapters.sql_ledger.epochs import EpochRows
from meltline.adapters.sql_ledger.incidents import IncidentRows
from meltline.adapters.sql_ledger.journal import Journal
from meltline.adapters.sql_ledger.objects import ObjectRows
from meltline.adapters.sql_ledger.plans import PlanRows


class SqlControlLedger(
    ObjectRows, DecisionRows, EpochRows, CopyRows, PlanRows, BatchRows, IncidentRows, Journal
):
    """`ports.ControlLedger` on an SQLite file or a Postgres database.

    Every method is one transaction. Any of them raises SetupMissing on a ledger that was never
    prepared, and where the database does not answer.
    """
