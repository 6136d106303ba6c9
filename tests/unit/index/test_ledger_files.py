"""Tables of the ledger read from their files: what is passed over holds no row of the answer."""

import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.adapters.index_tables.file_parts import FileParts, NotPlain
from meltline.adapters.index_tables.parquet_scan import LedgerFiles
from meltline.adapters.index_tables.scan_query import Op, Question
from meltline.adapters.index_tables.table_now import TableNow
from meltline.adapters.object_store.stores import ObjectStores
from tests.seeds import examples

NOW = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("word", pa.string()),
        ("number", pa.int64()),
        ("small", pa.int32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("flag", pa.bool_()),
        ("numbers", pa.list_(pa.int64())),
        ("late", pa.int64()),
    ]
)
FIELDS = {
    name: (number, kind)
    for number, (name, kind) in enumerate(
        zip(SCHEMA.names, ("string", "long", "int", "timestamptz", "boolean", "", "long"),
            strict=True), 1)
}  # fmt: skip
VALUES: Mapping[str, Sequence[Any]] = {
    "word": ["", "a", "ab", "abc", "b", "é", "z" * 40, "\U0001f600"],
    "number": [-(2**63), -1, 0, 1, 300, 2**31, 2**63 - 1],
    "small": [-(2**31), 0, 7, 2**31 - 1],
    "at": [NOW + timedelta(microseconds=n) for n in (-(10**15), 0, 1, 10**12)],
    "flag": [True, False],
    "numbers": [[], [1], [1, None]],
    "late": [1, 2, 3],
}
ASKED = [name for name in SCHEMA.names if name != "numbers"]
COMPARED = {
    "=": lambda one, other: one == other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}
Row = dict[str, Any]


def meets(value: Any, op: Op, wanted: Any) -> bool:
    """The condition as SQL has it, row by row."""
    if op == "is null":
        return value is None
    if op == "not null":
        return value is not None
    if op == "in":
        return value is not None and value in wanted
    return None not in (value, wanted) and COMPARED[op](value, wanted)


rows = st.fixed_dictionaries(
    {name: st.none() | st.sampled_from(values) for name, values in VALUES.items()}
)


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, Op, Any]:
    column = draw(st.sampled_from(ASKED))
    op = draw(st.sampled_from([*COMPARED, "in", "is null", "not null"]))
    value = st.none() | st.sampled_from(VALUES[column])
    wanted = draw(st.lists(value) if op == "in" else value)
    return column, op, wanted  # type: ignore[return-value]


questions = st.builds(
    Question.of,
    st.just(SCHEMA),
    st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True),
    st.lists(conditions(), max_size=2),
    st.none()
    | st.tuples(
        st.sampled_from(["number", "late"]),
        st.lists(st.sampled_from([*VALUES["number"], *VALUES["late"]])),
    ),
)


@dataclass
class Shelf:
    """A table's files, with manifests as the spec has them."""

    folder: Path
    listed: list[Row] = field(default_factory=list)
    count: int = 0

    def file(self, rows: Sequence[Row], group: int = 100, late: bool = True, **odd: Any) -> None:
        """A data file in a manifest of its own."""
        columns = [column for column in SCHEMA if late or column.name != "late"]
        path = self.folder / f"{len(self.listed)}.parquet"
        ids = [{"PARQUET:field_id": str(FIELDS[column.name][0])} for column in columns]
        schema = pa.schema([c.with_metadata(i) for c, i in zip(columns, ids, strict=True)])
        table = pa.Table.from_pylist(list(rows), schema=pa.schema(columns)).cast(schema)
        pq.write_table(table, path, row_group_size=group)
        said = {
            "content": 0, "file_path": str(path), "file_format": "PARQUET", "partition": {},
            "record_count": len(rows), "file_size_in_bytes": path.stat().st_size,
            **bounds(rows, [column.name for column in columns]), **odd,
        }  # fmt: skip
        entries = [{"status": 1, "data_file": said}, {"status": 2, "data_file": said}]
        self.listed.append(self.manifest(entries))
        self.count += len(rows)

    def manifest(self, entries: list[Row]) -> Row:
        path = self.folder / f"{len(self.listed)}.avro"
        path.write_bytes(avro(ENTRY, entries))
        counts = {"added_files_count": 1, "existing_files_count": 0}
        return {"manifest_path": str(path), "content": 0, "key_metadata": None, **counts}

    def now(self) -> TableNow:
        path = self.folder / "list.avro"
        path.write_bytes(avro(LISTED, self.listed))
        return TableNow(FIELDS, str(path), len(self.listed), self.count)

    def answer(self, question: Question, in_parts: bool = False) -> pa.Table:
        files = LedgerFiles(ObjectStores({}))
        files.whole = -1 if in_parts else files.whole
        return files.answer("t", self.now(), question)


