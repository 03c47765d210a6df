"""How far groups have come, as tools ask for it, and moving them: lag, time spans, clones, corrections."""

from __future__ import annotations

from pyromq.broker.groups import Groups
from pyromq.broker.members import Members
from pyromq.broker.progress import Progress
from pyromq.broker.settings import BrokerSettings
from pyromq.broker.stats import Stats
from pyromq.broker.topics import Topics
from pyromq.model.queue import QueueId
from pyromq.net.connection import Connection
from pyromq.store.message_store import MessageStore
from pyromq.wire import bodies, java_json
from pyromq.wire.headers.admin import (
    CloneGroupOffsetHeader,
    GetBrokerConsumeStatsHeader,
    GetConsumeStatsHeader,
    QueryCorrectionOffsetHeader,
)
from pyromq.wire.headers.shared import TopicGroupHeader
from pyromq.wire.received import Received

_NO_CORRECTION = (1 << 63) - 1


class ProgressHandler:
    """Requests 208, 303, 308, 314 and 317."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        progress: Progress,
        members: Members[Connection],
        stats: Stats,
        settings: BrokerSettings,
        address: str,
    ) -> None:
        self._store, self._topics, self._groups, self._progress = store, topics, groups, progress
        self._members, self._stats, self._settings, self._address = members, stats, settings, address

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
        return bodies.encode(bodies.ConsumeStats(offset_table=table, consume_tps=rate))

    def broker_stats(self, connection: Connection, request: Received[GetBrokerConsumeStatsHeader]) -> bytes:
        """317: every group in every topic it has consumed."""
        found, lag, in_flight = [], 0, 0
        for group, _ in sorted(self._groups.items()):
            stats = [
                self._topic_stats(group, topic, request.header.is_order) for topic in self._progress.topics_of(group)
            ]
            present = [each for each in stats if each is not None]
            if present:
                found.append({group: present})
            for queue in (queue for each in present for queue in each.offset_table.values()):
                lag += queue.broker_offset - queue.consumer_offset
                in_flight += max(0, queue.pull_offset - queue.consumer_offset)
        answer = bodies.BrokerConsumeStats(
            broker_addr=self._address, consume_stats_list=found, total_diff=lag, total_inflight_diff=in_flight
        )
        return bodies.encode(answer)

    def _topic_stats(self, group: str, topic: str, is_order: bool) -> bodies.ConsumeStats | None:
        config = self._topics.get(topic)
        if config is None or (is_order and not config.order):
            return None
        rate = self._stats.get_rate(topic, group)
        return bodies.ConsumeStats(offset_table=self._queue_progress(group, topic), consume_tps=rate)

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
                pull_offset=max(0, self._progress.pulled(group, topic, number)),
                last_timestamp=last_ms or 0,
            )
        return found

    def time_span(self, connection: Connection, request: Received[TopicGroupHeader]) -> bytes:
        """303: when the oldest, the newest and the last consumed message of each queue were stored."""
        header, reader = request.header, self._store.reader
        config, spans = self._topics.require(header.topic), []
        for number in range(config.read_queue_nums):
            known = reader.range_of(header.topic, number)
            first, end = known if known else (0, 0)
            offset = self._progress.committed(header.group, header.topic, number)
            consumed = reader.stored_ms(header.topic, number, offset - 1) if offset else None
            pending = reader.stored_ms(header.topic, number, offset or 0) if (offset or 0) < end else None
            spans.append(
                {
                    "messageQueue": QueueId(header.topic, self._settings.name, number),
                    "minTimeStamp": (reader.stored_ms(header.topic, number, first) or 0) if end > first else 0,
                    "maxTimeStamp": (reader.stored_ms(header.topic, number, end - 1) or 0) if end > first else 0,
                    "consumeTimeStamp": consumed or 0,
                    "delayTime": max(0, self._store.last_stored_ms - pending) if pending else 0,
                }
            )
        return java_json.dumps({"consumeTimeSpanSet": spans})

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
        self._groups.require(request.header.src_group)
        self._groups.require(request.header.dest_group)
        self._progress.clone(request.header.src_group, request.header.dest_group, request.header.topic)
