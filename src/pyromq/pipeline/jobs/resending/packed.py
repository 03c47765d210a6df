"""Packed copies: rows of a part as items of batches, made column by column and without an object for each message.

    properties (map) ──▶ one text for each row, without what a copy leaves behind    (Arrow, all rows at once)
    place ──▶ id and marks of the copy ──▶ head, body, marks, text: an item of a batch (``wire.batch``)

The bytes are those that ``outgoing`` and ``encode_batch`` give for each row by itself. A row that does not go the plain
way, because brokers take it alone only, it has to be looked for, or its outcome is known, is left to ``outgoing``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from pyromq.model import property_names as names
from pyromq.model.names import RETRY_PREFIX
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import LEFT_OUT, Item
from pyromq.pipeline.jobs.resending.outgoing import SparkRow, source_of
from pyromq.pipeline.tables.answer import rows_of_batch
from pyromq.wire.batch import ITEM_OVERHEAD_BYTES, pack_item_head, pack_properties_length
from pyromq.wire.properties import PROPERTIES_BYTES_MAX
from pyromq.wire.property_text import join_items

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

T = TypeVar("T")

BATCH_BYTES: Final = 256 << 10
_ITEM_END: Final = names.ITEM_END.encode()


class CopyMark(NamedTuple):
    """Makes a copy of a message: where it goes, its id, and the properties that it gets beside those it keeps."""

    topic: str
    message_id: str
    marks: tuple[tuple[str, str], ...]
    sent_as: tuple[str, ...] = ()  # ids under which it may have been sent before; its own where they are empty

    @property
    def own(self) -> tuple[tuple[str, str], ...]:
        """The properties that only the copy has."""
        return ((names.UNIQUE_KEY, self.message_id), *self.marks)


class Copier(Protocol):
    """Makes copies of rows; travels to executors."""

    @property
    def is_checked(self) -> bool:
        """Whether copies are looked for before they are sent."""
        ...

    @property
    def mark_names(self) -> Collection[str]:
        """Names of the properties that every copy gets."""
        ...

    def __call__(self, row: SparkRow, /) -> Item: ...

    def mark(self, place: str, origin: str) -> CopyMark | None:
        """Return the mark of the copy of an ordinary row, by its place and the topic of a dead letter; None where the
        whole row decides.
        """
        ...


class PackedCopy(NamedTuple):
    """A copy as an item of a batch; ``number`` is that of its row."""

    number: int
    mark: CopyMark
    key: str  # messages with the same sharding key keep their order
    size: int
    parts: tuple[bytes | memoryview, ...]


class PackedRows:
    """Rows of one record batch. ``copies`` are those that go in batches, None for a row that does not; of those
    ``sent_before`` are the ones that need not go at all.
    """

    def __init__(self, rows: pa.RecordBatch, copier: Copier, sent: AbstractSet[str] | None) -> None:
        """``sent`` are ids that were sent before; None: nobody has looked."""
        self._rows = rows
        self.sent_before: dict[int, CopyMark] = {}
        self.copies: list[PackedCopy | None] = list(self._packed(copier, sent))

    def _packed(self, copier: Copier, sent: AbstractSet[str] | None) -> Iterator[PackedCopy | None]:
        properties, may_go = self._rows.column("properties"), sent is not None or not copier.is_checked
        texts = _bytes_of(property_texts(properties, {*LEFT_OUT, names.UNIQUE_KEY, *copier.mark_names}))
        bodies = _bytes_of(self._rows.column("body"))
        keys = texts_of(property_of(properties, names.SHARDING_KEY))
        are_alone = property_of(properties, names.PRIORITY).is_valid().to_pylist()  # brokers take them in no batch
        places, flags = texts_of(self._rows.column("offset_message_id")), self._rows.column("flag").to_pylist()
        columns = zip(texts, bodies, places, origins_of(properties), keys, are_alone, flags, strict=True)
        for number, (text, body, place, origin, key, is_alone, flag) in enumerate(columns):
            mark = copier.mark(place, origin) if body and text is not None and place is not None else None
            if mark is not None and sent and not sent.isdisjoint(mark.sent_as or (mark.message_id,)):
                self.sent_before[number] = mark
                yield None
            elif mark is None or is_alone or not may_go or mark.topic.startswith(RETRY_PREFIX):
                yield None
            else:
                yield _packed(number, mark, key or "", body, text, flag or 0)

    def rows(self, numbers: Sequence[int]) -> Iterator[SparkRow]:
        """Some of the rows, as ``outgoing`` takes them."""
        return rows_of_batch(self._rows.take(list(numbers))) if numbers else iter(())

    @cached_property
    def sources(self) -> list[ItemOutcome]:
        """The items that the rows are, before anything became of them."""
        columns = [texts_of(self._rows.column(name)) for name in ("message_id", "offset_message_id", "keys", "tags")]
        return [
            source_of({"message_id": message_id, "offset_message_id": place, "keys": keys, "tags": tags})
            for message_id, place, keys, tags in zip(*columns, strict=True)
        ]


def sent_as(source: ItemOutcome, mark: CopyMark, status: ItemStatus = ItemStatus.SENT) -> ItemOutcome:
    """The item of a row whose copy was sent under that mark."""
    return msgspec.structs.replace(source, status=status, to_topic=mark.topic, new_message_id=mark.message_id)


def _packed(number: int, mark: CopyMark, key: str, body: memoryview, text: memoryview, flag: int) -> PackedCopy | None:
    """The item of a batch; None where brokers would not take it in one."""
    own = join_items(mark.own).encode()
    end = _ITEM_END if text else b""
    properties_bytes = len(own) + len(text) + len(end)
    size = ITEM_OVERHEAD_BYTES + len(body) + properties_bytes
    if properties_bytes > PROPERTIES_BYTES_MAX or size > BATCH_BYTES:
        return None
    head = pack_item_head(size, 0, 0, flag, len(body))
    return PackedCopy(number, mark, key, size, (head, body, pack_properties_length(properties_bytes) + own, text, end))


# --- columns ----------------------------------------------------------------------------------------------------------


def property_texts(properties: pa.MapArray, left_out: Collection[str]) -> pa.Array:
    """The properties of each row as text (``wire.property_text``) without those of these names, and without the mark at
    its end; null where there are none to be read.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    name_end, item_end = (pa.scalar(mark, properties.keys.type) for mark in (names.NAME_END, names.ITEM_END))
    items = pc.binary_join_element_wise(properties.keys, properties.items, name_end)
    kept = pc.invert(pc.is_in(properties.keys, value_set=pa.array(sorted(left_out), properties.keys.type)))
    before = _counts(kept)
    starts = before[np.asarray(properties.offsets)].astype(np.int32)
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(starts), items.filter(kept)), item_end)
    return pc.if_else(properties.is_valid(), joined, None)


