"""The send lane: what it takes, what keeps it from taking anything, and what becomes of sends when things go wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyromq.broker.base.window_counters import MESSAGE
from pyromq.broker.commit.commit import SendsOfOneRead
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.model.topic import TopicConfig, TopicFilterType
from pyromq.store.settings import Flush
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Command, decode_command, encode_request
from pyromq.wire.frame import FrameDecoder
from tests.unit.broker.sending.lane_rig import LaneRig, Peer, send_frame

pytestmark = pytest.mark.skipif(core is None, reason=f"there is no lane: {DESCRIPTION}")
KEY = "UNIQ_KEY\x017F0000010000000000000000\x02"


def sends(first: int, count: int = 1, **odd: Any) -> bytes:
    return b"".join(send_frame(number, "orders", 1, KEY, b"body", **odd) for number in range(first, first + count))


def answers(peer: Peer) -> list[Command]:
    return [decode_command(frame) for frame in FrameDecoder().feed(peer.answered)]


async def learned(rig: LaneRig) -> None:
    """One send the ordinary way, after which the lane knows the queue."""
    rig.arrive(0, sends(1))
    await rig.settle()
    assert rig.sends.lane.known == 1


def taken(rig: LaneRig, data: bytes, number: int = 0) -> int:
    """How many bytes the lane takes of them, without anything else."""
    connection = rig.clients[number].connection
    return int(rig.sends.lane.take(connection, data))


async def test_what_python_has_not_stored_before_is_not_taken() -> None:
    async with LaneRig(with_core=True) as rig:
        assert taken(rig, sends(1)) == 0
        await learned(rig)
        data = sends(2, 3)
        assert taken(rig, data) == len(data)
        assert taken(rig, send_frame(9, "orders", 2, KEY, b"")) == 0, "another queue"
        assert taken(rig, send_frame(9, "others", 1, KEY, b"")) == 0


async def test_it_takes_whole_frames_and_leaves_the_rest() -> None:
    async with LaneRig(with_core=True, store={"segment_bytes": 1 << 22}) as rig:
        await learned(rig)
        data = sends(2, 2)
        for cut in range(1, len(data)):
            whole = (len(data) // 2) * (2 * cut // len(data))
            assert taken(rig, data[:cut]) == whole
        pull = encode_request(RequestCode.GET_MAX_OFFSET, 7, {"topic": "orders", "queueId": "1"})
        assert taken(rig, sends(2) + pull + sends(3)) == len(sends(2))


@pytest.mark.parametrize("change", ["queues", "order", "multi", "delete", "settings"])
async def test_any_change_of_topics_or_settings_empties_it(change: str) -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        topics, config = rig.broker.parts.tables.topics, TopicConfig(topic_name="orders")
        match change:
            case "queues":
                topics.update(TopicConfig(topic_name="orders", write_queue_nums=1, read_queue_nums=4))
            case "order":
                topics.update(TopicConfig(topic_name="orders", order=True))
            case "multi":
                topics.update(TopicConfig(topic_name="orders", topic_filter_type=TopicFilterType.MULTI_TAG))
            case "delete":
                topics.delete(config.topic_name)
            case "settings":
                change_one = b"flushDelayOffsetInterval=9000\n"
                rig.arrive(1, encode_request(RequestCode.UPDATE_BROKER_CONFIG, 3, body=change_one))
        assert taken(rig, sends(2)) == 0
        if change in ("order", "multi"):
            rig.arrive(0, sends(3))
            await rig.settle()
            assert taken(rig, sends(4)) == 0, "the ordinary way has not shown it to be plain"


async def test_quotas_close_it_and_their_end_opens_it() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        for quotas, is_open in ((b"topic:orders messages=5", False), (b"", True)):
            rig.broker.settings.quotas = (quotas.decode(),) if quotas else ()
            rig.broker.tenure.renew_plan()
            assert rig.sends.lane.is_open is is_open
            rig.arrive(0, sends(2))
            await rig.settle()
            assert (taken(rig, sends(3)) > 0) is is_open


async def test_a_broker_that_has_stopped_takes_nothing() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        await rig.broker.stop()
        rig.arrive(0, sends(2, 2))
        codes = [answer.code for answer in answers(rig.clients[0])]
        assert codes == [ResponseCode.SUCCESS, *[ResponseCode.SERVICE_NOT_AVAILABLE] * 2]


async def test_nothing_is_taken_while_flow_control_is_on_or_the_store_cannot_be_written() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        gate, health = rig.broker.parts.write_path.gate, rig.broker.store.health
        gate.closed = True
        assert taken(rig, sends(2)) == 0
        gate.closed = False
        health.disk_full("a test")
        assert taken(rig, sends(2)) == 0
        health.space_returned()
        assert taken(rig, sends(2)) > 0


async def test_what_comes_behind_requests_that_wait_does_not_overtake_them() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        rig.broker.dispatcher.turns.waiting[rig.clients[0].connection] = []
        assert taken(rig, sends(2)) == 0
        assert taken(rig, sends(2), number=1) > 0
        del rig.broker.dispatcher.turns.waiting[rig.clients[0].connection]


async def test_ipv6_clients_and_stores_without_checksums_have_no_lane() -> None:
    async with LaneRig(with_core=True) as rig:
        assert not rig.sends.lane.serves(Peer(rig.broker, rig.clock, 9, "2001:db8::7").connection)
        assert rig.sends.lane.serves(rig.clients[0].connection)
    async with LaneRig(with_core=True, store={"checksums": False}) as rig:
        assert not rig.sends.lane.serves(rig.clients[0].connection)
        others = rig.clients[0].connection._fast_path.__self__  # the lane of acknowledgements, then that of pulls
        assert others is not rig.sends.lane and others.next_lane is rig.pulls.lane


async def test_sends_whose_commit_fails_are_refused_one_by_one() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)

        def refuse(kind: str) -> None:
            raise OSError(28, "simulated disk is full")

        rig.disk.before_each(refuse)
        rig.arrive(0, sends(2, 2) + sends(4, flag=2) + sends(5))
        await rig.settle()
        rig.disk.before_each(lambda kind: None)
        late = answers(rig.clients[0])[1:]
        assert [answer.correlation_id for answer in late] == [2, 3, 5]
        assert {answer.code for answer in late} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert rig.broker.store.queues["orders", 1].next_offset == 1


async def test_with_sync_flush_each_send_counts_and_is_told_when_the_disk_is_late() -> None:
    async with LaneRig(with_core=True, flush=Flush.SYNC) as rig:
        await learned(rig)
        path = rig.broker.parts.write_path
        path.disk._running = running = object()  # type: ignore[assignment]  # a flush that does not end
        rig.arrive(0, sends(2, 3))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert path.pressure.waiting_for_disk == 3 and len(answers(rig.clients[0])) == 1
        assert running is path.disk._running
        rig.clock.advance_ms(60_000)
        path.disk.answer_overdue()
        await asyncio.sleep(0)
        late = answers(rig.clients[0])[1:]
        assert [(each.correlation_id, each.code) for each in late] == [
            (number, ResponseCode.FLUSH_DISK_TIMEOUT) for number in (2, 3, 4)
        ]
        assert all(each.ext["msgId"] for each in late) and path.pressure.waiting_for_disk == 0
        path.disk._running = None


async def test_a_defect_of_the_core_ends_one_connection() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)

        class Broken:
            def take(self, *_: Any) -> Any:
                raise RuntimeError("the compiled core panicked")

        whole, rig.sends.lane._lane = rig.sends.lane._lane, Broken()
        rig.arrive(0, sends(2))
        assert not rig.clients[0].connection.is_open and rig.clients[1].connection.is_open
        rig.sends.lane._lane = whole
        rig.arrive(1, sends(3))
        await rig.settle()
        assert [answer.code for answer in answers(rig.clients[1])] == [ResponseCode.SUCCESS]


async def test_frames_are_counted_as_without_it() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        rig.arrive(0, sends(2, 5) + sends(9, flag=2))
        await rig.settle()
        connection = rig.clients[0].connection
        assert (connection.frames_in, connection.frames_out) == (7, 6)
        assert SendsOfOneRead(6, 5).sends == 6


async def test_wrong_arguments_are_refused_by_the_core() -> None:
    async with LaneRig(with_core=True) as rig:
        lane = rig.sends.lane._lane
        with pytest.raises((TypeError, ValueError, BufferError)):
            lane.take("text", bytes(8), 0, 0, 0)
        with pytest.raises((TypeError, ValueError)):
            lane.take(b"", b"short", 0, 0, 0)
        with pytest.raises((TypeError, OverflowError)):
            lane.learn("orders", 4, 70_000, object())
        assert core is not None
        with pytest.raises(ValueError, match="20 bytes each"):
            core.index_entries(b"short", memoryview(bytes(40)), 10, 1, 0)
        with pytest.raises(ValueError, match="slot table"):
            core.index_entries(bytes(20), memoryview(bytes(8)), 10, 1, 0)


async def test_an_escape_in_a_field_that_it_does_not_know_is_pythons() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        frame = sends(3, ext={"x": "y"})
        assert taken(rig, frame) == len(frame)
        assert taken(rig, sends(2, ext={"x": 'a"b'})) == 0
        assert taken(rig, frame.replace(b'"x":"y"', b'"x":"\\q"').replace(frame[:8], _prefix(frame, 1))) == 0


def _prefix(frame: bytes, more: int) -> bytes:
    """Of a frame whose header has so many bytes more."""
    words = int.from_bytes(frame[:4], "big") + more, int.from_bytes(frame[4:8], "big") + more
    return b"".join(word.to_bytes(4, "big") for word in words)


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE])
async def test_a_message_that_says_it_is_an_inner_batch_is_refused_by_a_warm_lane_too(code: RequestCode) -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        end = rig.broker.store.end_position
        rig.arrive(0, sends(2, code=int(code), ext={"f": "128"}))
        await rig.settle()
        answer = answers(rig.clients[0])[-1]
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL and "BatchCQ" in (answer.remark or "")
        assert rig.broker.store.end_position == end


async def test_what_was_taken_before_topics_change_is_counted() -> None:
    async with LaneRig(with_core=True) as rig:
        await learned(rig)
        rig.arrive(0, sends(2, 3))
        await rig.settle()
        rig.broker.parts.tables.topics.update(TopicConfig(topic_name="another"))
        rig.arrive(0, sends(5))  # the lane forgets what it knew, and with it what it had counted
        await rig.settle()
        rig.sends.lane.count_puts()
        assert rig.broker.parts.stats.counters.puts["orders"] // MESSAGE % MESSAGE == 5