def bounds(rows: Sequence[Row], columns: Iterable[str]) -> Row:
    """Metrics of a file; bounds of words are cut short, as Iceberg does."""
    low: list[Row] = []
    high: list[Row] = []
    nulls: list[Row] = []
    for name in columns:
        number, kind = FIELDS[name]
        values = [row[name] for row in rows if row[name] is not None]
        nulls.append({"key": number, "value": len(rows) - len(values)})
        if values and kind not in ("", "boolean"):
            low.append({"key": number, "value": stored(min(values), kind)})
            if kind != "string" or len(max(values)) <= 2:
                high.append({"key": number, "value": stored(max(values), kind)})
    return {"lower_bounds": low, "upper_bounds": high, "null_value_counts": nulls}


def stored(value: Any, kind: str) -> bytes:
    if kind == "string":
        return str(value)[:2].encode()
    if kind == "timestamptz":
        value = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return int(value).to_bytes(4 if kind == "int" else 8, "little", signed=True)


def avro(schema: Row, records: list[Row]) -> bytes:
    made = io.BytesIO()
    fastavro.writer(made, schema, records)
    return made.getvalue()


def record(name: str, **fields: Any) -> Row:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": key, "type": kind} for key, kind in fields.items()],
    }


def pairs(name: str, kind: str) -> list[Any]:
    return ["null", {"type": "array", "items": record(name, key="int", value=kind)}]


ENTRY = record(
    "entry",
    status="int",
    data_file=record(
        "file", content="int", file_path="string", file_format="string",
        partition=record("partition"), record_count="long", file_size_in_bytes="long",
        lower_bounds=pairs("low", "bytes"), upper_bounds=pairs("high", "bytes"),
        null_value_counts=pairs("nulls", "long"),
    ),
)  # fmt: skip
LISTED = record(
    "listed", manifest_path="string", content="int", key_metadata=["null", "bytes"],
    added_files_count="int", existing_files_count="int",
)  # fmt: skip


@settings(deadline=None, max_examples=examples(few=50, many=200))
@given(
    files=st.lists(
        st.tuples(st.lists(rows, max_size=7), st.integers(1, 3), st.booleans()), max_size=3
    ),
    question=questions,
    in_parts=st.booleans(),
)
def test_every_answer_is_what_the_conditions_say_row_by_row(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[tuple[list[Row], int, bool]],
    question: Question,
    in_parts: bool,
) -> None:
    shelf = Shelf(tmp_path_factory.mktemp("files"))
    every: list[Row] = []
    for held, group, late in files:
        shelf.file(held, group, late)
        every += [row if late else {**row, "late": None} for row in held]
    kept = [row for row in every if all(meets(row[c], op, v) for c, op, v in question.where)]
    if question.among is not None:
        column, values = question.among
        kept = [row for row in kept if row[column] in values.to_pylist()]
    found = shelf.answer(question, in_parts)
    assert found.schema == question.answer
    expected = pa.Table.from_pylist(kept, schema=SCHEMA).select(question.columns)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


def asked(**changes: Any) -> Question:
    return replace(Question(SCHEMA, ("number",)), **changes)


def numbers(*values: int) -> list[Row]:
    return [{**dict.fromkeys(SCHEMA.names), "number": value} for value in values]


