"""Decodes a few fields of the records in an Avro file, with PyIceberg's decoder, for the gate.

`pyiceberg_reader` uses it. PyIceberg itself builds an object with every field of each record, which
is most of the cost of reading a manifest. Here unused fields are skipped without objects.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from pyiceberg.avro.decoder import BinaryDecoder, new_decoder
from pyiceberg.avro.reader import (
    BinaryReader,
    IntegerReader,
    ListReader,
    MapReader,
    OptionReader,
    Reader,
    StringReader,
    StructReader,
)

_MAGIC, _SYNC = b"Obj\x01", 16
_PADDING = 1024  # bytes, more than any value of fixed length
_A_LARGE_BLOCK = 64_000  # bytes: the usual size
_Read: TypeAlias = Callable[[], Any]
_Step: TypeAlias = Callable[[BinaryDecoder, bytes], _Read]
_Ids: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A requested field.

    Attributes:
        ids: Its id, after those of the structs around it.
        is_text: Whether it is a text; else a number.
        is_needed: Whether each record must have a value; else a missing value is None.
    """

    ids: _Ids
    is_text: bool = False
    is_needed: bool = True

    def step(self, reader: Reader) -> _Step:
        """Returns the step that reads it from a file. Raises TypeError if its type is another."""
        inner = reader.option if isinstance(reader, OptionReader) else reader
        if not isinstance(inner, StringReader if self.is_text else IntegerReader):
            raise TypeError(f"{inner} in field {self.ids[-1]}")
        if self.is_needed and _is_option(reader):  # as some writers declare it
            return partial(_required, _step(reader))
        return _step(reader)


class Fields:
    """Reads some fields of records, and skips the others.

    PyIceberg's readers define the layout of a record, but their code for skipping is not used. It
    skips decimals wrongly, and in random bytes it trusts lengths that end the process with a
    segmentation fault. Runs of nullable fields are mostly all null: then they are skipped in one
    step.
    """

    def __init__(self, record: Reader, columns: Sequence[Field]) -> None:
        """Takes the reader of a record, and at least two fields.

        Raises:
            KeyError: The record has no such field.
            TypeError: It is of another type.
        """
        steps = list(_steps(record, columns))
        read = {field for _, field in steps}
        absent = [field for field in columns if not field.is_needed and field not in read]
        steps += [(lambda *_: lambda: None, field) for field in absent]
        self._steps = [step for step, _ in steps]
        places = {field: place for place, (_, field) in enumerate(steps)}
        self._wanted = itemgetter(*(places[field] for field in columns))

    def of(self, blocks: Iterable[tuple[int, bytes]]) -> Iterator[tuple[Any, ...]]:
        """Yields the requested fields of the records in some blocks, given with their counts.

        Small blocks are decoded together, because setting up a decoder costs more than their
        records, and some writers make a block of each record.

        Raises:
            ValueError: A field has a wrong type, or a block's records do not end with it.
            EOFError: They end far after it.
        """
        for together in _gathered(blocks):
            yield from self._of_one_piece(together)

    def _of_one_piece(self, blocks: Sequence[tuple[int, bytes]]) -> Iterator[tuple[Any, ...]]:
        content = b"".join(block for _, block in blocks)
        # The decoder also reads beyond the end: the padding gives it as many zeros as it may read.
        decoder = new_decoder(content + bytes(len(content) + _PADDING))
        steps = [step(decoder, content) for step in self._steps]
        select, end = self._wanted, 0
        for records, block in blocks:
            begin, end = end, end + len(block)
            for _ in range(records):
                yield select([read() for read in steps])
            if decoder.tell() != end:
                taken = decoder.tell() - begin
                raise ValueError(f"{records} records take {taken} of {len(block)} bytes")


def _gathered(blocks: Iterable[tuple[int, bytes]]) -> Iterator[Sequence[tuple[int, bytes]]]:
    """Yields consecutive blocks in groups, each about as long as a large block."""
    together: list[tuple[int, bytes]] = []
    length = 0
    for records, block in blocks:
        together.append((records, block))
        length += len(block)
        if length >= _A_LARGE_BLOCK:
            yield together
            together, length = [], 0
    yield together


def _steps(record: Reader, columns: Sequence[Field]) -> Iterator[tuple[_Step, Field | None]]:
    """Yields the steps through a record, with the field that each reads; None if it skips."""
    by_ids = {field.ids: field for field in columns}
    fields = [(reader, by_ids.get(ids)) for ids, reader in _fields(record)]
    for passed, run in groupby(fields, lambda field: _is_option(field[0]) and not field[1]):
        if passed:
            yield partial(_options, [reader for reader, _ in run]), None
        else:
            yield from ((field.step(r) if field else _step(r), field) for r, field in run)


def _fields(struct: Reader, above: _Ids = ()) -> Iterator[tuple[_Ids, Reader]]:
    """Yields the readers of a struct's fields in order, with nested structs flattened."""
    if not isinstance(struct, StructReader):
        raise TypeError(f"{struct} where a struct is expected")
    for (_, reader), field in zip(struct.field_readers, struct.struct.fields, strict=True):
        ids = (*above, field.field_id)
        if isinstance(reader, StructReader):
            yield from _fields(reader, ids)
        else:
            yield ids, reader


def _is_option(reader: Reader) -> bool:
    return isinstance(reader, OptionReader)


