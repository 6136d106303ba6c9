"""What engines, people and other tools may do to the tables of a lake, chosen by small numbers.

Each action takes a table and a number to choose with; where it does not fit, nothing happens.
"""

from collections.abc import Callable
from itertools import count

from meltline.app.drop.external_drops import gone_tables
from meltline.domain.clock import CLOCK_TOLERANCE
from meltline.domain.iceberg.files import DepartureState, FileKind
from meltline.domain.iceberg.names import TableName
from tests.lake.copies import copied, rewritten_with_log
from tests.lake.dark_table import DarkTable
from tests.lake.lake import OUTSIDE, WAREHOUSE, Table
from tests.lake.streaming import flink_mark, kafka_mark, spark_mark
from tests.lives.oracle import MAIN, Document, Story, on_branches
from tests.lives.random_commands import Commands, chosen
from tests.lives.strangers import Strangers, allow_the_gone
from tests.lives.watched_lake import ENABLED, HOLD, WatchedLake

DAY_MS = 86_400_000
MOST_TABLES = 4

WRITES = (
    "append", "append", "merge_append", "overwrite", "copy_on_write", "delete_rows",
    "replace_deletes", "compact", "rewrite_manifests", "append_again", "append_twice", "statistics",
    "commit_on_branch", "stage", "cherry_pick", "start_over", "evolve", "stream", "stream",
)  # fmt: skip
REFS = ("branch", "tag", "hold_tag", "drop_ref", "publish", "catch_up", "rollback", "rollback")
OTHERS: tuple[str, ...] = (
    "expire_elsewhere", "expire_elsewhere", "expire_and_delete", "clone", "register_again",
    "register_old", "rename", "drop", "undrop", "create", "create_inside", "create_outside",
    "leave", "leave",
    "commit_late", "write_again", "hide", "replace_hidden", "add_through_a_link", "link_a_file",
)  # fmt: skip
# What leaves one UUID with other files, or with an older state.
COPIES = ("copy_table", "copy_table", "move_table", "rewrite_in_place", "set_back")
PEOPLE = (
    "hold", "let_go", "hold_all", "lease", "retention", "writer_keep", "fewest", "ref_age",
    "opt_out", "opt_in", "spoil", "mend", "unlist", "list_again", "drop_by_command",
    "undrop_by_command",
    "clone_by_command", "clone_by_command", "share", "share", "update_share", "write_to_share",
    "drop_share", "vouch", "name_the_root", "read_on", "read_on", "read_again", "stop_reading",
)  # fmt: skip
WITHOUT_A_TABLE = (
    "undrop", "undrop_by_command", "mend", "list_again", "create", "update_share",
    "write_to_share", "drop_share", "hide", "vouch", "create_outside", "name_the_root",
)  # fmt: skip


