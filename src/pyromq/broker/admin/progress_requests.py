"""Consumer lag and progress, as tools ask for it: lag, time spans, corrections, and clones of a group's offsets."""

from __future__ import annotations

from datetime import datetime

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.stats import Stats
from pyromq.broker.base.system_names import refuse_change
from pyromq.broker.state.tables import Tables
from pyromq.model.queue import QueueId
from pyromq.net.connection import Connection
from pyromq.store.message_store import MessageStore
from pyromq.wire.headers.admin import (
    CloneGroupOffsetHeader,
    GetBrokerConsumeStatsHeader,
    GetConsumeStatsHeader,
    QueryCorrectionOffsetHeader,
)
from pyromq.wire.headers.shared import TopicGroupHeader
from pyromq.wire.json import bodies
from pyromq.wire.received import Received

_NO_CORRECTION = (1 << 63) - 1


class ProgressHandler:
    """Requests 208, 303, 308, 314 and 317."""

    def __init__(
        self, environment: Environment, store: MessageStore, tables: Tables, stats: Stats, address: str
    ) -> None:
        self._store = store
        self._topics = tables.topics
        self._groups = tables.groups
        self._progress = tables.progress
        self._members = tables.members
        self._stats = stats
        self._settings = environment.settings
        self._address = address
        self._clock = environment.clock

    # --- lag ---

    def consume_stats(self, connection: Connection, request: Received[GetConsumeStatsHeader]) -> bytes:
        """208: one group."""
        header = request.header
        names = [header.topic] if header.topic else [name for name in (header.topic_list or "").split(";") if name]
        if not names:
            names = self._progress.topics_of(header.consumer_group)
            live = self._members.consumer_group(header.consumer_group)
            names += sorted(set(live.subscriptions) - set(names)) if live else []
        table: dict[QueueId, bodies.QueueProgress] = {}
        for name in names:
            table |= self._queue_progress(header.consumer_group, name)
        rate = sum(self._stats.get_rate(name, header.consumer_group) for name in names)
        return bodies.encode(bodies.ConsumeStatsBody(offset_table=table, consume_tps=rate))

    def broker_stats(self, connection: Connection, request: Received[GetBrokerConsumeStatsHeader]) -> bytes:
        """317: every group, in every topic it has consumed."""
        found, lag, in_flight = [], 0, 0
        for group, _ in sorted(self._groups.items()):
            stats = [
                self._topic_stats(group, topic, request.header.is_order) for topic in self._progress.topics_of(group)
            ]
            present = [each for each in stats if each is not None]
            found.append({group: present})
            for queue in (queue for each in present for queue in each.offset_table.values()):
                lag += queue.broker_offset - queue.consumer_offset
                in_flight += queue.pull_offset - queue.consumer_offset
        response = bodies.BrokerConsumeStats(
            broker_addr=self._address, consume_stats_list=found, total_diff=lag, total_inflight_diff=in_flight
        )
        return bodies.encode(response)

    def _topic_stats(self, group: str, topic: str, is_order: bool) -> bodies.ConsumeStatsBody | None:
        config = self._topics.get(topic)
        if config is None or (is_order and not config.order):
            return None
        rate = self._stats.get_rate(topic, group)
        return bodies.ConsumeStatsBody(offset_table=self._queue_progress(group, topic), consume_tps=rate)

    def _queue_progress(self, group: str, topic: str) -> dict[QueueId, bodies.QueueProgress]:
        config = self._topics.get(topic)
        found = {}
        for number in range(config.read_queue_nums if config else 0):
            known = self._store.reader.range_of(topic, number)
            offset = self._progress.committed(group, topic, number) or 0
            last_ms = self._store.reader.stored_ms(topic, number, offset - 1) if offset else None
            found[QueueId(topic, self._settings.name, number)] = bodies.QueueProgress(
                broker_offset=known.end if known else 0,
                consumer_offset=offset,
                pull_offset=self._progress.pulled(group, topic, number),
                last_timestamp=last_ms or 0,
            )
        return found

    def time_span(self, connection: Connection, request: Received[TopicGroupHeader]) -> bytes:
        """303: when the oldest, the newest and the last consumed message of each queue were stored."""
        header = request.header
        config = self._topics.require(header.topic)
        spans = [self._times(header.group, header.topic, number) for number in range(config.read_queue_nums)]
        return bodies.encode(bodies.TimeSpans(consume_time_span_set=spans))

    def _times(self, group: str, topic: str, number: int) -> bodies.QueueTimes:
        reader = self._store.reader
        first, end = reader.range_of(topic, number) or (0, 0)
        offset = self._progress.committed(group, topic, number) or 0

        def stored_ms(at: int) -> int:
            return (reader.stored_ms(topic, number, at) if first <= at < end else None) or -1

        oldest, newest, pending = stored_ms(first), stored_ms(end - 1), stored_ms(max(first, offset))
        consumed = stored_ms(offset - 1) if offset else oldest  # a group that has consumed nothing stands there
        return bodies.QueueTimes(
            message_queue=QueueId(topic, self._settings.name, number),
            min_time_stamp=oldest,
            max_time_stamp=newest,
            consume_time_stamp=consumed,
            delay_time=max(0, self._clock.now_ms() - pending) if pending > 0 else 0,
            min_time_stamp_str=_time_text(oldest),
            max_time_stamp_str=_time_text(newest),
            consume_time_stamp_str=_time_text(consumed),
        )

    # --- comparing and copying ---

    def correction(self, connection: Connection, request: Received[QueryCorrectionOffsetHeader]) -> bytes:
        """308: where the slowest group stands in each queue; the largest number where ``compare_group`` is slower."""
        header = request.header
        left_out = set((header.filter_groups or "").split(","))
        slowest: dict[int, int] = {}
        for (topic, group), queues in self._progress.items():
            if topic == header.topic and group not in left_out:
                for number, offset in queues.items():
                    if offset >= self._first(topic, number):
                        slowest[number] = min(offset, slowest.get(number, offset))
        for number, offset in slowest.items():
            compared = self._progress.committed(header.compare_group, header.topic, number)
            if compared is not None and offset > compared:
                slowest[number] = _NO_CORRECTION
        return bodies.encode(bodies.CorrectionOffsets(correction_offsets=slowest))

    def _first(self, topic: str, number: int) -> int:
        known = self._store.reader.range_of(topic, number)
        return known.first if known else 0

    def clone(self, connection: Connection, request: Received[CloneGroupOffsetHeader]) -> None:
        """314."""
        for group in (request.header.src_group, request.header.dest_group):
            refuse_change(topic=request.header.topic, group=group)
        self._groups.require(request.header.src_group)
        self._groups.require(request.header.dest_group)
        self._progress.clone(request.header.src_group, request.header.dest_group, request.header.topic)


def _time_text(at_ms: int) -> str:
    """As RocketMQ's tools show it, in the time zone of the broker."""
    at = datetime.fromtimestamp(at_ms // 1000).astimezone()
    return f"{at:%Y-%m-%d#%H:%M:%S}:{at_ms % 1000:03}"