def test_files_and_row_groups_that_cannot_hold_the_answer_are_not_read(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.file(numbers(1, 2, 3))
    shelf.file(numbers(7, 8, 9))
    (tmp_path / "0.parquet").unlink()
    found = shelf.answer(asked(where=[("number", ">", 3), ("number", "<", 9)]))
    assert found["number"].to_pylist() == [7, 8]
    found = shelf.answer(asked(among=("number", pa.array([0, 4, 8]))))
    assert found["number"].to_pylist() == [8]
    with pytest.raises(NotPlain):
        shelf.answer(asked())


@pytest.mark.parametrize("column", ASKED)
def test_each_value_is_found_by_the_bounds_of_its_column(tmp_path: Path, column: str) -> None:
    shelf = Shelf(tmp_path)
    for value in VALUES[column]:
        shelf.file([{**dict.fromkeys(SCHEMA.names), column: value}])
    for value in VALUES[column]:
        for op, wanted in (("=", value), ("in", [value])):
            found = shelf.answer(asked(columns=(column,), where=[(column, op, wanted)]))
            assert found[column].to_pylist() == [value]


def test_other_columns_are_read_from_the_row_groups_that_have_a_hit(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    held = [
        {**one, "small": int(at in (1, 4, 5))} for at, one in enumerate(numbers(*range(10, 18)))
    ]
    shelf.file(held, group=2)
    found = shelf.answer(asked(where=[("small", ">", 0)]))
    assert found["number"].to_pylist() == [11, 14, 15]


def test_a_file_is_read_from_the_store_once(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.file(numbers(1, 2))
    now, files = shelf.now(), LedgerFiles(ObjectStores({}))
    assert files.answer("t", now, asked()).num_rows == 2
    for path in (tmp_path / "0.parquet", tmp_path / "0.avro"):
        path.unlink()
    assert files.answer("t", now, asked()).num_rows == 2


@pytest.mark.parametrize(
    "odd",
    [
        {"content": 1},
        {"file_format": "ORC"},
        {"file_size_in_bytes": 7},
        {"record_count": 3},
        {"file_path": "/nowhere"},
    ],
)
def test_a_file_that_is_not_what_its_manifest_says_is_not_read_here(
    tmp_path: Path, odd: Row
) -> None:
    shelf = Shelf(tmp_path)
    shelf.file(numbers(1, 2), **odd)
    with pytest.raises(NotPlain):
        shelf.answer(asked())


@pytest.mark.parametrize("length", [0, 4, 100, -1])
@pytest.mark.parametrize("in_parts", [False, True])
def test_a_file_cut_short_or_of_noise_is_not_read_here(
    tmp_path: Path, length: int, in_parts: bool
) -> None:
    shelf = Shelf(tmp_path)
    shelf.file(numbers(1, 2))
    file = tmp_path / "0.parquet"
    sound = file.read_bytes()
    for content in (sound[:length].ljust(len(sound), b"x"), sound[:length]):
        file.write_bytes(content)
        with pytest.raises(NotPlain):
            shelf.answer(asked(where=[("number", ">", 0)]), in_parts)


class Counting(ObjectStores):
    """A store that counts the bytes that are read of data files."""

    def __init__(self) -> None:
        super().__init__({})
        self.count = 0

    def read(self, path: str) -> bytes:
        content = super().read(path)
        self.count += len(content) * path.endswith(".parquet")
        return content

    def read_range(self, path: str, start: int, length: int) -> bytes:
        self.count += length
        return super().read_range(path, start, length)


def test_of_a_large_file_only_the_columns_are_read_that_are_asked_for(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    chance = Random(1)
    words = [{**row, "word": chance.randbytes(150).hex()} for row in numbers(*range(5000))]
    shelf.file(words, group=1000)
    length = (tmp_path / "0.parquet").stat().st_size
    store = Counting()
    files = LedgerFiles(store)
    assert length > files.whole
    question = asked(where=[("number", "=", 700)])
    for _ in range(2):  # a part is not read twice either
        assert files.answer("t", shelf.now(), question)["number"].to_pylist() == [700]
        assert 0 < store.count < length / 4


def test_a_part_that_ends_early_is_none(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123")
    parts = FileParts(ObjectStores({}), 100)
    assert parts.range(f"{tmp_path}/x", 1, 3) == b"123"
    with pytest.raises(NotPlain):
        parts.range(f"{tmp_path}/x", 1, 4)


def test_a_store_that_fails_in_the_middle_of_a_large_file_leaves_it_to_spark(
    tmp_path: Path,
) -> None:
    class Failing(ObjectStores):
        def read_range(self, path: str, start: int, length: int) -> bytes:
            raise FileNotFoundError(path)

    shelf = Shelf(tmp_path)
    shelf.file(numbers(1, 2))
    files = LedgerFiles(Failing({}))
    files.whole = 0
    with pytest.raises(NotPlain):
        files.answer("t", shelf.now(), asked(where=[("number", ">", 0)]))


@pytest.mark.parametrize("odd", [{"content": 1}, {"key_metadata": b"k"}, {"manifest_path": "/no"}])
def test_a_manifest_of_deletes_or_one_that_is_not_readable_is_left_alone(
    tmp_path: Path, odd: Row
) -> None:
    shelf = Shelf(tmp_path)
    shelf.file(numbers(1, 2))
    shelf.listed[0] |= odd
    with pytest.raises(NotPlain):
        shelf.answer(asked())


def test_a_snapshot_of_more_files_or_rows_than_are_found_is_not_read_here(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.file(numbers(1, 2))
    files, now = LedgerFiles(ObjectStores({})), shelf.now()
    for other in (replace(now, files=2), replace(now, rows=3)):
        with pytest.raises(NotPlain):
            files.answer("t", other, asked())


def test_a_file_without_ids_is_not_read_here(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    plain = tmp_path / "plain.parquet"
    pq.write_table(pa.table({"number": [1]}), plain)
    shelf.file(numbers(1), file_path=str(plain), file_size_in_bytes=plain.stat().st_size)
    with pytest.raises(NotPlain):
        shelf.answer(asked())


class Mistaken(ObjectStores):
    """A store whose adapter has a mistake."""

    def read(self, path: str) -> bytes:
        raise AttributeError(path)


def test_a_mistake_of_ours_is_no_reason_to_ask_spark(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.file(numbers(1))
    with pytest.raises(AttributeError):
        LedgerFiles(Mistaken({})).answer("t", shelf.now(), asked())


def test_a_manifest_without_what_is_needed_is_not_read_here(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.file(numbers(1))
    now = shelf.now()
    first = {"manifest_path": shelf.listed[0]["manifest_path"], "added_data_files_count": 1}
    written = record("listed", manifest_path="string", added_data_files_count="int")
    Path(now.manifest_list).write_bytes(avro(written, [first]))
    with pytest.raises(NotPlain):
        LedgerFiles(ObjectStores({})).answer("t", now, asked())


@settings(deadline=None, max_examples=examples(few=25, many=100))
@given(st.sampled_from(["0.avro", "list.avro"]), st.integers(0), st.integers(0, 255))
def test_a_damaged_manifest_is_read_or_left_to_spark(
    tmp_path_factory: pytest.TempPathFactory, name: str, at: int, to: int
) -> None:
    shelf = Shelf(tmp_path_factory.mktemp("files"))
    shelf.file([{**one, "word": "a word"} for one in numbers(1, 2, 3)])
    now = shelf.now()
    content = bytearray((shelf.folder / name).read_bytes())
    content[at % len(content)] = to
    (shelf.folder / name).write_bytes(content)
    question = asked(columns=("word",), where=[("number", ">", 1), ("word", "=", "a word")])
    with suppress(NotPlain):
        LedgerFiles(ObjectStores({})).answer("t", now, question)


def test_what_would_not_fit_into_memory_is_not_remembered(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for value in range(3):
        shelf.file(numbers(value))
    length, now = (tmp_path / "0.parquet").stat().st_size, shelf.now()
    little, enough = (LedgerFiles(ObjectStores({}), n * length) for n in (2, 3))
    for files in (little, enough):
        assert files.answer("t", now, asked()).num_rows == 3
    enough.keep("another", bytes(length))  # and for this one the first must go
    (tmp_path / "2.parquet").unlink()
    assert enough.answer("t", now, asked()).num_rows == 3
    (tmp_path / "0.parquet").unlink()
    for files in (little, LedgerFiles(ObjectStores({}))):
        with pytest.raises(NotPlain):
            files.answer("t", now, asked())


def test_no_more_is_read_than_one_answer_may_take(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for value in range(3):
        shelf.file(numbers(value))
    files, now = LedgerFiles(ObjectStores({})), shelf.now()
    files.largest = 3 * (tmp_path / "0.parquet").stat().st_size - 1
    assert files.answer("t", now, asked(where=[("number", "<", 2)])).num_rows == 2
    with pytest.raises(NotPlain):
        files.answer("t", now, asked())


def test_who_holds_the_whole_answer_anyway_reads_it_however_large_it_is(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for value in range(3):
        shelf.file(numbers(value))
    files, now = LedgerFiles(ObjectStores({})), shelf.now()
    files.largest = files.whole = 1
    found = files.answer("t", now, asked(), of_any_size=True)
    assert found.num_rows == 3
    assert found.equals(LedgerFiles(ObjectStores({})).answer("t", now, asked()))
