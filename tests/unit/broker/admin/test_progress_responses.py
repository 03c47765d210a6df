"""What tools are told about how far groups have come."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.broker.admin.progress_requests import ProgressHandler
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.stats import Stats
from pyromq.broker.state.members import Members
from pyromq.broker.state.progress import Progress
from pyromq.model.queue import QueueId
from pyromq.store.in_flight.table import InFlightTable
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.frame import FRAME_BYTES_MAX
from pyromq.wire.headers.admin import GetBrokerConsumeStatsHeader, GetConsumeStatsHeader
from pyromq.wire.headers.shared import TopicGroupHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.record import Draft
from tests.unit.broker.builders import ROOT, Wire, environment, groups, progress, request, tables, topics
from tests.unit.broker.long_answers import finished

SMALL = StoreSettings(segment_bytes=65_536, queue_file_entries=100, index_slots=100, index_entries=400)
NOON = 1_700_000_000_000


class Rig:
    """Queue 0 of orders holds three messages, stored a second apart; queue 1 holds none."""

    def __init__(self) -> None:
        self.clock, self.progress = ManualClock(NOON), progress()
        self.store = MessageStore.open(ROOT, SMALL, disk=FaultyDisk(), clock=self.clock)
        known, _ = topics()
        known.create("orders", queues=2)
        known.create("wide", queues=65_536)
        for _ in range(3):
            self.store.append([Draft(topic="orders", queue_id=0, body=b"x", properties=b"", born_ms=0)])
            self.clock.advance_ms(1_000)
        self.store.flush()
        self.groups, members = groups(), Members[Any](self.clock)
        state = tables(topics=known, groups=self.groups, progress=self.progress, members=members)
        self.handler = ProgressHandler(
            environment(clock=self.clock), self.store, state, Stats(self.clock), "here:1", InFlightTable()
        )

    def times(self) -> list[bodies.QueueTimes]:
        asked = TopicGroupHeader(topic="orders", group="readers")
        body = finished(self.handler.time_span(Wire().as_connection, request(header=asked)))
        return java_json.decode(body, bodies.TimeSpans).consume_time_span_set

    def queues(self) -> dict[int, bodies.QueueProgress]:
        asked = GetConsumeStatsHeader(consumer_group="readers")
        body = finished(self.handler.consume_stats(Wire().as_connection, request(header=asked)))
        table = bodies.decode(body, bodies.ConsumeStatsBody).offset_table
        return {queue.number: each for queue, each in table.items()}


@pytest.fixture
def rig() -> Rig:
    return Rig()


def commit(read: Progress, offset: int) -> None:
    read.commit("readers", "orders", 0, offset)


def test_times_of_a_queue_without_messages_are_minus_one(rig: Rig) -> None:
    empty = rig.times()[1]
    assert empty.message_queue == QueueId("orders", BrokerSettings().name, 1)
    assert (empty.min_time_stamp, empty.max_time_stamp, empty.consume_time_stamp, empty.delay_time) == (-1, -1, -1, 0)
    assert str(empty.min_time_stamp_str).endswith(":59:999"), "a millisecond before the epoch"


@pytest.mark.parametrize(
    ("offset", "consumed", "waited_ms"),
    [(None, NOON, 3_000), (1, NOON, 2_000), (2, NOON + 1_000, 1_000), (3, NOON + 2_000, 0)],
)
def test_times_of_a_queue_tell_how_long_the_next_message_waits(
    rig: Rig, offset: int | None, consumed: int, waited_ms: int
) -> None:
    if offset is not None:
        commit(rig.progress, offset)
    told = rig.times()[0]
    assert (told.min_time_stamp, told.max_time_stamp) == (NOON, NOON + 2_000)
    assert (told.consume_time_stamp, told.delay_time) == (consumed, waited_ms)


def test_times_are_told_as_text_too(rig: Rig) -> None:
    told = rig.times()[0]
    oldest, newest = str(told.min_time_stamp_str), str(told.max_time_stamp_str)
    assert oldest[10] == "#" and oldest.endswith(":20:000")
    assert newest.endswith(":22:000") and told.consume_time_stamp_str == told.min_time_stamp_str


def test_times_of_as_many_queues_as_there_may_be_fit_into_a_frame(rig: Rig) -> None:
    asked = request(header=TopicGroupHeader(topic="wide", group="readers"))
    body = finished(rig.handler.time_span(Wire().as_connection, asked))
    assert len(body) < FRAME_BYTES_MAX - 1_000
    told = java_json.decode(body, bodies.TimeSpans).consume_time_span_set
    assert len(told) == 65_536 and not told[-1].min_time_stamp_str and told[-1].min_time_stamp == -1


def test_a_group_has_pulled_what_it_committed_or_more(rig: Rig) -> None:
    commit(rig.progress, 1)
    assert rig.queues()[0].pull_offset == 1
    rig.progress.note_pull("readers", "orders", 0, 3)
    assert (rig.queues()[0].pull_offset, rig.queues()[0].consumer_offset, rig.queues()[1].pull_offset) == (3, 1, 0)


def test_all_groups_are_told_also_those_that_consumed_nothing(rig: Rig) -> None:
    for name in ("idle", "readers"):
        rig.groups.require(name)
    commit(rig.progress, 1)
    rig.progress.note_pull("readers", "orders", 0, 3)
    asked = request(header=GetBrokerConsumeStatsHeader(is_order=False))
    told = java_json.parse(finished(rig.handler.broker_stats(Wire().as_connection, asked)))
    by_group = {group: stats for each in told["consumeStatsList"] for group, stats in each.items()}
    assert by_group["idle"] == [] and len(by_group["readers"]) == 1
    assert (told["totalDiff"], told["totalInflightDiff"], told["brokerAddr"]) == (2, 2, "here:1")
