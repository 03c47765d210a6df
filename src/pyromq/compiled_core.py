"""The compiled core: what functions of store, broker, client and pipeline do, for many messages in one call, in Rust.

``core`` is the module ``pyromq_core`` (folder ``core/``), or None: it is not installed, ``PYROMQ_PURE=1`` switches it
off, or it speaks another interface than this version of PyroMQ. Everything works without it, more slowly; whoever uses
it has the same in Python beside it, and says so.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar, cast

INTERFACE: Final = 10
"""Which functions there are and what they mean; ``core/src/lib.rs`` has the same number."""

SWITCH: Final = "PYROMQ_PURE"
_ON: Final = ("1", "true", "yes", "on")

HASHED_KEY_BYTES: Final = 20
"""Hash (u32), position (i64) and store time (i64) of a key on its way to the index, big-endian."""

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")

TakenSends = tuple[int, int, int, int, bytes, bytes, bytes, int]
"""Bytes consumed; sends, messages, bytes of bodies; records; hashed keys; responses, and how many these are."""

ReadAcks = tuple[bytes, bytes, "list[tuple[str, int, int, int, int]]", bytes]
"""Group and topic as they were encoded; of each receipt its text, queue id, offset, number and time of the pop; and the
response that says that all is well.
"""

AckRun = tuple[int, int, int, Sequence[int]]
"""Receipts in a row that are of one queue and hand-out: queue id, number and time of the pop, offsets."""

TakenConsuming = tuple[
    int,
    int,
    int,
    int,
    "tuple[int, list[AckRun], list[str], list[tuple[int, int]]] | None",
    "tuple[int, bytes, bytes] | None",
]
"""Number of the client, where the rest begins, the last stream, bytes of DATA; and one of these two:

Acknowledgements: the number of their group and topic, receipts in runs and perhaps as texts, and for each call its
stream and how many of them are its own. A receive: stream, timeout and request.
"""

TakenPopAcks = tuple[int, str, str, list[AckRun], list[int], bytes]
"""Where the rest begins; group and topic; receipts; correlation ids; and the responses that say that all is well."""

TakenBatchAck = tuple[int, int, "list[tuple[str, str, int, int, int, list[int]]]", bytes]
"""Where the rest begins; the correlation id; of each hand-out group, topic, queue id, number, time of the pop and
offsets; and the response that says that all is well.
"""

TakenCalls = tuple[int, int, int, int, TakenSends]
"""Number of the client, where the rest begins, the last stream, bytes of DATA; and what is to be staged."""

PulledEntries = tuple["list[tuple[int, int]]", bytes | None, int, int, int, int, int]
"""Runs of records, or their bytes in one piece; messages, bytes, where the last record ends, the next offset, and how
many entries have no record any more.
"""

CopiedRun = tuple[int, int, int, bytes, "list[tuple[str, int, int, bytes]]"]
"""Bytes of a run of records, how many these are, the store time of the last, hashed keys, queues.

