"""Messages as they arrive: stored bytes, of which little is read until somebody asks.

A pull answer is records back to back (``wire.record`` has their layout). Taking it apart reads the few fields that
consuming itself needs and cuts one piece of bytes per message; tags, keys, properties, hosts, times and the body are
read from that piece on access. Most of them, most of the time, never are.
"""

from __future__ import annotations

import struct
from typing import Final, Self

import msgspec

from pyromq.errors import CorruptRecordError
from pyromq.model import property_names as names
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.queue import QueueId
from pyromq.wire.compression import decompress
from pyromq.wire.message_id import Host, encode_offset_id
from pyromq.wire.properties import decode_properties, find_property
from pyromq.wire.record import FIXED, MAGIC_V1, MAGIC_V2, RECORD_OVERHEAD_BYTES

_HEAD: Final = struct.Struct(">II4xi4xqqi")  # size, magic, queue, offset, position, sysFlag
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_COMPRESSED: Final = 1
_BORN_MS_AT: Final = 40
_BORN_HOST_AT: Final = 48


class ReceivedMessage(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One message from a broker. ``queue_offset`` and ``queue_id`` are its place there.

    Raises RemoteProtocolError from whatever reads damaged bytes.
    """

    record: bytes
    broker: str
    queue_id: int
    offset: int
    position: int
    sys_flag: int
    namespace: str = ""
    failures_here: int = 0  # of this member alone: failures that no broker could be told of
    _properties: dict[str, str] | None = None
    _body: bytes | None = None

    def __repr__(self) -> str:
        return f"<ReceivedMessage {self.message_id} topic={self.topic} queue={self.queue_id} offset={self.offset}>"

    # --- content ---

    @property
    def body(self) -> bytes:
        """As the producer gave it, decompressed if need be. Raises DecompressionError."""
        start, end = self._body_range()
        if not self.sys_flag & _COMPRESSED:
            return self.record[start:end]
        if self._body is None:
            msgspec.structs.force_setattr(self, "_body", decompress(self.record[start:end], self.sys_flag))
        assert self._body is not None
        return self._body

    @property
    def packed_body(self) -> bytes:
        """As it is stored: compressed if ``sys_flag`` says so."""
        return self.record[slice(*self._body_range())]

    @property
    def properties(self) -> dict[str, str]:
        """All of them, RocketMQ's own included; treat it as read-only."""
        if self._properties is None:
            msgspec.structs.force_setattr(self, "_properties", decode_properties(self._raw_properties()))
        assert self._properties is not None
        return self._properties

    def get(self, name: str) -> str | None:
        """One value, without decoding the others."""
        value = find_property(self._raw_properties(), name.encode())
        return None if value is None else value.decode("utf-8", "replace")

    @property
    def tags(self) -> str:
        """Its tag; empty if it has none."""
        return self.get(names.TAGS) or ""

    @property
    def keys(self) -> tuple[str, ...]:
        """What it can be found by."""
        return tuple((self.get(names.KEYS) or "").split())

    @property
    def sharding_key(self) -> str:
        """What chose its queue; empty if nothing did."""
        return self.get(names.SHARDING_KEY) or ""

    @property
    def flag(self) -> int:
        """The number that its producer gave it."""
        return self._i32(16)

    # --- names and places ---

    @property
    def topic(self) -> str:
        """The topic it was sent to, also when it comes again from a retry topic; without namespace."""
        topic = self.stored_topic
        if topic.startswith(RETRY_PREFIX):
            topic = self.get(names.RETRY_TOPIC) or topic
        return topic.removeprefix(f"{self.namespace}%") if self.namespace else topic

    @property
    def stored_topic(self) -> str:
        """The topic whose queue it came from."""
        return self.record[slice(*self._topic_range())].decode("utf-8", "replace")

    @property
    def queue(self) -> QueueId:
        """Where it was read: for one that comes again, a queue of the retry topic."""
        return QueueId(self.stored_topic, self.broker, self.queue_id)

    @property
    def message_id(self) -> str:
        """The id its producer gave it, or else ``offset_message_id``."""
        return self.get(names.UNIQUE_KEY) or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The id that leads a broker straight to it."""
        return encode_offset_id(self.store_host, self.position)

    @property
    def origin_message_id(self) -> str:
        """``offset_message_id`` of the first copy: a message that comes again was stored anew each time."""
        return self.get(names.ORIGIN_MESSAGE_ID) or self.offset_message_id

    @property
    def is_retry(self) -> bool:
        """Whether it comes from the group's retry topic (``stored_topic``)."""
        return self.stored_topic.startswith(RETRY_PREFIX)

    @property
    def transaction_id(self) -> str:
        """That of the transaction it was sent in."""
        return self.get(names.TRANSACTION_ID) or self.get(names.UNIQUE_KEY) or ""

    @property
    def delivery_attempt(self) -> int:
        """How often it was delivered before and failed: 0 at first."""
        return self._i32(self._store_host_end()) + self.failures_here

    def after_failure(self) -> Self:
        """The same message with one attempt more, to be tried here again."""
        return msgspec.structs.replace(self, failures_here=self.failures_here + 1)

    @property
    def prepared_position(self) -> int:
        """Where the prepared message of its transaction lies in the commit log."""
        return self._i64(self._store_host_end() + 4)

    # --- times and hosts ---

    @property
    def born_ms(self) -> int:
        """When it was sent, by the producer's clock."""
        return self._i64(_BORN_MS_AT)

    @property
    def born_host(self) -> Host:
        """The address of its producer."""
        return Host.decode(self.record[_BORN_HOST_AT : self._born_host_end()])

    @property
    def stored_ms(self) -> int:
        """When it was stored, by the broker's clock."""
        return self._i64(self._born_host_end())

    @property
    def store_host(self) -> Host:
        """The address of the broker that stored it."""
        return Host.decode(self.record[self._born_host_end() + 8 : self._store_host_end()])

    @property
    def size_bytes(self) -> int:
        """What it takes in the log."""
        return len(self.record)

    # --- where things lie ---

    def _i32(self, at: int) -> int:
        return int(_I32.unpack_from(self.record, at)[0])

    def _i64(self, at: int) -> int:
        return int(_I64.unpack_from(self.record, at)[0])

    def _born_host_end(self) -> int:
        return _BORN_HOST_AT + (20 if self.sys_flag & 0x10 else 8)

    def _store_host_end(self) -> int:
        return self._born_host_end() + 8 + (20 if self.sys_flag & 0x20 else 8)

    def _body_range(self) -> tuple[int, int]:
        start = FIXED[self.sys_flag >> 4 & 3].size
        return start, start + self._i32(start - 4)

    def _topic_range(self) -> tuple[int, int]:
        record, start = self.record, self._body_range()[1]
        if record[7] == MAGIC_V1 & 0xFF:
            return start + 1, start + 1 + record[start]
        return start + 2, start + 2 + (record[start] << 8 | record[start + 1])

    def _raw_properties(self) -> bytes:
        return self.record[self._topic_range()[1] + 2 :]


def split_messages(data: bytes, broker: str, *, namespace: str = "") -> list[ReceivedMessage]:
    """All messages of an answer, in order. Raises CorruptRecordError if lengths do not add up."""
    found: list[ReceivedMessage] = []
    add, unpack = found.append, _HEAD.unpack_from
    start, end = 0, len(data)
    while end - start >= RECORD_OVERHEAD_BYTES:
        size, magic, queue_id, offset, position, sys_flag = unpack(data, start)
        if size < RECORD_OVERHEAD_BYTES or size > end - start or (magic != MAGIC_V1 and magic != MAGIC_V2):
            raise CorruptRecordError(position=position, reason=f"size {size} or magic {magic:#010x} is impossible")
        record = data[start : start + size]
        _check_lengths(record, magic, sys_flag, position)
        add(ReceivedMessage(record, broker, queue_id, offset, position, sys_flag, namespace))
        start += size
    if start != end:
        raise CorruptRecordError(position=-1, reason=f"{end - start} bytes behind the last message are none")
    return found


def _check_lengths(record: bytes, magic: int, sys_flag: int, position: int) -> None:
    """Whether body, topic and properties fill the record exactly: then nothing that reads them can leave it."""
    size, fixed = len(record), 88 if not sys_flag & 0x30 else FIXED[sys_flag >> 4 & 3].size
    if fixed + 3 <= size:
        body_end = fixed + int.from_bytes(record[fixed - 4 : fixed], "big")
        if body_end + 3 <= size:
            if magic == MAGIC_V1:
                topic_end = body_end + 1 + record[body_end]
            else:
                topic_end = body_end + 2 + (record[body_end] << 8 | record[body_end + 1])
            if topic_end + 2 <= size and topic_end + 2 + (record[topic_end] << 8 | record[topic_end + 1]) == size:
                return
    raise CorruptRecordError(position=position, reason=f"its parts do not add up to its size {size}")
