"""The fast path of a connection: it sees bytes before they become frames, and what it leaves goes the ordinary way."""

from __future__ import annotations

import pytest

from pyromq.net import Connection, ConnectionSettings
from pyromq.net.half_read import HalfReadFrames
from pyromq.wire.command import encode_request
from tests.unit.net.fakes import Notebook, Rig, turn

FRAME = encode_request(34, 1)


class Greedy(Notebook):
    """Takes so many frames of each read, and says what it saw."""

    def __init__(self, frames: int = 1) -> None:
        super().__init__()
        self.frames = frames
        self.saw: list[bytes] = []

    def fast_path(self, connection: Connection):  # type: ignore[no-untyped-def]
        def take(connection: Connection, data: bytes | bytearray | memoryview) -> int:
            self.saw.append(bytes(data))
            if self.frames < 0:
                raise ZeroDivisionError("a defect")
            connection.queue(b"answer", 1)
            return min(len(FRAME) * self.frames, len(data) // len(FRAME) * len(FRAME))

        return take


async def test_what_it_leaves_becomes_requests() -> None:
    rig = Rig(handler=(handler := Greedy()))
    rig.arrive(FRAME + encode_request(34, 2) + encode_request(34, 3))
    assert handler.batches == [[2, 3]] and rig.transport.writes[0] == b"answer"
    rig.arrive(FRAME)
    assert handler.batches == [[2, 3]] and len(rig.transport.writes) == 2


async def test_half_a_frame_waits_and_is_shown_whole() -> None:
    half_read = HalfReadFrames(1 << 20)
    rig = Rig(handler=(handler := Greedy(9)), half_read=half_read)
    rig.arrive(FRAME + FRAME[:10])
    assert handler.saw == [FRAME + FRAME[:10]] and half_read.bytes == 10
    rig.arrive(FRAME[10:20])
    assert len(handler.saw) == 1 and half_read.bytes == 20
    rig.arrive(FRAME[20:] + FRAME)
    assert handler.saw[1:] == [FRAME + FRAME] and half_read.bytes == 0 and handler.batches == []


async def test_a_defect_in_it_ends_the_connection() -> None:
    rig = Rig(handler=(handler := Greedy(-1)))
    rig.arrive(FRAME)
    assert rig.transport.is_aborted and handler.batches == []
    await turn()
    assert handler.events[-1] == "disconnected: the handler failed"


async def test_a_handler_without_one_sees_everything() -> None:
    rig = Rig()
    rig.arrive(FRAME)
    assert rig.handler.batches == [[1]]


@pytest.mark.parametrize("count", [1, 5])
async def test_frames_in_one_piece_are_counted_one_by_one(count: int) -> None:
    rig = Rig()
    assert rig.connection.queue(FRAME * count, count)
    assert not rig.connection.queue(FRAME), "the first one has to be flushed, and takes this one along"
    rig.connection.flush()
    assert rig.connection.frames_out == count + 1 and rig.transport.writes == [FRAME * (count + 1)]


async def test_what_is_sent_now_does_not_overtake_what_is_queued() -> None:
    rig = Rig()
    rig.connection.send_now(b"1" * 20, 2)
    assert rig.transport.writes == [b"1" * 20] and rig.connection.frames_out == 2
    rig.connection.send(b"2")
    rig.connection.send_now(b"34", 2)
    assert b"".join(rig.transport.writes[1:]) == b"234" and rig.connection.frames_out == 5
    await turn()
    assert rig.connection.bytes_out == 23 and len(b"".join(rig.transport.writes)) == 23


async def test_nothing_is_sent_now_once_closed() -> None:
    rig = Rig()
    rig.connection.close()
    rig.connection.send_now(b"late")
    await turn()
    rig.connection.send_now(b"later")
    assert rig.transport.writes == [] and rig.connection.frames_out == 0


async def test_who_does_not_read_is_cut_when_more_is_sent_now() -> None:
    rig = Rig(reads=False, settings=ConnectionSettings(idle_ms=0, unsent_bytes_high=1_000, unsent_bytes_max=10_000))
    rig.connection.send_now(bytes(9_000))
    assert rig.connection.is_congested and not rig.transport.is_aborted
    rig.connection.send_now(bytes(1_001))
    assert rig.transport.is_aborted and "does not read" in rig.connection.close_reason


async def test_a_read_after_a_defect_is_not_taken_for_one_that_goes_on() -> None:
    rig = Rig(handler=(handler := Greedy(-1)))
    rig.arrive(FRAME)
    assert rig.transport.is_aborted and not rig.connection._is_reading and handler.batches == []
