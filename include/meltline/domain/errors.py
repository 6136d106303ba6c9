"""All exceptions. Each one names its object, the expected and found state, and the next step."""

from meltline.domain.redaction import discreet
from meltline.domain.safe_text import visible

_HALF = 1_500  # characters that an error repeats from each end of the found state


def _shortened(text: str) -> str:
    return text if len(text) <= 2 * _HALF else f"{text[:_HALF]} … {text[-_HALF:]}"


class MeltlineError(Exception):
    """The base class: an operation was refused or failed.

    Attributes:
        message: One sentence for people.
        object: The subject: a table, a file, a plan, a configuration key.
        expected: The state that would be valid.
        found: The actual state; of more than 3,000 characters the middle is omitted.
        next: The next step for the user.
        exit_code: The command's exit code if this error ends it.
        tells_all: Whether the message already contains the expected and found state, and the next
            step.
    """

    exit_code = 1
    tells_all = False

    def __init__(
        self,
        message: str,
        *,
        object: str = "",
        expected: str = "",
        found: str = "",
        next: str = "",
    ) -> None:
        self.message = discreet(message)
        super().__init__(self.message)
        self.object = discreet(object)
        self.expected = discreet(expected)
        self.found = _shortened(discreet(found))
        self.next = discreet(next)

    @property
    def type(self) -> str:
        """The error's name, as printed in `--json`."""
        return type(self).__name__

    @property
    def lines(self) -> list[str]:
        """The error for people, without repetition."""
        labels = () if self.tells_all else ("object", "expected", "found", "next")
        texts = {label: getattr(self, label) for label in labels}
        told = [f"  {f'{label}:':10}{visible(text)}" for label, text in texts.items() if text]
        message = visible(self.message, keep="\n" if self.tells_all else "")
        return [f"{self.type}: {message}", *told]

    def as_json(self) -> dict[str, str]:
        """Returns the JSON object that `--json` prints under `error`."""
        return {
            "type": self.type,
            "message": self.message,
            "object": self.object,
            "expected": self.expected,
            "found": self.found,
            "next": self.next,
        }


class ConfigInvalid(MeltlineError):
    """`meltline.yaml` is missing, unreadable, or has an unknown key or a bad value."""

    exit_code = 2


class UsageInvalid(MeltlineError):
    """A command was called with invalid arguments."""

    exit_code = 2


class HeldBack(MeltlineError):
    """A step waits for an operator, or for an obstacle to be removed; nothing was done."""

    exit_code = 3


class AsOfInFuture(UsageInvalid):
    """`as_of` is later than the wall clock (PX-7)."""


class ClockRefused(MeltlineError):
    """The wall clock is not trustworthy: behind the ledger, or off the store's or database's."""


class NotASandbox(UsageInvalid):
    """A simulated clock or a zero grace was requested outside a marked sandbox."""


class MetadataUnreadable(MeltlineError):
    """A metadata file, manifest list or manifest is missing, corrupt or contradicts itself."""


class ListChanged(MetadataUnreadable):
    """A manifest list's bytes differ from those that were read when it was recorded."""


class MetadataMissing(MetadataUnreadable):
    """A metadata file does not exist: the store was asked, and has no such object."""


class FormatUnsupported(MetadataUnreadable):
    """The table's format or encryption is not supported."""


class CatalogUnlistable(MeltlineError):
    """A catalog or namespace could not be listed completely: nothing is deleted anywhere."""


class TableNotFound(UsageInvalid):
    """No such table exists in the configured catalogs."""


class NamespaceNotFound(UsageInvalid):
    """No such namespace exists in the configured catalogs."""


class ObjectDropped(UsageInvalid):
    """The object is dropped: undrop it first."""


class CatalogReadOnly(UsageInvalid):
    """Meltline may read a catalog, or an object in it, but not change it."""


class RetentionOutOfRange(UsageInvalid):
    """A policy's value is outside the range of the profile (TT-8)."""


class TransientImmutable(UsageInvalid):
    """`transient` can be set only while an object is new (ML-29)."""


class AutoMaintenanceDisabled(UsageInvalid):
    """A retention was set on an object that is not managed."""


class SnapshotNotFound(UsageInvalid):
    """The table does not have this snapshot, or no longer has it (AR-44)."""


class OutsideRetention(UsageInvalid):
    """The table cannot be read at that time: before its history, or in the future."""


class BeforeCreation(OutsideRetention):
    """A time at or before the creation of the object (TT-38)."""


class ChildInsufficientRetention(OutsideRetention):
    """A table of the schema or database can no longer be read at that time (TT-36)."""


class CloneNotSupported(UsageInvalid):
    """The profile has no clones (ML-32)."""


class StatementNotFound(UsageInvalid):
    """No statement with that id is known (TT-31)."""


class StatementNotCompleted(UsageInvalid):
    """The statement is still running, or has failed (TT-31)."""


class SqlUnreadable(UsageInvalid):
    """A statement in our own syntax is invalid; says where, and what was expected."""


class StatementUnsupported(UsageInvalid):
    """A statement is valid, but not supported in this release."""


class StatementRefused(UsageInvalid):
    """Spark refused a statement, or failed to run it."""


class SchemaIncompatible(UsageInvalid):
    """A column's type changed so that its old values can no longer be read."""


