"""Messages as they arrive: stored bytes, of which little is read before it is asked for.

A pull response is records back to back (``wire.record`` has their layout). Taking it apart reads the few fields that
consuming itself needs and cuts one piece of bytes per message; tags, keys, properties, hosts, times and the body are
read from that piece on access. Most of them, most of the time, never are.

A kilobyte may decompress to a megabyte, and many listeners run at once: bodies that were decompressed are bounded, each
and all together (``InflatedBodies``).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Self, TypeVar, overload

import msgspec

from pyromq.compiled_core import core
from pyromq.errors import CorruptRecordError
from pyromq.model import property_names as names
from pyromq.model.failure import FailureStory
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.queue import QueueId
from pyromq.typed.decoding import decode_json, decode_text, decoder_for
from pyromq.wire.compression import INFLATED_BYTES_MAX, InflatedTooLargeError, TooMuchInflatedError, decompress
from pyromq.wire.fast.record_parts import (
    HEAD,
    check_lengths,
    read_i32,
    read_i64,
    stored_body,
    stored_property,
    topic_range,
)
from pyromq.wire.message_id import Host, encode_offset_id
from pyromq.wire.properties import decode_properties
from pyromq.wire.record_layout import (
    BORN_HOST_AT,
    BORN_MS_AT,
    BORN_V6,
    FLAG_AT,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_OVERHEAD_BYTES,
    STORE_V6,
)

T = TypeVar("T")
MessageT = TypeVar("MessageT", bound="ReceivedMessage")

INFLATED_TOGETHER_BYTES_MAX: Final = 512 << 20
_CACHED_BYTES_MAX: Final = 16 << 20
HELD_MAX: Final = 4_096  # messages whose bodies are a cache: tiny ones leave their records in memory as well
_INFLATE_AT_ONCE: Final = 2
_WAIT_S: Final = 0.05
_WAITS_MAX: Final = 600  # half a minute
_COMPRESSED: Final = 1
_TAGS, _KEYS, _SHARDING_KEY = names.TAGS.encode(), names.KEYS.encode(), names.SHARDING_KEY.encode()
_PRIORITY = names.PRIORITY.encode()
_RETRY_TOPIC, _UNIQUE_KEY = names.RETRY_TOPIC.encode(), names.UNIQUE_KEY.encode()
_ORIGIN_MESSAGE_ID, _TRANSACTION_ID = names.ORIGIN_MESSAGE_ID.encode(), names.TRANSACTION_ID.encode()
_OF_THE_PULL: Final = frozenset((names.MIN_OFFSET, names.MAX_OFFSET, names.CONSUME_START_TIME))


class PullFacts(msgspec.Struct, frozen=True, gc=False):
    """What messages of one pull have in common: the range of their queue then, and when listeners got which of them.

    ``taken_ms`` belongs to the queue's buffer: offsets that are with a listener now, by the monotonic clock.
    """

    min_offset: int
    max_offset: int
    taken_ms: Mapping[int, int]
    wall_minus_monotonic_ms: int


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
    pull: PullFacts | None = None  # None: it was not pulled by a consumer
    failures_here: int = 0  # of this member alone: failures that could be reported to no broker
    _story: FailureStory | None = None  # likewise: what its properties do not say yet
    _properties: dict[str, str] | None = None
    _body: bytes | None = None

    def __repr__(self) -> str:
        return f"<ReceivedMessage {self.message_id} topic={self.topic} queue={self.queue_id} offset={self.offset}>"

    # --- content ---

    @property
    def body(self) -> bytes:
        """Body as the producer gave it, decompressed if need be. Raises DecompressionError, TooMuchInflatedError."""
        if not self.sys_flag & _COMPRESSED:
            return stored_body(self.record, self.sys_flag)
        body = self._body  # once: another thread may let go of it
        return inflated_bodies.inflate(self) if body is None else body

    @property
    def is_with_listener(self) -> bool:
        """Whether a listener of this process has it now."""
        return self.pull is not None and self.offset in self.pull.taken_ms

    @overload
    def decode(self, kind: type[T]) -> T: ...

    @overload
    def decode(self, kind: Any) -> Any: ...

    def decode(self, kind: Any) -> Any:
        """The body as a value of this type: ``message.decode(Order)``; ``pyromq.typed`` says which there are.

        Raises BodyError, and ConfigError for a type that no body is read as.
        """
        return decoder_for(kind)(self.body, self)

    def json(self) -> Any:
        """The body read as JSON, whatever its properties say. Raises BodyError."""
        return decode_json(self.body)

    @property
    def text(self) -> str:
        """The body read as UTF-8, whatever its properties say. Raises BodyError."""
        return decode_text(self.body)

    @property
    def content_type(self) -> str:
        """How its producer says that the body is written; empty if it says nothing."""
        return self.get(names.CONTENT_TYPE) or ""

    @property
    def schema(self) -> str:
        """The name that its producer gave to the type of the body; empty if it gave none."""
        return self.get(names.SCHEMA) or ""

    @property
    def packed_body(self) -> bytes:
        """Body as it is stored: compressed if ``sys_flag`` says so."""
        return stored_body(self.record, self.sys_flag)

    @property
    def properties(self) -> dict[str, str]:
        """All of them, RocketMQ's own included, but not the checksum of the record; treat it as read-only.

        Those that a consumer got have MIN_OFFSET and MAX_OFFSET of their queue when they were pulled, and while a
        listener has them CONSUME_START_TIME.
        """
        if self._properties is None:
            found = decode_properties(self._raw_properties())
            found.pop(names.CHECKSUM, None)  # of the stored bytes: no part of the message
            if self.pull is not None:
                found.update((name, value) for name in _OF_THE_PULL if (value := self._of_pull(name)) is not None)
            msgspec.structs.force_setattr(self, "_properties", found)
        assert self._properties is not None
        return self._properties

    def get(self, name: str) -> str | None:
        """One value, without decoding the others; None if it has none, as in ``properties``."""
        if name in _OF_THE_PULL and self.pull is not None:
            return self._of_pull(name)
        return None if name == names.CHECKSUM else self._stored(name.encode())  # that is of the stored bytes

    def _stored(self, name: bytes) -> str | None:
        """A value that the record has, as nothing of the pull is called."""
        return stored_property(self.record, self.sys_flag, name)

    @property
    def tags(self) -> str:
        """Its tag; empty if it has none."""
        return stored_property(self.record, self.sys_flag, _TAGS) or ""

    @property
    def keys(self) -> tuple[str, ...]:
        """What it can be found by."""
        return tuple((self._stored(_KEYS) or "").split())

    @property
    def sharding_key(self) -> str:
        """What chose its queue; empty if nothing did."""
        return self._stored(_SHARDING_KEY) or ""

    @property
    def priority(self) -> int | None:
        """How urgent it is, larger is more; None if its producer did not say."""
        text = self._stored(_PRIORITY)
        return int(text) if text is not None and text.isdecimal() else None

    @property
    def flag(self) -> int:
        """The number that its producer gave it."""
        return self._i32(FLAG_AT)

    # --- how far behind ---

    @property
    def behind(self) -> int | None:
        """How many messages of its queue had been stored after it when it was pulled; None if it was not pulled."""
        return None if self.pull is None else max(0, self.pull.max_offset - self.offset - 1)

    @property
    def consume_start_ms(self) -> int | None:
        """When its listener was called, by the wall clock; None unless a listener has it now."""
        taken_ms = None if self.pull is None else self.pull.taken_ms.get(self.offset)
        return None if self.pull is None or taken_ms is None else taken_ms + self.pull.wall_minus_monotonic_ms

    def _of_pull(self, name: str) -> str | None:
        assert self.pull is not None
        if name == names.CONSUME_START_TIME:
            return None if (start_ms := self.consume_start_ms) is None else str(start_ms)
        return str(self.pull.min_offset if name == names.MIN_OFFSET else self.pull.max_offset)

    # --- names and places ---

    @property
    def topic(self) -> str:
        """The topic it was sent to, also when it comes again from a retry topic; without namespace."""
        topic = self.stored_topic
        if topic.startswith(RETRY_PREFIX):
            topic = self._stored(_RETRY_TOPIC) or topic
        return topic.removeprefix(f"{self.namespace}%") if self.namespace else topic

    @property
    def stored_topic(self) -> str:
        """The topic whose queue it came from."""
        return self.record[slice(*topic_range(self.record, self.sys_flag))].decode("utf-8", "replace")

    @property
    def queue(self) -> QueueId:
        """Where it was read: for one that comes again, a queue of the retry topic."""
        return QueueId(self.stored_topic, self.broker, self.queue_id)

    @property
    def message_id(self) -> str:
        """The id its producer gave it, or else ``offset_message_id``."""
        return self._stored(_UNIQUE_KEY) or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The id that leads a broker straight to it."""
        return encode_offset_id(self.store_host, self.position)

    @property
    def origin_message_id(self) -> str:
        """``offset_message_id`` of the first copy: a message that comes again was stored anew each time."""
        return self._stored(_ORIGIN_MESSAGE_ID) or self.offset_message_id

    @property
    def is_retry(self) -> bool:
        """Whether it comes from the group's retry topic (``stored_topic``)."""
        return self.stored_topic.startswith(RETRY_PREFIX)

    @property
    def transaction_id(self) -> str:
        """That of the transaction it was sent in."""
        return self._stored(_TRANSACTION_ID) or self._stored(_UNIQUE_KEY) or ""

    @property
    def delivery_attempt(self) -> int:
        """How often it was delivered before and failed: 0 at first."""
        return self._i32(self._store_host_end()) + self.failures_here

    def after_failure(self) -> Self:
        """Return the message with one attempt more, to be tried here again."""
        return msgspec.structs.replace(self, failures_here=self.failures_here + 1)

    @property
    def failure_story(self) -> FailureStory | None:
        """Why it failed before, as consumers reported it; None if it did not, or nobody reported.

        It grows when its listener fails.
        """
        return self._story or FailureStory.of(self.properties)

    @property
    def unreported_story(self) -> FailureStory | None:
        """What brokers do not know yet: why it failed here; None if it did not."""
        return self._story

    def note_failure(self, story: FailureStory) -> None:
        """Consumers tell the story with the message; one that is tried here again has it, too."""
        msgspec.structs.force_setattr(self, "_story", story)

    @property
    def prepared_position(self) -> int:
        """Where the prepared message of its transaction lies in the commit log."""
        return self._i64(self._store_host_end() + 4)

    # --- times and hosts ---

    @property
    def born_ms(self) -> int:
        """When it was sent, by the producer's clock."""
        return self._i64(BORN_MS_AT)

    @property
    def born_host(self) -> Host:
        """The address of its producer."""
        return Host.decode(self.record[BORN_HOST_AT : self._born_host_end()])

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
        return int(read_i32(self.record, at)[0])

    def _i64(self, at: int) -> int:
        return int(read_i64(self.record, at)[0])

    def _born_host_end(self) -> int:
        return BORN_HOST_AT + (HOST_V6_BYTES if self.sys_flag & BORN_V6 else HOST_V4_BYTES)

    def _store_host_end(self) -> int:
        return self._born_host_end() + 8 + (HOST_V6_BYTES if self.sys_flag & STORE_V6 else HOST_V4_BYTES)

    @property
    def stored_properties(self) -> bytes:
        """Properties as they are stored, which is what SQL filters read."""
        return self._raw_properties()

    def _raw_properties(self) -> bytes:
        return self.record[topic_range(self.record, self.sys_flag)[1] + 2 :]


