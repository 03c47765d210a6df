"""A topic with fewer queues than before: what is sent to the others is refused, whatever way it takes."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.compiled_core import DESCRIPTION, core
from pyromq.model.topic import TopicConfig
from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import decode_command
from pyromq.wire.frame import FrameDecoder
from tests.unit.broker.sending.lane_rig import LaneRig, send_frame

KEY = "UNIQ_KEY\x017F0000010000000000000000\x02"
BATCH = encode_batch([BatchItem(b"one", b""), BatchItem(b"two", b"")])
ONE_WAY = {"flag": 2}
WAYS: dict[str, dict[str, Any]] = {
    "send": {},
    "one-way": ONE_WAY,
    "old send": {"code": 10},
    "batch": {"code": 320, "body": BATCH},
    "one-way batch": {"code": 320, "body": BATCH, **ONE_WAY},
    "delayed": {"properties": KEY + "DELAY\x013\x02"},
    "timed": {"properties": KEY + "TIMER_DELAY_SEC\x0160\x02"},
    "prepared": {"properties": KEY + "TRAN_MSG\x01true\x02PGROUP\x01g\x02"},
}
LONG_NAMES = (
    *("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp", "flag"),
    "properties",
)
MODES = [pytest.param(True, id="core"), pytest.param(False, id="python")]


def frame(number: int, queue: int, way: str) -> bytes:
    odd = dict(WAYS[way])
    properties, body = odd.pop("properties", KEY), odd.pop("body", b"body")
    if odd.get("code") == RequestCode.SEND_MESSAGE:
        values = ("producers", "orders", "TBW102", "4", str(queue), "0", "1700000000123", "0", properties)
        odd["ext"] = dict.fromkeys("abcdefghijklmn") | dict(zip(LONG_NAMES, values, strict=True))
    return send_frame(number, "orders", queue, properties, body, **odd)


def answered(rig: LaneRig) -> dict[int, tuple[int, str]]:
    commands = map(decode_command, FrameDecoder().feed(rig.clients[0].answered))
    return {each.correlation_id: (each.code, each.remark or "") for each in commands}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("with_core", MODES)
async def test_sends_to_queues_that_were_taken_away_are_refused(way: str, with_core: bool) -> None:
    if with_core and core is None:
        pytest.skip(f"there is no lane: {DESCRIPTION}")
    is_oneway = "flag" in WAYS[way]
    async with LaneRig(with_core) as rig:
        for number in (1, 2, 3):  # twice cold and warm
            rig.arrive(0, frame(number, 3, way) + frame(number + 10, 1, way))
            await rig.settle()
        assert {code for code, _ in answered(rig).values()} == (set() if is_oneway else {ResponseCode.SUCCESS})
        rig.broker.parts.tables.topics.update(TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2))
        before = rig.broker.store.end_position
        rig.arrive(0, frame(20, 3, way) + frame(21, 2, way))
        await rig.settle()
        assert rig.broker.store.end_position == before, "nothing of it is stored"
        refused = {number: answer for number, answer in answered(rig).items() if number >= 20}
        assert refused.keys() == (set() if is_oneway else {20, 21})
        assert all(code == ResponseCode.INVALID_PARAMETER and "out of range" in text for code, text in refused.values())
        for number in (30, 31):
            rig.arrive(0, frame(number, 1, way))
            await rig.settle()
            assert rig.broker.store.end_position > before, "the queues that are left take it"
            before = rig.broker.store.end_position


@pytest.mark.parametrize("with_core", MODES)
async def test_a_queue_that_is_still_read_takes_sends_of_those_who_do_not_know_better(with_core: bool) -> None:
    """RocketMQ's way to shrink a topic: writing ends first, reading when nothing is left. Late sends are not lost."""
    if with_core and core is None:
        pytest.skip(f"there is no lane: {DESCRIPTION}")
    async with LaneRig(with_core) as rig:
        for number in (1, 2):
            rig.arrive(0, frame(number, 3, "send"))
            await rig.settle()
        rig.broker.parts.tables.topics.update(TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=2))
        for number in (3, 4):
            rig.arrive(0, frame(number, 3, "send"))
            await rig.settle()
        rig.arrive(0, frame(5, 4, "send"))
        codes = [code for code, _ in answered(rig).values()]
        assert codes == [*[ResponseCode.SUCCESS] * 4, ResponseCode.INVALID_PARAMETER]
        assert rig.broker.store.queues["orders", 3].next_offset == 4
