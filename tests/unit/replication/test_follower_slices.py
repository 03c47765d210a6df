"""When a replica has the log flushed: behind a slice, not amid it, and always when no more of one comes."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, cast

from pyromq.replication.follower import Follower, _Session, _Start
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.store.message_store import MessageStore
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.record import Draft, encode_record
from pyromq.wire.transfer import SliceDecoder, encode_head, encode_report


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.aborted = True


class Rig:
    """A session with a master that the test plays."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MessageStore.open(Path("/replica"), disk=FaultyDisk(), clock=self.clock)
        self.flushes: list[set[tuple[str, int]]] = []
        settings = ReplicationSettings(role=Role.REPLICA, master_address="127.0.0.1:1")
        self.follower = Follower(
            self.store, settings, self.clock, Random(1), find_master=cast(Any, None), on_copied=self._copied
        )
        self.session = _Session(self.follower, _Start(asked=1, next=0))
        self.follower._session = self.session
        self.transport = Transport()
        self.session.connection_made(cast(Any, self.transport))
        self.log = b""
        for offset in range(4):
            draft = Draft(topic="orders", queue_id=offset % 2, body=b"x" * 50)
            where = {"offset": offset // 2, "position": len(self.log)}
            self.log += encode_record(draft, **where, stored_ms=7, store_host=b"\x7f\0\0\1\0\0\x2a\x9f")
        self.size = len(self.log) // 4  # of a record

    def _copied(self, queues: dict[tuple[str, int], None]) -> None:
        self.flushes.append(set(queues))

    def slice(self, start: int, end: int) -> bytes:
        """From the second byte of the log on: the first one the replica knew."""
        return encode_head(start, end - start) + self.log[start:end]


async def test_a_slice_that_comes_in_parts_is_flushed_when_it_is_whole() -> None:
    rig = Rig()
    data = rig.slice(1, len(rig.log))
    for start in range(0, len(data), 40):
        rig.session.data_received(data[start : start + 40])
        assert (rig.store.end_position == len(rig.log)) is bool(rig.flushes)
    assert rig.flushes == [{("orders", 0), ("orders", 1)}], "one flush for all of it"
    assert rig.store.end_position == len(rig.log)


async def test_what_was_appended_of_a_slice_is_flushed_when_no_more_comes() -> None:
    rig = Rig()
    data = rig.slice(1, len(rig.log))
    rig.session.data_received(data[: 12 + 2 * rig.size + 5])
    assert rig.store.end_position == 2 * rig.size and not rig.flushes
    rig.session.tick()
    assert len(rig.flushes) == 1, "the master stalls"
    rig.session.data_received(data[12 + 2 * rig.size + 5 : 12 + 3 * rig.size])
    assert rig.store.end_position == 3 * rig.size and len(rig.flushes) == 1
    rig.session.connection_lost(None)
    assert len(rig.flushes) == 2, "the connection ends"
    rig.session.abort()
    rig.session.connection_lost(None)
    assert len(rig.flushes) == 2, "nothing is told twice"


async def test_what_came_before_a_damaged_record_is_flushed() -> None:
    rig = Rig()
    data = bytearray(rig.slice(1, len(rig.log)))
    data[12 + 2 * rig.size + 100] ^= 1
    rig.session.data_received(bytes(data[:-1]))
    assert rig.transport.aborted and rig.session.failure is not None
    assert rig.store.end_position == 2 * rig.size and len(rig.flushes) == 1


async def test_a_stop_amid_a_slice_flushes_before_the_store_is_closed() -> None:
    rig = Rig()
    rig.session.data_received(rig.slice(1, len(rig.log))[:-1])
    rig.session.abort()
    assert len(rig.flushes) == 1 and rig.store.end_position == 3 * rig.size


async def test_several_slices_of_one_read_are_one_flush_and_one_report() -> None:
    rig = Rig()
    two = rig.slice(1, 2 * rig.size) + rig.slice(2 * rig.size, 4 * rig.size)
    rig.session.data_received(two)
    assert len(rig.flushes) == 1
    rig.store.flush()
    rig.follower.flushed()
    rig.follower.flushed()
    assert rig.transport.written[1:] == [encode_report(len(rig.log))]


def test_parts_of_slices_are_views_and_say_whether_more_comes() -> None:
    decoder = SliceDecoder()
    assert not decoder.is_inside
    data = encode_head(5, 4) + b"ab"
    ((position, part),) = decoder.feed(data)
    assert (position, bytes(part), part.obj is data, decoder.is_inside) == (5, b"ab", True, True)
    assert [(at, bytes(more)) for at, more in decoder.feed(b"cd" + encode_head(9, 0))] == [(7, b"cd"), (9, b"")]
    assert not decoder.is_inside