class InflatedBodies:
    """Decompressed bodies of messages, kept with them while listeners have them; ``bytes_max`` is for all together.

    Of a message that no listener has (any more) the body is a cache, which goes when there is too much of it. When
    those of listeners leave no room, a listener on a thread waits until others have ended; one on the loop fails, and
    its message is tried again later. Any thread may call; a few inflate at a time.
    """

    def __init__(
        self, bytes_max: int = INFLATED_TOGETHER_BYTES_MAX, *, pause: Callable[[], object] | None = None
    ) -> None:
        """``pause`` is how a thread waits for a moment."""
        self._bytes_max = bytes_max
        self._pause = pause or partial(threading.Event().wait, _WAIT_S)
        self._at_once = threading.BoundedSemaphore(_INFLATE_AT_ONCE)
        self._lock = threading.Lock()
        self._held: list[ReceivedMessage] = []
        self.held_bytes = 0
        self._sweep_bytes = _CACHED_BYTES_MAX  # what is held before those that nobody has are looked for
        self._sweep_count = HELD_MAX  # or so many

    def __len__(self) -> int:
        """How many messages are held."""
        return len(self._held)

    def inflate(self, message: ReceivedMessage) -> bytes:
        """Decompress a body within the bounds of the process. Raises DecompressionError, TooMuchInflatedError."""
        body = self._try(message)
        if body is None and not _is_on_loop():
            for _ in range(_WAITS_MAX):
                self._pause()
                if self._room() >= INFLATED_BYTES_MAX and (body := self._try(message)) is not None:
                    break
        if body is None:
            raise TooMuchInflatedError(bytes_max=self._bytes_max)
        return body

    def _try(self, message: ReceivedMessage) -> bytes | None:
        """None when there is no room for it now."""
        with self._at_once:
            room = self._room()
            try:
                body = decompress(message.packed_body, message.sys_flag, bytes_max=min(room, INFLATED_BYTES_MAX))
            except InflatedTooLargeError:
                if room >= INFLATED_BYTES_MAX:
                    raise
                return None
            with self._lock:
                msgspec.structs.force_setattr(message, "_body", body)
                self._held.append(message)
                self.held_bytes += len(body)
            return body

    def _room(self) -> int:
        with self._lock:
            is_much = self.held_bytes > self._sweep_bytes or len(self._held) > self._sweep_count
            if is_much or self.held_bytes + INFLATED_BYTES_MAX > self._bytes_max:
                self._sweep()
            return max(0, self._bytes_max - self.held_bytes)

    def _sweep(self) -> None:
        held, self._held, self.held_bytes = self._held, [], 0
        for message in held:
            if message.is_with_listener:
                self._held.append(message)
                self.held_bytes += len(message._body or b"")
            else:
                msgspec.structs.force_setattr(message, "_body", None)
        self._sweep_bytes = max(_CACHED_BYTES_MAX, 2 * self.held_bytes)
        self._sweep_count = max(HELD_MAX, 2 * len(self._held))


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