class LeaseNotFound(UsageInvalid):
    """No lease has that id, or it has ended."""


class LeaseLost(MeltlineError):
    """A reader's lease ended while it was reading."""


class RefNotFound(UsageInvalid):
    """The table has no such branch or tag."""


class NameConflict(UsageInvalid):
    """The name is taken, or reserved."""


class ShareNotFound(UsageInvalid):
    """No share has that name."""


class HoldNotFound(UsageInvalid):
    """No hold has that id."""


class ConsumerNotFound(UsageInvalid):
    """The table has no such consumer."""


class ConsumerAhead(HeldBack):
    """A consumer only moves forward; it is at a later snapshot, or in another linear history."""


class CommitConflict(MeltlineError):
    """Other writers committed first at each attempt, or the commit's outcome is unknown."""


class UndoRefused(HeldBack):
    """Moving that branch would lose other writers' commits."""


class FilesClaimed(HeldBack):
    """A purge has begun to delete files that are needed again."""


class HoldInForce(HeldBack):
    """A hold forbids the step."""


class PlanNotFound(UsageInvalid):
    """No plan has that id, prefix or name."""


class RunNotFound(UsageInvalid):
    """No run has that id, prefix or name."""


class PlanAltered(HeldBack):
    """The items of a stored plan no longer match its digest."""


class PlanStale(HeldBack):
    """The table has changed, so that the plan no longer applies."""


class GateNotPassed(HeldBack):
    """A destructive step was requested without a passed, fresh gate for that digest."""


class ApprovalMissing(GateNotPassed):
    """A purge is larger than the configured limit and no operator has approved it."""


class ApprovalRejected(ApprovalMissing):
    """A purge is larger than the configured limit and an operator has rejected it."""


class DeletedWhileNamed(MeltlineError):
    """Files were referenced again between the last proof before their delete and that delete."""


class HeadChanged(MeltlineError):
    """A branch or tag shows another snapshot after an expiration of ours than before it."""


class CommitUnproven(MeltlineError):
    """It is unknown which refs were created while a catalog committed an expiration of ours."""


class LedgerOutOfStep(HeldBack):
    """The ledger's and the catalog's generations differ: a restored backup, or a lost ledger."""


class Stopped(HeldBack):
    """The stop switch, `meltline stop`, blocks every destructive step."""


class NotArmed(HeldBack):
    """The hot catalog is not armed in its current state: nothing is destroyed in it."""


class LockHeld(MeltlineError):
    """Another run works on this sharing group and did not finish within the wait."""


class LockLost(MeltlineError):
    """This run's lease ended or was taken over; it may no longer write."""


class StoreRefused(MeltlineError):
    """The object store refused or failed a request."""


class CredentialsMissing(StoreRefused):
    """No credentials for a store, in the configuration, environment, catalog or machine."""


class CredentialsExpired(StoreRefused):
    """The keys or tokens for a store have expired or were revoked."""


class PolicyUnread(MeltlineError):
    """A catalog's policy store did not return a table's policies: nothing of the table expires."""


class SetupMissing(MeltlineError):
    """A prerequisite of a run is missing: Java, a jar, an initialised ledger."""


class MissingExtra(SetupMissing):
    """A package from one of Meltline's extras is not installed."""


class ExecutorsUnfit(SetupMissing):
    """Spark's executors lack what our code needs, or see other folders than the driver."""


class ConnectRefused(UsageInvalid):
    """The session uses Spark Connect, or would: it has no JVM to commit through."""


class DriverUnavailable(MeltlineError):
    """No driver accepted a run's step, and nothing of the step was run."""


class DriverLost(MeltlineError):
    """The driver of a run ended during a step: the step's progress is unknown."""


class PolicyExists(UsageInvalid):
    """The table already has such a chunk policy."""


class InvalidHorizons(UsageInvalid):
    """Ages of chunk policies contradict each other."""


class NotChunked(UsageInvalid):
    """The table is not split into chunks by time, or its chunk layout is not declared."""


class ChunkNotFound(UsageInvalid):
    """The table has no such chunk, or it is not in the requested state."""


class SyncRefused(HeldBack):
    """Replication of a table cannot continue in its current state.

    Attributes:
        reason: A code; for some of them only an operator can resume.
    """

    reason = ""


class RollupInvalid(UsageInvalid):
    """A rollup cannot be declared, refreshed or dropped in this way."""


class RollupNotFound(UsageInvalid):
    """No such rollup exists."""


class RollupRefused(MeltlineError):
    """A rollup cannot be refreshed in its current state, or its source's."""


class LateDataRejected(HeldBack):
    """A statement writes to dropped time ranges: none of it was carried out."""


class ColdMissing(UsageInvalid):
    """An operation needs a cold tier, and none is configured."""


class NotDropped(UsageInvalid):
    """The object cannot be restored: not dropped, or the drop was not observed yet."""


class ContainerDropped(UsageInvalid):
    """The schema or database of the object is dropped: undrop that first (TT-53)."""


class NamespaceNotEmpty(UsageInvalid):
    """A namespace to be dropped contains objects that Meltline cannot move, such as a view."""


class RecoveryImpossible(MeltlineError):
    """The requested files are not in failsafe, or too many of them are deleted."""