def origins_of(properties: pa.MapArray) -> list[str]:
    """``operate.resend.outgoing.origin_topic`` of each row."""
    import pyarrow.compute as pc

    found = (property_of(properties, name) for name in (names.RETRY_TOPIC, names.DLQ_ORIGIN_TOPIC))
    return [each or "" for each in texts_of(pc.coalesce(*found))]


def property_of(properties: pa.MapArray, name: str) -> pa.Array:
    """The value of one property of each row; null where it has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.map_lookup(properties, pa.scalar(name, properties.type.key_type), "first")


def _counts(flags: pa.BooleanArray) -> np.ndarray[Any, Any]:
    """How many of the flags in front of each place are set; one place more than there are flags."""
    import numpy as np

    return np.concatenate(([0], np.cumsum(np.asarray(flags))))


def texts_of(column: pa.Array) -> list[str | None]:
    """The texts of a column; Arrow's own way takes several times as long where all of them are ASCII."""
    import pyarrow as pa

    whole = column.cast(pa.large_binary())
    data, offsets = _buffer(whole)
    if not (text := bytes(data[offsets[0] : offsets[-1]])).isascii():
        return column.to_pylist()  # type: ignore[no-any-return]
    base, plain = offsets[0], text.decode("ascii")
    return _with_nulls(whole, [plain[a - base : b - base] for a, b in pairwise(offsets)])


def _bytes_of(column: pa.Array) -> list[memoryview | None]:
    """Views of the values of a column."""
    import pyarrow as pa

    whole = column.cast(pa.large_binary())
    data, offsets = _buffer(whole)
    return _with_nulls(whole, [data[a:b] for a, b in pairwise(offsets)])


def _buffer(column: pa.LargeBinaryArray) -> tuple[memoryview, list[int]]:
    import numpy as np

    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return memoryview(data) if data is not None else memoryview(b""), places.tolist() or [0]


def _with_nulls(column: pa.Array, values: list[T]) -> list[T | None]:
    if column.null_count:
        return [
            each if is_there else None for each, is_there in zip(values, column.is_valid().to_pylist(), strict=True)
        ]
    return list[T | None](values)