Of each queue: its topic and number, the offset of its first record in the run, its entries.
"""


TakenPull = tuple[tuple[str, str, int], tuple[str, str], int, int | None, int, int, bytes, Any | None]
"""Topic, group and queue id; topic and group; the next offset; the offset that it commits, if it does; messages and
bytes; its response, whole or up to its body; the parts of the body, if they are not in there.
"""

TakenPulls = tuple[int, list[TakenPull]]
"""Bytes consumed, and the pulls that these are."""


class PullLane(Protocol):
    """Takes plain pulls from the beginning of a read; ``core/src/pull_lane.rs``, and in Python ``PythonLane``."""

    def learn(
        self,
        key: tuple[str, str, int],
        sys_flag: int,
        subscription: tuple[str | None, int, str | None],
        queue: object,
        tags: Sequence[int],
        signer: tuple[str, bytes, str] | None,
    ) -> None: ...

    def forget(self) -> None: ...

    def __len__(self) -> int: ...

    def take(self, data: Buffer, log: tuple[int, int, int, int, int], ip: str | None) -> TakenPulls | None: ...


PopKind = tuple[str, str, int, int, int, int, str | None, str | None]
"""Group, topic, queue id, messages, invisible time, init mode, expression and its type."""

PoppedRead = tuple[Sequence[bytes | memoryview], int, int, int, int]
"""Stored bytes in pieces, messages and bytes, the next offset, the end of the queue."""


class PlainPops(Protocol):
    """Reads plain pops and the queues that they look at, and heads their responses; ``core/src/pop_lane.rs``."""

    def learn(self, kind: PopKind, request: object) -> None: ...

    def forget(self) -> None: ...

    def __len__(self) -> int: ...

    def take(self, data: Buffer) -> tuple[int, Any, int] | None: ...

    def read(
        self, queue: object, offset: int, count_max: int, tags: Sequence[int], log: tuple[int, int, int, int, int]
    ) -> PoppedRead | None: ...

    def response(
        self,
        opaque: int,
        numbers: tuple[int, int, int, int],
        portions: list[tuple[int, int, list[int]]],
        body_bytes: int,
    ) -> bytes: ...


class NewPopLane(Protocol):
    def __call__(
        self,
        segments: object,
        records: object,
        limits: tuple[int, int, int, int, int, int],
        frame_bytes: int,
        response: Sequence[bytes],
    ) -> PlainPops: ...


class NewPullLane(Protocol):
    def __call__(
        self,
        segments: object,
        records: object,
        limits: tuple[int, int, int, int, int, int],
        frame_bytes: int,
        response: Sequence[bytes],
    ) -> PullLane: ...


SentFacts = tuple[str, int, int, bool | None, str, str, str]
"""Of a message that a broker stored: its offset message id, queue id and offset, whether it is on disk, its transaction
id, the broker's region, and its recall handle; texts are empty where the broker says nothing.
"""


class RecordValues(Protocol):
    """Body and single properties of records; ``core/src/client.rs``, and in Python ``wire.fast.record_parts``."""

    def body(self, record: bytes, sys_flag: int) -> bytes: ...

    def property(self, record: bytes, sys_flag: int, name: bytes) -> str | None: ...


class NewRecordValues(Protocol):
    def __call__(
        self, body: Callable[[bytes, int], bytes], property_: Callable[[bytes, int, bytes], str | None], /
    ) -> RecordValues: ...


class SendFrame(Protocol):
    """The frame of a send to one queue; ``core/src/client.rs``, and in Python ``wire.fast.send_request``."""

    def encode(self, correlation_id: int, born_ms: int, flag: int, properties: str, body: bytes) -> bytes | None: ...


class NewSendFrame(Protocol):
    def __call__(self, pieces: Sequence[bytes]) -> SendFrame: ...


class SendLane(Protocol):
    """Takes plain sends from the beginning of what was read; ``core/src/send_lane.rs``."""

    def learn(self, topic: str, write_queues: int, queue_id: int, queue: object) -> None: ...

    def forget(self) -> None: ...

    def admit(self, user: str, secret: bytes, ip: str, code: int, topic: str) -> None: ...

    def forget_users(self) -> None: ...

    def __len__(self) -> int: ...

    def take(
        self, data: Buffer, born_host: bytes, position: int, room: int, stored_ms: int, ip: str | None
    ) -> TakenSends | None: ...

    def reserve(self, names: list[str]) -> None: ...

    def take_calls(
        self,
        lane: Http2Lane,
        data: bytes,
        at: int,
        bounds: tuple[int, int, int],
        turn: int,
        now_ms: int,
        place: tuple[int, int, int],
    ) -> TakenCalls | None: ...

    def stage_entries(self, line: object) -> list[Any]:
        """The records that the last ``take`` found are staged: stage their entries. Returns their queues."""

    def take_tallies(self) -> list[tuple[str, int, int, int]]:
        """Topics with sends, messages and bytes of records that were staged since the last call."""


class Http2Lane(Protocol):
    """Header tables and unanswered calls of one HTTP/2 connection; ``core/src/http2_lane.rs``."""

    @property
    def list_bytes(self) -> int: ...

    def decode(self, block: bytes) -> tuple[list[tuple[bytes, bytes]] | None, str, bool]: ...

    def __len__(self) -> int: ...

    def streams(self) -> list[int]: ...

    def close(self, stream_id: int) -> bytes | None: ...

    def admit(
        self,
        client_id: bytes,
        namespace: bytes,
        born_host: bytes,
        claim: tuple[bytes, bytes] | None,
        topic: tuple[tuple[bytes, bytes], tuple[bytes, int]] | None,
        pair: tuple[bytes, bytes] | None,
    ) -> tuple[int, int]: ...

    def forget(self) -> None: ...

    def responses(self, data: bytes, window: int, stream_window: int) -> tuple[bytes, int, int] | None: ...

    def ack_responses(self, streams: list[int], window: int, stream_window: int) -> tuple[bytes, int, int] | None: ...


class Deliveries(Protocol):
    """Stored records as responses of a receive; ``core/src/deliveries.rs``, and in Python ``broker.grpc.messages``."""

    def messages(
        self, portions: list[tuple[list[bytes | memoryview], bytes, int]], topic: bytes, invisible_ms: int
    ) -> bytes | None: ...

    def response(
        self,
        portions: list[tuple[list[bytes | memoryview], bytes, int]],
        topic: bytes,
        invisible_ms: int,
        stream_id: int,
        ends: tuple[bytes, int],
        blocks: tuple[bytes, bytes],
        room: int,
    ) -> tuple[bytes, int] | None: ...


class NewHttp2Lane(Protocol):
    def __call__(
        self, list_bytes_max: int, paths: Sequence[bytes], texts: tuple[bytes, bytes, bytes, bytes]
    ) -> Http2Lane: ...


class SigningKeys(Protocol):
    """Says who signed a request; ``core/src/signature.rs``."""

    def add(self, user: str, secret: bytes) -> None: ...

    def clear(self) -> None: ...

    def __len__(self) -> int: ...

    def signer(self, header: bytes, body: bytes) -> str | None: ...


class NewSendLane(Protocol):
    def __call__(
        self,
        limits: tuple[int, int, int, int, int, int],
        store_host: bytes,
        added: bytes,
        response: Sequence[bytes],
        waits_for_disk: bool,
    ) -> SendLane: ...


class Core(Protocol):
    """The module, as this version of PyroMQ knows it."""

    VERSION: str
    Deliveries: Callable[[list[str]], Deliveries]
    Http2Lane: NewHttp2Lane
    PopLane: NewPopLane
    PullLane: NewPullLane
    QueueLine: type[Any]
    QueueTail: type[Any]
    RecordValues: NewRecordValues
    SendFrame: NewSendFrame
    SendLane: NewSendLane
    SigningKeys: Callable[[], SigningKeys]

    def copied_records(self, data: Buffer, position: int, room: int, keys_max: int) -> CopiedRun | None: ...

    def read_acks(self, request: bytes, broker: bytes, status: bytes) -> ReadAcks | None: ...

    def sent_responses(self, data: Buffer, bytes_max: int) -> tuple[int, list[tuple[int, int, SentFacts]]]: ...

    def take_pop_acks(
        self, data: Buffer, frame_bytes_max: int, response: tuple[bytes, bytes]
    ) -> TakenPopAcks | None: ...

    def take_batch_ack(
        self, data: Buffer, frame_bytes_max: int, response: tuple[bytes, bytes]
    ) -> TakenBatchAck | None: ...

    def take_consuming(
        self, lane: Any, data: bytes, at: int, bounds: tuple[int, int, int], with_texts: bool
    ) -> TakenConsuming | None: ...

    def split_records(
        self, data: bytes, make: Callable[..., T], broker: str, namespace: str, pull: object
    ) -> list[T] | None: ...

    def arrow_columns(
        self, data: bytes, names: Sequence[str], first: int, end: int, tags: Sequence[bytes]
    ) -> tuple[int, dict[str, Any]] | None: ...

    def index_entries(
        self, keys: bytes, table: memoryview, slots: int, first: int, begin_ms: int
    ) -> tuple[bytes, bytes, int, int, int]: ...

    def scatter_words(self, table: memoryview, numbers: bytes, first: int) -> None: ...

    def pull_entries(
        self,
        entries: bytes,
        offset: int,
        bounds: tuple[int, int, int],
        limits: tuple[int, int, int, int],
        tags: Sequence[int] | None,
        segment: memoryview,
        base: int,
        log_end: int,
    ) -> PulledEntries | None: ...


class CoreIgnoredWarning(UserWarning):
    """``pyromq-core`` is installed, but not used: it does not fit, or cannot be loaded."""


def load(switch: str) -> tuple[Core | None, str]:
    """The core, and a few words about it; ``switch`` is the value of ``PYROMQ_PURE``."""
    if switch.strip().lower() in _ON:
        return None, f"pure Python ({SWITCH} is set)"
    try:
        import pyromq_core as found  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ModuleNotFoundError:
        return None, "pure Python (pyromq-core is not installed)"
    except ImportError as error:
        return _ignored(f"pyromq-core cannot be loaded: {error}")
    interface = getattr(found, "INTERFACE", None)
    if interface != INTERFACE:
        return _ignored(f"pyromq-core speaks interface {interface}, this version of PyroMQ speaks {INTERFACE}")
    return cast(Core, found), f"compiled core {found.VERSION}"


def _ignored(reason: str) -> tuple[None, str]:
    text = f"{reason}; pure Python is used instead. Install the one that fits: pip install --upgrade 'pyromq[fast]'"
    warnings.warn(text, CoreIgnoredWarning, stacklevel=3)
    return None, f"pure Python ({reason})"


core, DESCRIPTION = load(os.environ.get(SWITCH, ""))
