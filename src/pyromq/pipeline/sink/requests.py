"""Send requests from rows: properties and bodies of a record batch, packed by topic and queue.

    record batch ──▶ texts of properties, column by column ──▶ items, by topic and queue ──▶ requests of ``batchBytes``

``joined`` does the same for rows that may all go anywhere, without looking at each. Delayed messages and prepared
messages travel alone, because brokers accept them in no other way. What no broker would accept is refused here,
before anything of its record batch is sent, with the column and the row named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from pyromq.client.producer.selectors import hashed_index
from pyromq.errors import InvalidNameError, MessageRefusedError, MessageTooLargeError
from pyromq.model import property_names as names
from pyromq.model.message import DELAY_LEVEL_MAX
from pyromq.model.names import validate_topic
from pyromq.model.queue import QueueId
from pyromq.pipeline.arrow.slices import in_slices
from pyromq.pipeline.payload.encoding import BodyEncoder
from pyromq.pipeline.sink.columns import values_of
from pyromq.pipeline.sink.keys import ROWS_MAX, RowKeys
from pyromq.pipeline.sink.options import BATCH_BYTES_MAX, SinkOptions
from pyromq.pipeline.sink.texts import property_texts
from pyromq.wire.batch import ITEM_OVERHEAD_BYTES, pack_item_head, pack_properties_length
from pyromq.wire.properties import PROPERTIES_BYTES_MAX
from pyromq.wire.property_text import item_key

QueuesOf = Callable[[str], Sequence[QueueId]]
IsSent = Callable[[str, bytes], bool]
_OPEN_BYTES_MAX: Final = 16 << 20  # of all parcels that are not full yet
_DELAY: Final = item_key(names.DELAY)
_DELIVER_MS: Final = item_key(names.TIMER_DELIVER_MS)
Target = tuple[str, QueueId | None]


class Keys(Protocol):
    """Keys of the rows of a request: a list, or a range of which each is made on demand."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...


@dataclass(slots=True)
class SinkRequest:
    """One request: a batch, or a single message when there is a text of properties. ``queue`` None: any queue."""

    topic: str
    queue: QueueId | None
    body: bytes
    keys: Keys
    properties: str | None = None
    flag: int = 0

    @property
    def key(self) -> str:
        """Key of a message that travels alone."""
        [key] = self.keys
        return key


@dataclass(slots=True)
class _Open:
    parts: list[bytes] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    size: int = 0


class Packer:
    """Rows that differ in topic, queue, flag or delay, or travel alone: each is looked at.

    ``row`` counts the rows of the task's partition, those that are left out included. ``queues_of(topic)`` are the
    queues in their order; ``system`` is added to all properties. ``is_sent(key, body)`` says that a row is there
    already. Raises MessageRefusedError and its kind.
    """

    def __init__(
        self,
        options: SinkOptions,
        keys: RowKeys,
        queues_of: QueuesOf,
        *,
        system: str = "",
        alone: bool = False,
        is_sent: IsSent | None = None,
        first: int = 0,
    ) -> None:
        self._options = options
        self._encoder = encoder_of(options)
        self._keys = keys
        self._queues_of = queues_of
        self._system = system
        self._alone = alone  # whether every message travels alone
        self._is_sent = is_sent
        self._bytes_max = options.batch_bytes
        self._open: dict[Target, _Open] = {}  # requests that are not full yet
        self._open_bytes = 0
        self.row = first  # the next row
        self.skipped = 0  # rows that were sent before

    def pack(self, batch: pa.RecordBatch) -> Iterator[SinkRequest]:
        """Requests that are full now."""
        for part in in_slices(batch):
            yield from self._pack(part)

    def rest(self) -> Iterator[SinkRequest]:
        """Requests that did not get full."""
        for target in list(self._open):
            yield self._close(target)

    def _pack(self, batch: pa.RecordBatch) -> Iterator[SinkRequest]:
        first = rows_checked(self.row, batch)
        bodies: list[bytes] = bodies_of(batch, first, self._encoder).to_pylist()
        flags, targets = values_of(batch, "flag"), self._targets(batch, first)
        keys, delays = self._row_keys(batch, first), _delays(batch, first)
        texts: list[bytes] = property_texts(batch, pa.array(keys, pa.binary()), self._system, first).to_pylist()
        self.row += batch.num_rows
        for number, (body, text, key) in enumerate(zip(bodies, texts, keys, strict=True)):
            if self._is_sent is not None and self._is_sent(key, body):
                self.skipped += 1
                continue
            target = targets[number] if targets is not None else (self._options.topic, None)
            flag = (flags[number] or 0) if flags is not None else 0
            delay = delays[number] if delays is not None else ""
            check_item(ITEM_OVERHEAD_BYTES + len(body) + len(text), len(text) + len(delay), first + number)
            if delay or self._alone:
                yield self._single(target, body, text + delay.encode(), key, flag)
            else:
                yield from self._add(target, body, text, key, flag)

    def _row_keys(self, batch: pa.RecordBatch, first: int) -> list[str]:
        own, of_row, of_own = values_of(batch, "unique_key"), self._keys.of_row, self._keys.of_own
        if own is None:
            return list(map(of_row, range(first, first + batch.num_rows)))
        return [of_own(text) if text else of_row(first + number) for number, text in enumerate(own)]

    # --- requests ---

    def _add(self, target: Target, body: bytes, properties: bytes, key: str, flag: int) -> Iterator[SinkRequest]:
        total = ITEM_OVERHEAD_BYTES + len(body) + len(properties)
        opened = self._open.get(target)
        if opened is not None and opened.size + total > self._bytes_max:
            yield self._close(target)
            opened = None
        if opened is None:
            opened = self._open[target] = _Open()
        head, length = pack_item_head(total, 0, 0, flag, len(body)), pack_properties_length(len(properties))
        opened.parts += (head, body, length, properties)
        opened.keys.append(key)
        opened.size += total
        self._open_bytes += total
        if self._open_bytes > _OPEN_BYTES_MAX:  # so many queues that none gets full
            yield self._close(max(self._open, key=lambda each: self._open[each].size))

    def _close(self, target: Target) -> SinkRequest:
        opened = self._open.pop(target)
        self._open_bytes = max(0, self._open_bytes - opened.size)
        return SinkRequest(*target, b"".join(opened.parts), opened.keys)

    def _single(self, target: Target, body: bytes, properties: bytes, key: str, flag: int) -> SinkRequest:
        return SinkRequest(*target, body, [key], properties.decode(), flag)

    # --- where to ---

    def _targets(self, batch: pa.RecordBatch, first: int) -> list[Target] | None:
        """None when all rows may go to any queue of the one topic."""
        topic, shards, queues = self._options.topic, values_of(batch, "sharding_key"), values_of(batch, "queue_id")
        topics = None if topic else self._topics(batch, first)
        if topics is None and shards is None and queues is None:
            return None
        brokers, found = values_of(batch, "broker"), []
        for number in range(batch.num_rows):
            name = topics[number] if topics is not None else topic
            queue: QueueId | None = None
            if shards is not None and shards[number]:
                choices = self._queues_of(name)
                queue = choices[hashed_index(shards[number], len(choices))]
            elif queues is not None and queues[number] is not None:
                queue = self._named(
                    name, queues[number], brokers[number] if brokers is not None else None, first + number
                )
            found.append((name, queue))
        return found

    def _topics(self, batch: pa.RecordBatch, first: int) -> list[str]:
        found, allowed = list(values_of(batch, "topic") or ()), frozenset(self._options.topics)
        for name in set(found):
            try:
                validate_topic(name or "")
            except InvalidNameError as error:
                raise MessageRefusedError(f"column topic, row {first + found.index(name)}: {error}") from error
            if allowed and name not in allowed:
                text = f"{name} is not among those in the option topic: {', '.join(sorted(allowed))}"
                raise MessageRefusedError(f"column topic, row {first + found.index(name)}: {text}")
        return found

    def _named(self, topic: str, number: int, broker: str | None, row: int) -> QueueId:
        """The queue with that number: on that broker, or on the first that has it."""
        for queue in self._queues_of(topic):
            if queue.number == number and broker in (None, queue.broker):
                return queue
        where = f"broker {broker}" if broker else "any broker"
        raise MessageRefusedError(f"column queue_id, row {row}: topic {topic} has no queue {number} on {where}")


