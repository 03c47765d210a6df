"""Which queue a priority message goes to, by RocketMQ's rule."""

from __future__ import annotations

import pytest

from pyromq.broker.sending.priority import queue_by_priority
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.model import property_names as names
from pyromq.model.message import Message
from pyromq.wire.fast.message_properties import properties_text
from pyromq.wire.property_text import join_items
from tests.unit.broker.sending.lane_rig import LaneRig, send_frame
from tests.unit.broker.sending.test_send_lane import answers

_NEEDS_CORE = pytest.mark.skipif(core is None, reason=f"there is no lane: {DESCRIPTION}")


def text_of(**properties: str) -> str:
    return join_items(properties.items())


@pytest.mark.parametrize(("priority", "queue"), [(0, 0), (3, 3), (7, 7), (8, 7), ((1 << 31) - 1, 7)])
def test_the_queue_is_the_priority_or_the_last_one(priority: int, queue: int) -> None:
    text = properties_text(Message("orders", b"1", priority=priority), "ID")
    assert queue_by_priority(text, 5, 8) == (queue, text)


@pytest.mark.parametrize("value", ["-1", "high", "1.5"])
def test_a_priority_that_is_none_leaves_the_queue_to_the_sender(value: str) -> None:
    text = text_of(**{names.PRIORITY: value, "TAGS": "x"})
    assert queue_by_priority(text, 5, 8) == (5, text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (names.DELAY, "3"),
        (names.TIMER_DELAY_MS, "1000"),
        (names.TIMER_DELIVER_MS, "1700000000000"),
        (names.TIMER_DELAY_SEC, "5"),
        (names.SHARDING_KEY, "k"),
        (names.PREPARED, "true"),
    ],
)
def test_a_message_of_another_kind_loses_its_priority(name: str, value: str) -> None:
    text = text_of(**{names.PRIORITY: "7", name: value})
    assert queue_by_priority(text, 2, 8) == (2, text_of(**{name: value}))


@pytest.mark.parametrize("with_core", [False, pytest.param(True, marks=_NEEDS_CORE)])
async def test_a_broker_stores_by_priority_also_when_the_lane_knows_the_queue(with_core: bool) -> None:
    plain, urgent = text_of(UNIQ_KEY="A"), text_of(UNIQ_KEY="B", **{names.PRIORITY: "9"})
    async with LaneRig(with_core=with_core) as rig:
        for number, text in enumerate((plain, urgent, plain)):
            rig.arrive(0, send_frame(number, "orders", 1, text, b"body"))
            await rig.settle()
        ends = {queue: rig.broker.parts.write_path.store.reader.range_of("orders", queue) for queue in range(4)}
    assert {queue: found.end for queue, found in ends.items() if found is not None and found.end} == {1: 2, 3: 1}
    numbers = [each.ext["queueId"] for each in answers(rig.clients[0])]
    assert numbers == ["1", "3", "1"]