class Engines:
    """Acts on a watched lake."""

    def __init__(self, lake: WatchedLake) -> None:
        self.lake = lake
        self._numbers = count(1)
        self._gone: list[tuple[TableName, str]] = []  # its name and last metadata
        self._spoilt: dict[str, bytes] = {}
        self._dark = DarkTable(lake)
        self._commands = Commands(lake, self.new_file, self._free_name)
        self._strangers = Strangers(lake, self.new_file)

    def act(self, action: str, table: int, number: int) -> None:
        """One action on one of the tables there are."""
        actor = next((a for a in (self._commands, self._strangers) if hasattr(a, action)), self)
        if action in WITHOUT_A_TABLE:
            getattr(actor, action)(number)
        elif tables := self.lake.tables():
            getattr(actor, action)(chosen(tables, table), number)

    def new_file(self) -> str:
        return f"f{next(self._numbers)}"

    # --- writes --------------------------------------------------------------------------------

    def append(self, table: Table, number: int) -> None:
        table.append(*(self.new_file() for _ in range(1 + number % 2)))

    def merge_append(self, table: Table, number: int) -> None:
        table.append(self.new_file(), merge=True)

    def overwrite(self, table: Table, number: int) -> None:
        table.overwrite(self.new_file())

    def copy_on_write(self, table: Table, number: int) -> None:
        if data := self._live(table, FileKind.DATA):
            old, merge = chosen(data, number), number % 2 > 0
            table.replace(remove=[old], add=[self.new_file()], operation="overwrite", merge=merge)

    def delete_rows(self, table: Table, number: int) -> None:
        if table.version == 1 or not self._live(table, FileKind.DATA):
            return
        if table.version == 3:
            table.delete_rows(self.new_file(), kind=FileKind.DELETION_VECTOR, count=1 + number % 3)
        else:
            kind = chosen((FileKind.POSITION_DELETE, FileKind.EQUALITY_DELETE), number)
            table.delete_rows(self.new_file(), kind=kind)

    def replace_deletes(self, table: Table, number: int) -> None:
        """A delete file is written anew, together with the old one's rows."""
        kind = FileKind.DELETION_VECTOR if table.version == 3 else FileKind.POSITION_DELETE
        if old := self._live(table, kind):
            table.replace(remove=[chosen(old, number)], add=[self.new_file()], kind=kind)

    def compact(self, table: Table, number: int) -> None:
        if table.live():
            table.compact(self.new_file())

    def rewrite_manifests(self, table: Table, number: int) -> None:
        if table.live():
            table.rewrite_manifests()

    def append_again(self, table: Table, number: int) -> None:
        """A path that some commit named before: alive, removed, or long deleted."""
        ours = f"{table.location}/data/"
        ever = sorted(
            p for p in self.lake.last_needed if p.startswith(ours) and p[-8:] == ".parquet"
        )
        if ever:
            table.append(chosen(ever, number))

    def leave(self, table: Table, number: int) -> None:
        """A writer writes a file and dies."""
        path = table.data(self.new_file())
        self.lake.store.write(path, b"d" * (100 + len(path)))
        self.lake.leave(path)

    def write_again(self, table: Table, number: int) -> None:
        """A writer puts a new object under the path of a file that waits in failsafe.

        Later than clocks may differ: before that it is taken for the old one (safety.md).
        Where a table needs that file through a link, a person puts it back once: the new one is
        longer than its manifest says, so that it cannot be handed over to cold.
        """
        now, here = self.lake.clock.moment, f"{table.location}/data/"
        waiting = self.lake.files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
        long_ago = [d.path for d in waiting if d.departed_at < now - CLOCK_TOLERANCE]
        old = sorted(path for path in long_ago if path.startswith(here))
        if old and (size := self.lake.store.size(path := chosen(old, number // 2))) is not None:
            if number % 2 and path in self.lake.needed_places():
                self._spoilt[path] = self.lake.store.read(path)
            self.lake.write_again(path, b"n" * (size + number % 2))

    def commit_late(self, table: Table, number: int) -> None:
        """A writer commits what it wrote long ago, as far as it is still there."""
        here = f"{table.location}/data/"
        left = [p for p in sorted(self.lake.strays) if self.lake.store.size(p) is not None]
        if mine := [path for path in left if path.startswith(here)]:
            table.append(chosen(mine, number))

    def append_twice(self, table: Table, number: int) -> None:
        """The same path, of any table, while it is alive somewhere: `add_files` does that."""
        data = [path for other in self.lake.tables() for path in self._live(other, FileKind.DATA)]
        if data:
            table.append(chosen(data, number))

    def add_through_a_link(self, table: Table, number: int) -> None:
        """A file of any table, by another name of its folder: `add_files` does that."""
        if found := self._any_live(number):
            folder, _, name = found.rpartition("/")
            table.append(f"{self._linked(f'{folder}/')}{name}")

    def link_a_file(self, table: Table, number: int) -> None:
        """A file of any table, by a link of its own."""
        if found := self._any_live(number):
            link = f"{WAREHOUSE}/links/{self.new_file()}.parquet"
            self.lake.store.links[link] = self.lake.store.real_path(found)
            table.append(link)

    def _any_live(self, number: int) -> str:
        data = [path for other in self.lake.tables() for path in self._live(other, FileKind.DATA)]
        return chosen(data, number) if data else ""

    def _linked(self, folder: str) -> str:
        """A new name of a folder."""
        link = f"{WAREHOUSE}/links/{self.new_file()}/"
        self.lake.store.links[link] = folder
        return link

    def statistics(self, table: Table, number: int) -> None:
        described = {file["snapshot-id"] for file in table.document["statistics"]}
        if free := sorted(set(table.snapshots) - described):
            table.statistics(chosen(free, number))

    def commit_on_branch(self, table: Table, number: int) -> None:
        if side := self._side_branches(table):
            table.append(self.new_file(), ref=chosen(side, number))

    def stream(self, table: Table, number: int) -> None:
        """A streaming writer commits, with its mark; each falls silent whenever chance has it."""
        step = next(self._numbers)
        marks = (
            flink_mark(f"j{number % 3}", step, "a"),
            flink_mark(f"j{number % 2}", step, None),
            kafka_mark("g", step),
            spark_mark("q", step),
        )
        branch = chosen([MAIN, *self._side_branches(table)], number // 4)
        table.append(f"f{step}", ref=branch, summary=chosen(marks, number))

    def stage(self, table: Table, number: int) -> None:
        table.stage(self.new_file())

    def cherry_pick(self, table: Table, number: int) -> None:
        staged = sorted(set(table.snapshots) - on_branches(table.document))
        appended = [s for s in staged if table.snapshot(s)["summary"]["operation"] == "append"]
        if appended:
            table.cherry_pick(chosen(appended, number))

    def start_over(self, table: Table, number: int) -> None:
        table.start_over(self.new_file())

    def evolve(self, table: Table, number: int) -> None:
        """A new column: a new schema, and no new snapshot."""
        table.edit(_add_column)

    # --- refs ----------------------------------------------------------------------------------

    def branch(self, table: Table, number: int) -> None:
        self._ref(table, table.branch, "b", number)

    def tag(self, table: Table, number: int) -> None:
        self._ref(table, table.tag, "t", number)

    def hold_tag(self, table: Table, number: int) -> None:
        if table.snapshots:
            table.tag(f"hold__{number % 2}", chosen(table.snapshots, number))

    def _ref(self, table: Table, make: Callable[..., None], letter: str, number: int) -> None:
        if not table.snapshots:
            return
        age = chosen((0, 0, 3, 20), number) * DAY_MS
        ages = {"max-ref-age-ms": age} if age else {}
        make(f"{letter}{number % 3}", chosen(table.snapshots, number // 3), **ages)

    def drop_ref(self, table: Table, number: int) -> None:
        if names := sorted(table.refs.keys() - {MAIN}):
            table.drop_ref(chosen(names, number))

    def publish(self, table: Table, number: int) -> None:
        """main takes over a branch."""
        if side := self._side_branches(table):
            table.fast_forward(MAIN, chosen(side, number))

    def catch_up(self, table: Table, number: int) -> None:
        """A branch takes over main."""
        if (side := self._side_branches(table)) and MAIN in table.refs:
            table.fast_forward(chosen(side, number), MAIN)

    def rollback(self, table: Table, number: int) -> None:
        if table.snapshots:
            table.rollback(chosen(table.snapshots, number))

    # --- other tools ---------------------------------------------------------------------------

    def expire_elsewhere(self, table: Table, number: int) -> None:
        """Another tool expires one snapshot, wherever it stands, and leaves its files."""
        named = {ref["snapshot-id"] for ref in table.refs.values()}
        if free := sorted(set(table.snapshots) - named):
            table.expire_elsewhere(chosen(free, number))

    def expire_and_delete(self, table: Table, number: int) -> None:
        """Another tool expires a snapshot and deletes what nothing refers to then."""
        before = self.lake.walk.of_table(table.metadata_location)
        self.expire_elsewhere(table, number)
        unneeded = before - self.lake.needs()
        needed, real = self.lake.needed_places(), self.lake.store.real_path
        gone = {p for p in unneeded if not p.endswith(".json") and real(p) not in needed}
        gone -= {path for path in gone if real(path) != path}  # the tool knows of no links
        self.lake.store.delete(sorted(gone))
        self.lake.lost |= gone

    def clone(self, table: Table, number: int) -> None:
        catalog = chosen(("lake", "theirs"), number)
        if name := self._free_name(catalog):
            self.lake.clone(table, str(name))
            self.lake.stories[name] = self.lake.stories[table.name].copy()

    def register_again(self, table: Table, number: int) -> None:
        """A second name for a table."""
        self._register(table, table.metadata_location)

    def copy_table(self, table: Table, number: int) -> None:
        """A copy by rewritten paths, in either catalog, under a name before or after."""
        catalog = chosen(("lake", "lake", "theirs"), number)
        if (name := self._free_name(catalog)) and self._is_whole(table.metadata_location):
            self._copy(table, name)

    def move_table(self, table: Table, number: int) -> None:
        """A table goes to another folder and name; what lies in the old one is left there."""
        if not (name := self._free_name(table.name.catalog, spare=1)):
            return
        if self._is_whole(table.metadata_location):
            self._copy(table, name)
            self.drop(table, number)

    def rewrite_in_place(self, table: Table, number: int) -> None:
        """A tool rewrites a table's paths, and leaves its name and its log.

        Of a table without snapshots nothing tells that from a new location, whose old one is its.
        """
        if not table.snapshots or not self._is_whole(table.metadata_location):
            return
        story = self.lake.stories[table.name].copy()
        folder = f"{table.location}-{next(self._numbers)}"
        at = rewritten_with_log(table, folder)
        self.lake.copied_again(table.location, folder)
        self.drop(table, number)
        self.lake.register(str(table.name), at)
        self.lake.stories[table.name] = story

    def _copy(self, table: Table, name: TableName) -> None:
        folder = f"{WAREHOUSE}/{'/'.join(name.namespace)}/{name.name}-{next(self._numbers)}"
        story = self.lake.stories[table.name].copy()
        copied(table, str(name), folder)
        self.lake.copied_again(table.location, folder)
        self.lake.stories[name] = story

    def set_back(self, table: Table, number: int) -> None:
        """An engine drops a table and registers an older state of it under the same name."""
        old = [entry["metadata-file"] for entry in table.document["metadata-log"]]
        whole = [at for at in old if self._is_whole(at)]
        if whole and table.name.catalog == "lake":
            self.drop(table, number)
            self.lake.register(str(table.name), chosen(whole, number))
            self.lake.stories[table.name] = Story()

    def _is_whole(self, location: str) -> bool:
        there = self.lake.paths()
        if location not in there:
            return False
        try:
            return set(map(self.lake.store.real_path, self.lake.walk.of_table(location))) <= there
        except FileNotFoundError:  # an old state of a copy, with what nobody has copied
            return False

    def register_old(self, table: Table, number: int) -> None:
        """A table as it once was, under another name, while all its files are still there."""
        old = [entry["metadata-file"] for entry in table.document["metadata-log"]]
        if whole := [at for at in old if self._is_whole(at)]:
            self._register(table, chosen(whole, number))

    def _register(self, table: Table, location: str) -> None:
        if (name := self._free_name("lake")) and table.name.catalog == "lake":
            self.lake.register(str(name), location)
            self.lake.stories[name] = Story()

    def rename(self, table: Table, number: int) -> None:
        if name := self._free_name(table.name.catalog):
            table.catalog.register(name, table.catalog.drop(table.name))
            self.lake.stories[name] = self.lake.stories.pop(table.name)
            self.lake.observed[name] = self.lake.observed.pop(table.name, ("", set()))

    def drop(self, table: Table, number: int) -> None:
        self._gone.append((table.name, table.metadata_location))
        self.lake.drop(table)

    def undrop(self, number: int) -> None:
        """An engine registers a dropped table again, as it was when it went."""
        if not self._gone:
            return
        name, location = chosen(self._gone, number)
        if name in self.lake.locations() or not self._is_whole(location):
            return
        self._gone.remove((name, location))
        self.lake.register(str(name), location)

    def create(self, number: int) -> None:
        if name := self._free_name("lake"):
            self.lake.table(str(name), version=1 + number % 3)

    def create_inside(self, table: Table, number: int) -> None:
        """A table in a folder of another one."""
        if name := self._free_name("lake"):
            inside = f"{table.location}/data/{name.name}-{next(self._numbers)}"
            self.lake.table(str(name), version=2, location=inside)

    def create_outside(self, number: int) -> None:
        """A table outside every root: nothing of it may be deleted, until a person names one."""
        if name := self._free_name("lake"):
            self.lake.table(str(name), location=f"{OUTSIDE}/{name.name}-{next(self._numbers)}")

    def _free_name(self, catalog: str, spare: int = 0) -> TableName | None:
        space = "air" if catalog == "lake" else "sea"
        names = [TableName(catalog, (space,), f"t{n}") for n in range(MOST_TABLES + spare)]
        taken = self.lake.locations()
        if len(self.lake.tables()) >= MOST_TABLES + spare:
            return None
        return next((name for name in names if name not in taken), None)

    # --- people --------------------------------------------------------------------------------

    def hold(self, table: Table, number: int) -> None:
        table.edit(lambda document: document["properties"].update({HOLD: "audit"}))

    def hold_all(self, table: Table, number: int) -> None:
        self.lake.catalogs["lake"].set_namespace_properties(("air",), {HOLD: "audit"})

    def let_go(self, table: Table, number: int) -> None:
        table.unset(HOLD)
        self.lake.catalogs["lake"].set_namespace_properties(("air",), {HOLD: ""})

    def opt_out(self, table: Table, number: int) -> None:
        table.edit(lambda document: document["properties"].update({ENABLED: "false"}))

    def opt_in(self, table: Table, number: int) -> None:
        table.unset(ENABLED)

    # --- bad luck ------------------------------------------------------------------------------

    def spoil(self, table: Table, number: int) -> None:
        """A manifest or a manifest list cannot be read for a while."""
        needs = self.lake.walk.of_table(table.metadata_location)
        if (avro := sorted(p for p in needs if p.endswith(".avro"))) and not self._spoilt:
            path = chosen(avro, number)
            # Of another length it would be another object, which no purge takes.
            self._spoilt[path] = self.lake.spoil(path, same_length=True)

    def mend(self, number: int) -> None:
        for path, content in self._spoilt.items():
            if self.lake.store.size(path) is not None:
                self.lake.mend(path, content)
        self._spoilt.clear()
        self._dark.can_be_read_again()

    def hide(self, number: int) -> None:
        """A table comes that cannot be read at all; half the time a person vouches for it."""
        self._dark.comes(self.new_file())
        if number % 2:
            self._dark.is_vouched_for()

    def vouch(self, number: int) -> None:
        self._dark.is_vouched_for()

    def take_back_the_word(self) -> None:
        self._dark.is_denied()

    def name_the_root(self, number: int) -> None:
        """A person says that what lies there is the lake's, or takes the word back."""
        self.lake.storage_roots = () if self.lake.storage_roots else (OUTSIDE,)

    def replace_hidden(self, table: Table, number: int) -> None:
        self._dark.is_replaced(table)

    def unlist(self, table: Table, number: int) -> None:
        self.lake.catalogs["theirs"].unlistable = "no answer"

    def list_again(self, number: int) -> None:
        self.lake.catalogs["theirs"].unlistable = ""

    # --- at the end ----------------------------------------------------------------------------

    def make_peace(self) -> None:
        """Everything readable, nothing held or left out any more."""
        self.mend(0)
        self._strangers.leave_for_good()
        self.list_again(0)
        self.lake.storage_roots = (OUTSIDE,)
        self.lake.run()  # what engines have dropped stands among the dropped ones from now on
        self.answer_doctor()
        allow_the_gone(self.lake)
        for table in self.lake.registered():
            self.opt_in(table, 0)
            self.let_go(table, 0)

    def answer_doctor(self) -> None:
        """Which of several metadata files is the last of a table that is gone? The one seen last.

        As `meltline doctor` asks for it, an engine registers that one, and drops it again.
        """
        for asked in [gone for gone in gone_tables(self.lake.services()) if gone.question]:
            name, last = asked.row.name, asked.row.metadata_location
            if name.catalog == "lake" and self._is_whole(last):
                answer = self.lake.register(f"lake.answers.{name.name}", last)
                self.lake.stories[answer.name] = Story()
                self.lake.look()
                self.drop(answer, 0)
                self.lake.run()

    # --- what there is to choose from ----------------------------------------------------------

    @staticmethod
    def _live(table: Table, kind: FileKind) -> list[str]:
        return sorted({entry.path for entry in table.live() if entry.kind is kind})

    @staticmethod
    def _side_branches(table: Table) -> list[str]:
        return sorted(n for n, r in table.refs.items() if r["type"] == "branch" and n != MAIN)


def _add_column(document: Document) -> None:
    column = document["last-column-id"] + 1
    field = {"id": column, "name": f"c{column}", "required": False, "type": "long"}
    newest = document["schemas"][-1]
    schema = {**newest, "schema-id": column, "fields": [*newest["fields"], field]}
    document["schemas"].append(schema)
    document |= {"last-column-id": column, "current-schema-id": column}
    if document["format-version"] == 1:
        document["schema"] = schema
