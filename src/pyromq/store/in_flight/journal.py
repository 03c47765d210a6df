"""The journal: every change of the in-flight table, as records of an internal topic of the commit log.

    record body   msgpack array of changes, one record for all that happened in one iteration of the broker's loop
    change        array: "h" hand-out, "c" change of the invisible time, "a" acknowledged, "f" forgotten

The commit log is the write-ahead log: the journal shares its group commit, its flush and its replicas. Replaying a
change twice does no harm, as long as all later ones follow. Offsets are runs: first, count, first, count, ...
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from pyromq.errors import CorruptFileError
from pyromq.store.in_flight.queue import QueueName


class HandedOut(msgspec.Struct, frozen=True, array_like=True, tag="h", gc=False):
    """Messages of a queue were given to a consumer; ``blocked`` wait behind others of their message group."""

    group: str
    topic: str
    queue_id: int
    low: int
    next: int
    number: int
    popped_ms: int
    until_ms: int
    attempts: int
    runs: Sequence[int]
    keys: Sequence[int] = ()  # hashes of message groups of these offsets, in order mode
    blocked: Sequence[int] = ()  # offsets
    blocked_keys: Sequence[int] = ()


class Changed(msgspec.Struct, frozen=True, array_like=True, tag="c", gc=False):
    """One message has a new receipt and a new time; ``attempts`` is what the next delivery counts from."""

    group: str
    topic: str
    queue_id: int
    offset: int
    number: int
    popped_ms: int
    until_ms: int
    attempts: int


class Acked(msgspec.Struct, frozen=True, array_like=True, tag="a", gc=False):
    """These need not be delivered again."""

    group: str
    topic: str
    queue_id: int
    runs: Sequence[int]


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag="f", gc=False):
    """The group goes on at its committed offset, whatever was known of the queue."""

    group: str
    topic: str
    queue_id: int


Change = HandedOut | Changed | Acked | Forgotten

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Change]).decode


def encode_changes(changes: Sequence[Change]) -> bytes:
    return _encode(changes)


def decode_changes(body: bytes) -> list[Change]:
    """Decode the changes of a journal entry. Raises CorruptFileError."""
    try:
        return _decode(body)
    except msgspec.MsgspecError as error:
        raise CorruptFileError(f"a record of the journal of in-flight messages cannot be read: {error}") from error


def name_of(change: Change) -> QueueName:
    return QueueName(change.group, change.topic, change.queue_id)


def runs_of(offsets: Collection[int]) -> list[int]:
    """Group sorted offsets into runs."""
    if isinstance(offsets, range):
        return [offsets.start, len(offsets)]
    runs: list[int] = []
    end = -1
    for offset in offsets:
        if offset == end:
            runs[-1] += 1
        else:
            runs += (offset, 1)
        end = offset + 1
    return runs


def offsets_of(runs: Sequence[int]) -> Collection[int]:
    if len(runs) == 2:
        return range(runs[0], runs[0] + runs[1])
    pairs: Iterable[tuple[int, int]] = zip(runs[::2], runs[1::2], strict=True)
    return [offset for first, count in pairs for offset in range(first, first + count)]
