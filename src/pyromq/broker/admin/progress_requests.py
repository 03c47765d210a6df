"""Consumer lag and progress, as tools ask for it: lag, time spans, corrections, and clones of a group's offsets."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import datetime
from functools import partial
from math import fsum
from typing import Final

from msgspec import UNSET, UnsetType

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.long_responses import PIECE, Steps, encoded, pieces
from pyromq.broker.base.stats import Stats
from pyromq.broker.base.system_names import refuse_change
from pyromq.broker.state.tables import Tables
from pyromq.model.queue import QueueId
from pyromq.net.connection import Connection
from pyromq.store.in_flight.queue import QueueName
from pyromq.store.in_flight.table import InFlightTable
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
TIMES_AS_TEXT_MAX: Final = 16_384  # queues


class ProgressHandler:
    """Requests 208, 303, 308, 314 and 317."""

    def __init__(
        self,
        environment: Environment,
        store: MessageStore,
        tables: Tables,
        stats: Stats,
        address: str,
        in_flight: InFlightTable,
    ) -> None:
        self._in_flight = in_flight
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

    def consume_stats(self, connection: Connection, request: Received[GetConsumeStatsHeader]) -> Steps:
        """Handle request 208 (GET_CONSUME_STATS): progress of one group."""
        header = request.header
        names = [header.topic] if header.topic else [name for name in (header.topic_list or "").split(";") if name]
        if not names:
            names = self._progress.topics_of(header.consumer_group)
            live = self._members.consumer_group(header.consumer_group)
            names += sorted(set(live.subscriptions) - set(names)) if live else []
        table: dict[QueueId, bodies.QueueProgress] = {}
        for name in names:
            table |= yield from self._queue_progress(header.consumer_group, name)
        rate = fsum(self._stats.get_rate(name, header.consumer_group) for name in names)
        return (yield from encoded(bodies.ConsumeStatsBody(offset_table=table, consume_tps=rate), "offset_table"))

    def broker_stats(self, connection: Connection, request: Received[GetBrokerConsumeStatsHeader]) -> Steps:
        """317: every group, in every topic it has consumed."""
        topics_of: dict[str, list[str]] = {group: [] for group, _ in sorted(self._groups.items())}
        for topic, group in sorted(key for key, _ in self._progress.items()):
            if group in topics_of:
                topics_of[group].append(topic)
        found: list[dict[str, list[bodies.ConsumeStatsBody]]] = []
        lag = in_flight = 0
        for group, topics in topics_of.items():
            present: list[bodies.ConsumeStatsBody] = []
            for topic in topics:
                stats = yield from self._topic_stats(group, topic, request.header.is_order)
                if stats is not None:
                    present.append(stats)
            found.append({group: present})
            for queue in (queue for each in present for queue in each.offset_table.values()):
                lag += queue.broker_offset - queue.consumer_offset
                in_flight += queue.pull_offset - queue.consumer_offset
            if len(found) % PIECE == 0:
                yield None
        response = bodies.BrokerConsumeStats(
            broker_addr=self._address, consume_stats_list=found, total_diff=lag, total_inflight_diff=in_flight
        )
        return partial(bodies.encode, response)

    def _topic_stats(
        self, group: str, topic: str, is_order: bool
    ) -> Generator[None, None, bodies.ConsumeStatsBody | None]:
        config = self._topics.get(topic)
        if config is None or (is_order and not config.order):
            return None
        rate, queues = self._stats.get_rate(topic, group), (yield from self._queue_progress(group, topic))
        return bodies.ConsumeStatsBody(offset_table=queues, consume_tps=rate)

    def _queue_progress(self, group: str, topic: str) -> Generator[None, None, dict[QueueId, bodies.QueueProgress]]:
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
                popped=self._popped(group, topic, number),
            )
            if len(found) % PIECE == 0:
                yield
        return found

    def _popped(self, group: str, topic: str, number: int) -> bodies.PoppedProgress | UnsetType:
        queue = self._in_flight.queues.get(QueueName(group, topic, number))
        if queue is None:
            return UNSET
        found = queue.facts(self._clock.now_ms())
        return bodies.PoppedProgress(
            in_flight=found.in_flight,
            ready=found.ready,
            settled=found.settled,
            attempts=found.attempts,
            invisible_until=found.until_ms,
        )

    def time_span(self, connection: Connection, request: Received[TopicGroupHeader]) -> Steps:
        """303: when the oldest, the newest and the last consumed message of each queue were stored.

        Of very many queues the times come as numbers only, since they would not fit into a frame as text, too.
        """
        header = request.header
        config = self._topics.require(header.topic)
        as_text = _time_text if config.read_queue_nums <= TIMES_AS_TEXT_MAX else _no_text
        spans = []
        for numbers in pieces(range(config.read_queue_nums)):
            spans += [self._times(header.group, header.topic, number, as_text) for number in numbers]
            yield None
        return (yield from encoded(bodies.TimeSpans(consume_time_span_set=spans), "consume_time_span_set"))

    def _times(self, group: str, topic: str, number: int, as_text: Callable[[int], str | None]) -> bodies.QueueTimes:
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
            min_time_stamp_str=as_text(oldest),
            max_time_stamp_str=as_text(newest),
            consume_time_stamp_str=as_text(consumed),
        )

    # --- comparing and copying ---

    def correction(self, connection: Connection, request: Received[QueryCorrectionOffsetHeader]) -> Steps:
        """308: where the slowest group stands in each queue; the largest number where ``compare_group`` is slower."""
        header = request.header
        left_out = set((header.filter_groups or "").split(","))
        slowest: dict[int, int] = {}
        of_topic = [
            tuple(queues.items())
            for (topic, group), queues in self._progress.items()
            if topic == header.topic and group not in left_out
        ]
        for queues in of_topic:
            for piece in pieces(queues):
                for number, offset in piece:
                    if offset >= self._first(header.topic, number):
                        slowest[number] = min(offset, slowest.get(number, offset))
                yield None
        for number, offset in slowest.items():
            compared = self._progress.committed(header.compare_group, header.topic, number)
            if compared is not None and offset > compared:
                slowest[number] = _NO_CORRECTION
        return partial(bodies.encode, bodies.CorrectionOffsets(correction_offsets=slowest))

    def _first(self, topic: str, number: int) -> int:
        known = self._store.reader.range_of(topic, number)
        return known.first if known else 0

    def clone(self, connection: Connection, request: Received[CloneGroupOffsetHeader]) -> None:
        """Handle request 314 (CLONE_GROUP_OFFSET)."""
        for group in (request.header.src_group, request.header.dest_group):
            refuse_change(topic=request.header.topic, group=group)
        self._groups.require(request.header.src_group)
        self._groups.require(request.header.dest_group)
        self._progress.clone(request.header.src_group, request.header.dest_group, request.header.topic)


def _no_text(_: int) -> None:
    return None


def _time_text(at_ms: int) -> str:
    """Format a time as RocketMQ's tools show it, in the time zone of the broker."""
    at = datetime.fromtimestamp(at_ms // 1000).astimezone()
    return f"{at:%Y-%m-%d#%H:%M:%S}:{at_ms % 1000:03}"
