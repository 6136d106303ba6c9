"""The one exception tree. Every error names the object, what was expected, found, and what next."""

from meltline.domain.redaction import discreet
from meltline.domain.safe_text import visible

_HALF = 1_500  # letters of what was found that an error repeats from each end


def _shortened(text: str) -> str:
    return text if len(text) <= 2 * _HALF else f"{text[:_HALF]} … {text[-_HALF:]}"


class MeltlineError(Exception):
    """Something Meltline will not go on with.

    Attributes:
        message: One sentence for a person.
        object: What it is about: a table, a file, a plan, a configuration key.
        expected: What would have been right.
        found: What was there instead; of more than 3,000 letters the middle is left out.
        next: What the reader can do now.
        exit_code: The command's exit code when this error ends it.
        tells_all: Whether the message says what was expected, found, and what next, too.
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
        """The error for a person, each thing said once."""
        labels = () if self.tells_all else ("object", "expected", "found", "next")
        texts = {label: getattr(self, label) for label in labels}
        told = [f"  {f'{label}:':10}{visible(text)}" for label, text in texts.items() if text]
        message = visible(self.message, keep="\n" if self.tells_all else "")
        return [f"{self.type}: {message}", *told]

    def as_json(self) -> dict[str, str]:
        """The document that `--json` prints under `error`."""
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
    """A command was called with words that do not fit."""

    exit_code = 2


class HeldBack(MeltlineError):
    """A step that waits for a person, or for what stands in its way; nothing was done."""

    exit_code = 3


class AsOfInFuture(UsageInvalid):
    """`as_of` lies after the wall clock (PX-7)."""


class ClockRefused(MeltlineError):
    """The wall clock cannot be trusted: behind the ledger, or off the store's or database's."""


class NotASandbox(UsageInvalid):
    """A simulated clock or a zero grace was asked for outside a marked sandbox."""


class MetadataUnreadable(MeltlineError):
    """A metadata file, manifest list or manifest is missing, corrupt or contradicts itself."""


class ListChanged(MetadataUnreadable):
    """A manifest list whose bytes are not those that were read when it was recorded."""


class MetadataMissing(MetadataUnreadable):
    """A metadata file is not there: the store was asked, and has none of that name."""


class FormatUnsupported(MetadataUnreadable):
    """A table of a format, or with an encryption, that Meltline does not handle."""


class CatalogUnlistable(MeltlineError):
    """A catalog or namespace could not be listed completely: nothing is deleted anywhere."""


class TableNotFound(UsageInvalid):
    """No table of that name is in the configured catalogs."""


class NamespaceNotFound(UsageInvalid):
    """No namespace of that name is in the configured catalogs."""


class ObjectDropped(UsageInvalid):
    """The object has been dropped: undrop it first."""


class CatalogReadOnly(UsageInvalid):
    """A catalog, or one object of it, that Meltline reads and does not change."""


class RetentionOutOfRange(UsageInvalid):
    """A policy's value that the profile does not allow (TT-8)."""


class TransientImmutable(UsageInvalid):
    """`transient` can be set only while an object is new (ML-29)."""


class AutoMaintenanceDisabled(UsageInvalid):
    """A retention was set where nothing is managed."""


class SnapshotNotFound(UsageInvalid):
    """The table has no such snapshot, or has it no more (AR-44)."""


class OutsideRetention(UsageInvalid):
    """A point in time at which the table cannot be read: before its history, or to come."""


class BeforeCreation(OutsideRetention):
    """A point at or before the creation of the object (TT-38)."""


class ChildInsufficientRetention(OutsideRetention):
    """A schema or database has a table that cannot be read at that point any more (TT-36)."""


class CloneNotSupported(UsageInvalid):
    """The profile has no clones (ML-32)."""


class StatementNotFound(UsageInvalid):
    """Nobody knows of a statement with that id (TT-31)."""


class StatementNotCompleted(UsageInvalid):
    """The statement is still running, or has failed (TT-31)."""


class SqlUnreadable(UsageInvalid):
    """A statement of ours that is not right; says where, and what was expected."""


class StatementUnsupported(UsageInvalid):
    """A statement that is understood and that this release cannot carry out."""


class StatementRefused(UsageInvalid):
    """Spark refused a statement, or could not carry it out."""


class SchemaIncompatible(UsageInvalid):
    """A column has become something that its old values cannot be read as."""


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
    """The table has no consumer of that name."""


class ConsumerAhead(HeldBack):
    """A consumer moves forward; it stands further on, or on another line."""