def _step(reader: Reader) -> _Step:
    """Returns a step that reads a number or text, or skips another type within bounds."""
    match reader:
        case IntegerReader():
            return lambda decoder, _: decoder.read_int
        case StringReader():
            return _text
        case BinaryReader():
            return _binary
        case MapReader():
            binaries = isinstance(reader.key, IntegerReader) and isinstance(
                reader.value, BinaryReader
            )
            return partial(_items, [_step(reader.key), _step(reader.value)], binaries=binaries)
        case ListReader():
            return partial(_items, [_step(reader.element)])
        case OptionReader():
            return partial(_maybe, _step(reader.option))
    return lambda decoder, _: partial(reader.read, decoder)


def _text(decoder: BinaryDecoder, block: bytes) -> _Read:
    length = _length(decoder, block)
    return lambda: decoder.read(length()).decode()


def _binary(decoder: BinaryDecoder, block: bytes) -> _Read:
    length, skip = _length(decoder, block), decoder.skip
    return lambda: skip(length())


def _length(decoder: BinaryDecoder, block: bytes) -> Callable[[], int]:
    """Returns a reader of a length that checks that as many bytes follow."""
    end, number, tell = len(block), decoder.read_int, decoder.tell

    def read() -> int:
        length = number()
        if not 0 <= length <= end - tell():
            raise ValueError(f"{length} bytes announced at byte {tell()} of {end}")
        return length

    return read


def _maybe(step: _Step, decoder: BinaryDecoder, block: bytes) -> _Read:
    content = step(decoder, block)

    def read() -> Any:
        match decoder.read_int():
            case 0:
                return None
            case 1:
                return content()
        raise ValueError(f"neither null nor a value before byte {decoder.tell()}")

    return read


def _required(step: _Step, decoder: BinaryDecoder, block: bytes) -> _Read:
    maybe = step(decoder, block)

    def read() -> Any:
        if (content := maybe()) is None:
            raise ValueError(f"null before byte {decoder.tell()}, where a value is needed")
        return content

    return read


def _items(
    steps: Sequence[_Step], decoder: BinaryDecoder, block: bytes, *, binaries: bool = False
) -> _Read:
    """Skips a list's items or a map's pairs, which come in parts; the last part is empty."""
    end, number, tell = len(block), decoder.read_int, decoder.tell
    each = [step(decoder, block) for step in steps]
    numbers = all(read == number for read in each)

    def read() -> None:
        while count := number():
            if count < 0:  # then its length follows
                count = -count
                number()
            if count * len(each) > end - tell():
                raise ValueError(f"{count} items announced at byte {tell()} of {end}")
            if numbers:
                decoder.read_ints(count * len(each))
            elif binaries:
                decoder.skip(_behind_binaries(block, tell(), count) - tell())
            else:
                for _ in range(count):
                    for step in each:
                        step()

    return read


def _behind_binaries(block: bytes, at: int, count: int) -> int:
    """Returns where pairs of number and binary end: most bytes of column statistics."""
    for _ in range(count):
        while block[at] >= 0x80:
            at += 1
        length = block[at + 1]
        at += 2
        if length >= 0x80 or length & 1:  # not a length below 64, as most are
            length, at = _long(block, at - 1)
            at = _skip(block, at, length)
        else:
            at += length >> 1
    return at


def _options(readers: Sequence[Reader], decoder: BinaryDecoder, block: bytes) -> _Read:
    nulls = bytes(len(readers))
    each = [_step(reader)(decoder, block) for reader in readers]

    def read() -> None:
        if block.startswith(nulls, decoder.tell()):
            decoder.skip(len(nulls))
        else:
            for field in each:
                field()

    return read


def framed_blocks(content: bytes) -> list[tuple[int, bytes]]:
    """Returns the blocks of an Avro file, with bounds and sync markers checked.

    PyIceberg's decoder trusts its input: random bytes ended the whole process with a segmentation
    fault, and a file that was truncated inside a block passed for a shorter one.

    Returns:
        For each block the number of its records, and their compressed bytes.
    """
    if not content.startswith(_MAGIC):
        raise ValueError("it does not begin as an Avro file does")
    at = len(_MAGIC)
    while True:  # the header's map: blocks of keys and values, the last one empty
        count, at = _long(content, at)
        if count == 0:
            break
        if count < 0:
            _, at = _long(content, at)
        for _ in range(2 * abs(count)):
            length, at = _long(content, at)
            at = _skip(content, at, length)
    sync = content[at : at + _SYNC]
    at = _skip(content, at, _SYNC)
    blocks = []
    while at < len(content):
        count, at = _long(content, at)
        length, begin = _long(content, at)
        at = _skip(content, begin, length)
        if count < 0 or content[at : at + _SYNC] != sync:
            raise ValueError(f"a broken block before byte {at}")
        blocks.append((count, content[begin:at]))
        at = _skip(content, at, _SYNC)
    return blocks


def _skip(content: bytes, at: int, length: int) -> int:
    if not 0 <= length <= len(content) - at:
        raise ValueError(f"{length} bytes announced at byte {at} of {len(content)}")
    return at + length


def _long(content: bytes, at: int) -> tuple[int, int]:
    """Returns a variable-length zigzag number, and where the next value begins."""
    number = shift = 0
    while True:
        if at >= len(content) or shift > 63:
            raise ValueError(f"no number at byte {at} of {len(content)}")
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