def rows_checked(first: int, batch: pa.RecordBatch) -> int:
    """``first``, if there are keys for all rows from there on. Raises MessageRefusedError."""
    if first + batch.num_rows > ROWS_MAX:
        raise MessageRefusedError(f"a partition has more than {ROWS_MAX} rows; split it")
    return first


def encoder_of(options: SinkOptions) -> BodyEncoder | None:
    """What makes bodies of columns; None when there is a column with bodies."""
    if options.payload is None or options.body_schema is None:
        return None
    return BodyEncoder(options.payload, options.body_schema)


def bodies_of(batch: pa.RecordBatch, first: int, encoder: BodyEncoder | None = None) -> pa.Array:
    """Bodies of rows as bytes, none of them empty. Raises MessageRefusedError."""
    if encoder is not None:
        column = encoder.bodies(batch, first)
    else:
        column = batch.column(batch.schema.get_field_index("body")).cast(pa.binary())
    if batch.num_rows and (column.null_count or not pc.min(pc.binary_length(column)).as_py()):
        row = first + next(number for number, body in enumerate(column.to_pylist()) if not body)
        raise MessageRefusedError(f"column body, row {row}: it is empty, and brokers accept no message without a body")
    return column


def _delays(batch: pa.RecordBatch, first: int) -> list[str] | None:
    """Texts of properties; empty for rows that are not delayed."""
    levels, times = values_of(batch, "delay_level"), values_of(batch, "deliver_time")
    if levels is not None:
        for number, level in enumerate(levels):
            if level and not 1 <= level <= DELAY_LEVEL_MAX:
                raise MessageRefusedError(
                    f"column delay_level, row {first + number}: levels are numbers from 1 on, not {level}"
                )
        return [f"{_DELAY}{level}{names.ITEM_END}" if level else "" for level in levels]
    if times is None:
        return None
    return [f"{_DELIVER_MS}{time_ms}{names.ITEM_END}" if time_ms else "" for time_ms in times]


def check_item(size: int, properties_bytes: int, row: int) -> None:
    """Checks what one row takes in a request. Raises MessageTooLargeError with the columns and the row."""
    if size > BATCH_BYTES_MAX:
        what = f"columns body and properties, row {row}: a row with its properties"
        raise MessageTooLargeError(what=what, size_bytes=size, bytes_max=BATCH_BYTES_MAX)
    if properties_bytes > PROPERTIES_BYTES_MAX:
        what = f"columns tags, keys and properties, row {row}: properties of a row"
        raise MessageTooLargeError(what=what, size_bytes=properties_bytes, bytes_max=PROPERTIES_BYTES_MAX)