inflated_bodies = InflatedBodies()
"""Of this process."""


def split_messages(
    data: bytes, broker: str, *, namespace: str = "", pull: PullFacts | None = None
) -> list[ReceivedMessage]:
    """All messages of a response, in order. Raises CorruptRecordError if lengths do not add up."""
    return split_as(ReceivedMessage, data, broker, namespace, pull)


def split_as(
    kind: type[MessageT], data: bytes, broker: str, namespace: str = "", pull: PullFacts | None = None
) -> list[MessageT]:
    """Split a pull response into messages of this kind."""
    if core is not None and type(data) is bytes:
        messages = core.split_records(data, kind, broker, namespace, pull)
        if messages is not None:  # else what follows says what is wrong
            return messages
    found: list[MessageT] = []
    add, unpack = found.append, HEAD.unpack_from
    start, end = 0, len(data)
    while end - start >= RECORD_OVERHEAD_BYTES:
        size, magic, queue_id, offset, position, sys_flag = unpack(data, start)
        if size < RECORD_OVERHEAD_BYTES or size > end - start or (magic != MAGIC_V1 and magic != MAGIC_V2):
            raise CorruptRecordError(position=position, reason=f"size {size} or magic {magic:#010x} is impossible")
        record = data[start : start + size]
        check_lengths(record, magic, sys_flag, position)
        add(kind(record, broker, queue_id, offset, position, sys_flag, namespace, pull))
        start += size
    if start != end:
        raise CorruptRecordError(position=-1, reason=f"{end - start} bytes behind the last message are none")
    return found