class CommitConflict(MeltlineError):
    """Others committed first each time, or nobody knows whether the commit was made."""


class UndoRefused(HeldBack):
    """Moving that branch would lose commits that somebody made."""


class FilesClaimed(HeldBack):
    """A purge has begun to delete files that are wanted."""


class HoldInForce(HeldBack):
    """A hold forbids the step."""


class PlanNotFound(UsageInvalid):
    """No plan has that id, prefix or name."""


class RunNotFound(UsageInvalid):
    """No run has that id, prefix or name."""


class PlanAltered(HeldBack):
    """A stored plan's items no longer give its digest."""


class PlanStale(HeldBack):
    """The table moved so that the plan no longer describes what may be done."""


class GateNotPassed(HeldBack):
    """A destructive step was asked for without a passed, fresh gate for that digest."""


class ApprovalMissing(GateNotPassed):
    """A purge is larger than the configured limit and no person has approved it."""


class ApprovalRejected(ApprovalMissing):
    """A purge is larger than the configured limit and a person has said no to its files."""


class DeletedWhileNamed(MeltlineError):
    """Something came to name files between the last proof before their delete and that delete."""


class HeadChanged(MeltlineError):
    """After an expiration of ours a branch or tag shows something else than before it."""


class CommitUnproven(MeltlineError):
    """It cannot be told which refs came while a catalog carried out an expiration of ours."""


class LedgerOutOfStep(HeldBack):
    """The ledger's generation and the catalog's differ: an old backup came back, or it was lost."""


class Stopped(HeldBack):
    """`meltline stop` holds back every destructive step."""


class NotArmed(HeldBack):
    """Nobody has armed the hot catalog as it is now: nothing is destroyed in it."""


class LockHeld(MeltlineError):
    """Another run works on this group and did not finish within the wait."""


class LockLost(MeltlineError):
    """This run's lease ended or was taken over; it may not write any more."""


class StoreRefused(MeltlineError):
    """The object store refused or failed a request."""


class CredentialsMissing(StoreRefused):
    """Nobody has given keys for a store: not the configuration, environment, catalog or machine."""


class CredentialsExpired(StoreRefused):
    """The keys or tokens with which a store was asked have ended, or were taken back."""


class PolicyUnread(MeltlineError):
    """A catalog's policy store did not say what applies to a table: nothing of it expires."""


class SetupMissing(MeltlineError):
    """Something a run needs is not there: Java, a jar, an initialised ledger."""


class MissingExtra(SetupMissing):
    """A package is not installed that comes with one of Meltline's extras."""


class ExecutorsUnfit(SetupMissing):
    """Spark's executors lack what our code needs, or see other folders than the driver does."""


class ConnectRefused(UsageInvalid):
    """The session is one of Spark Connect, or would be: no JVM by which to commit comes with it."""


class DriverUnavailable(MeltlineError):
    """No driver took a run's step, and nothing of the step was run."""


class DriverLost(MeltlineError):
    """The driver of a run ended while it ran a step: nobody heard how far the step came."""


class PolicyExists(UsageInvalid):
    """The table has such a policy of chunks already."""


class InvalidHorizons(UsageInvalid):
    """Ages of chunk policies that contradict each other."""


class NotChunked(UsageInvalid):
    """The table is not cut into chunks by time, or nobody said how."""


class ChunkNotFound(UsageInvalid):
    """The table has no such chunk, or it is not in the state that was asked for."""


class SyncRefused(HeldBack):
    """Replication of a table cannot go on as it is.

    Attributes:
        reason: One word for it; with some of them only a person can go on.
    """

    reason = ""


class RollupInvalid(UsageInvalid):
    """A rollup cannot be declared, refreshed or dropped like that."""


class RollupNotFound(UsageInvalid):
    """There is no rollup of that name."""


class RollupRefused(MeltlineError):
    """A rollup cannot be refreshed as it, or its source, is."""


class LateDataRejected(HeldBack):
    """A statement reaches into ranges of time that were dropped: none of it was carried out."""


class ColdMissing(UsageInvalid):
    """No cold tier is configured, and something is to go there or to come from there."""


class NotDropped(UsageInvalid):
    """Nothing of that name can be brought back: it was never dropped, or nobody has noticed yet."""


class ContainerDropped(UsageInvalid):
    """The schema or database of the object has been dropped: undrop that first (TT-53)."""


class NamespaceNotEmpty(UsageInvalid):
    """A namespace that was to go holds what Meltline cannot move, a view for one."""


class RecoveryImpossible(MeltlineError):
    """What was asked for is not in failsafe, or too much of it is gone."""
