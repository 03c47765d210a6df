"""Collector: all metrics of a broker at one moment, made in steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from typing import Final, TypeVar

from pyromq.broker.base.lease import Lease
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.measuring.lag import LagTable
from pyromq.broker.measuring.sizes import MessageSizes
from pyromq.broker.wiring import Parts
from pyromq.clock import Clock
from pyromq.metrics import broker_table as table
from pyromq.metrics.declared import Metric
from pyromq.metrics.samples import Family, Labels, Value
from pyromq.model.names import (
    DEAD_LETTER_PREFIX,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    redrive_group,
)
from pyromq.model.system_names import is_system_group
from pyromq.replication.follower import Following
from pyromq.store.files.disk import Disk
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.json.heartbeat import ConsumeType

PIECE: Final = 256  # samples between two yields
_MASK: Final = (1 << 64) - 1
_STORAGE: Final = ("local", "disk")
_REMOTING: Final = "remoting"
_WAITING: Final = {  # types of messages that are not in their topic yet
    SCHEDULE_TOPIC: "delay",
    TIMER_TOPIC: "delay",
    HALF_TOPIC: "transaction",
    OP_HALF_TOPIC: "transaction",
}
_FIFO: Final = "FIFO"
_NO_QUEUE: Final = (  # processors of RocketMQ that have nothing to wait in here
    "ack",
    "query_message",
    "client_manager",
    "heartbeat",
    "lite_pull",
    "transaction",
    "consumer_manager",
    "reply",
)
_REQUEST_NAMES: Final = {int(code): code.name.lower() for code in RequestCode}
_RESPONSE_NAMES: Final = {int(code): code.name.lower() for code in ResponseCode}
_CONSUME_MODES: Final = {
    ConsumeType.CONSUME_ACTIVELY: "pull",
    ConsumeType.CONSUME_PASSIVELY: "push",
    ConsumeType.CONSUME_POP: "pop",
}

K = TypeVar("K")
Collecting = Generator[None, None, list[Family]]


class BrokerCollector:
    """``collect`` makes the families; what is kept between two collections lives here."""

    def __init__(
        self,
        parts: Parts,
        settings: BrokerSettings,
        clock: Clock,
        disk: Disk,
        long_responses: Callable[[], int] = lambda: 0,
    ) -> None:
        self._long_responses = long_responses  # how many wait to be made
        self._parts = parts
        self._settings = settings
        self._clock = clock
        self._disk = disk
        self._store = parts.write_path.store
        self._lag = LagTable(self._store, parts.tables.progress, clock)
        self._sizes = MessageSizes(self._store)

    @property
    def lag(self) -> LagTable:
        return self._lag

    def collect(self) -> Collecting:
        found: list[Family] = []
        for part in (
            self._traffic,
            self._queues,
            self._requests,
            self._groups,
            self._clients,
            self._storage,
            self._replication,
            self._waiting,
            self._state,
        ):
            found += yield from part()
            yield
        return found

    # --- labels ---

    def _is_system(self, topic: str) -> str:
        return _text(self._parts.tables.topics.is_system(topic))

    def _of_topic(self, topic: str) -> tuple[str, str, str]:
        kind = _WAITING.get(topic)
        if kind is None:
            config = self._parts.tables.topics.get(topic)
            is_fifo = config is not None and (config.order or config.attributes.get("message.type") == _FIFO)
            kind = "fifo" if is_fifo else "normal"
        return topic, kind, self._is_system(topic)

    # --- messages ---

    def _traffic(self) -> Collecting:
        stats, counters = self._parts.stats, self._parts.stats.counters
        puts = yield from _in_pieces(stats.puts.totals, self._of_topic)
        gets = yield from _in_pieces(counters.gets, self._of_get)
        yield from self._sizes.refresh()
        sizes = [(self._of_topic(topic), value) for topic, value in self._sizes.now().items()]
        return [
            Family(table.MESSAGES_IN, [(labels, tally >> 64 & _MASK) for labels, tally in puts]),
            Family(table.THROUGHPUT_IN, [(labels, tally & _MASK) for labels, tally in puts]),
            Family(table.MESSAGE_SIZE, sizes),
            Family(table.MESSAGES_OUT, [(labels, tally >> 64 & _MASK) for labels, tally in gets]),
            Family(table.THROUGHPUT_OUT, [(labels, tally & _MASK) for labels, tally in gets]),
            Family(
                table.SEND_TO_DLQ,
                [
                    ((group, topic, self._is_system(topic)), tally >> 64 & _MASK)
                    for (topic, group), tally in counters.dead.items()
                ],
            ),
            Family(
                table.SEND_BACKS,
                [((group, topic), tally >> 64 & _MASK) for (topic, group), tally in counters.send_backs.items()],
            ),
        ]

    def _of_get(self, key: tuple[str, str]) -> Labels:
        topic, group = key
        return topic, group, _text(topic.startswith(RETRY_PREFIX)), self._is_system(topic)

    def _queues(self) -> Collecting:
        samples: list[tuple[Labels, Value]] = []
        for number, ((topic, queue_id), queue) in enumerate(list(self._store.queues.items()), 1):
            samples.append(((topic, str(queue_id)), queue.committed_end))
            if number % PIECE == 0:
                yield
        return [Family(table.QUEUE_MESSAGES, samples)]

    # --- requests ---

    def _requests(self) -> Collecting:
        times, counters = self._parts.stats.counters.requests, self._parts.stats.counters
        yield
        return [
            Family(
                table.RPC_LATENCY,
                [
                    ((_REMOTING, _request(code), _response(response), _text(held), "success"), histogram.now())
                    for (code, response, held), histogram in times.latency.items()
                ],
            ),
            *(
                Family(
                    metric,
                    [
                        (("success" if worked else "failure", "false"), histogram.now())
                        for (name, worked), histogram in times.creations.items()
                        if name == metric.name
                    ],
                )
                for metric in (table.TOPIC_CREATE_TIME, table.GROUP_CREATE_TIME)
            ),
            Family(
                table.REFUSALS,
                [((_request(code), _response(response)), count) for (code, response), count in times.refused.items()],
            ),
            Family(table.REFUSED_SENDS, self._refused_sends()),
            Family(table.REFUSED_PULLS, self._refused_pulls()),
            Family(
                table.FLOW_CONTROL,
                [
                    (("REJECTREQUEST",), counters.refused_at_door),
                    (("OVERLOAD",), counters.refused_overload),
                    (("TIMEOUT_CLEAN_QUEUE",), counters.refused_from_queue_late),
                    (("PCBUSY_CLEAN_QUEUE",), counters.refused_from_queue_stuck),
                    (("PC_SYNCHRONIZED",), counters.refused_stuck),
                ],
            ),
            Family(
                table.QUOTA_REFUSALS,
                [
                    (("sends",), counters.quota_sends),
                    (("pulls",), counters.quota_pulls),
                    (("connections",), counters.quota_connections),
                    (("creations",), counters.quota_creations),
                ],
            ),
            Family(table.GROUP_COMMIT, [((), times.commits.now())]),
            Family(table.FSYNC, [((), times.flushes.now())]),
        ]

    def _refused_sends(self) -> list[tuple[Labels, Value]]:
        """Names that nobody has become one: clients may name anything."""
        topics, found = self._parts.tables.topics, Counter[Labels]()
        for (topic, code), count in self._parts.stats.counters.requests.refused_sends.items():
            found[topic if topics.get(topic) else "_unknown", _response(code)] += count
        return list(found.items())

    def _refused_pulls(self) -> list[tuple[Labels, Value]]:
        tables, found = self._parts.tables, Counter[Labels]()
        known_groups = dict(tables.groups.items())
        for (group, topic, code), count in self._parts.stats.counters.requests.refused_pulls.items():
            known_group = group if group in known_groups else "_unknown"
            known_topic = topic if tables.topics.get(topic) else "_unknown"
            found[known_group, known_topic, _response(code)] += count
        return list(found.items())

    # --- groups ---

    def _groups(self) -> Collecting:
        yield from self._lag.refresh()
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        messages: list[tuple[Labels, Value]] = []
        latency: list[tuple[Labels, Value]] = []
        in_flight: list[tuple[Labels, Value]] = []
        queueing: list[tuple[Labels, Value]] = []
        ready: list[tuple[Labels, Value]] = []
        blocking: list[tuple[Labels, Value]] = []
        finished: list[tuple[Labels, Value]] = []
        for number, ((topic, group), lag) in enumerate(list(self._lag.groups.items()), 1):
            if number % PIECE == 0:
                yield
            if group.startswith(redrive_group("")) and topic.startswith(DEAD_LETTER_PREFIX):
                continue  # told as dead letters
            labels = group, topic, _text(topic.startswith(RETRY_PREFIX)), self._is_system(topic)
            messages.append((labels, lag.messages))
            latency.append((labels, max(0, now_ms - lag.oldest_ms) if lag.oldest_ms else 0))
            in_flight.append((labels, lag.in_flight))
            queueing.append((labels, max(0, now_ms - lag.oldest_ready_ms) if lag.oldest_ready_ms else 0))
            ready.append((labels, lag.messages - lag.in_flight))
            finished.append(((group, topic), lag.finished))
            if lag.blocked_since_ms is not None:
                blocking.append(((group, topic), (monotonic_ms - lag.blocked_since_ms) / 1000))
        letters, worst = (yield from self._dead_letters()), (yield from self._lag.worst())
        odd: list[tuple[Labels, Value]] = [
            ((group.name,), len(group.disagreeing))
            for group in list(self._parts.tables.members.consumer_groups())
            if not group.agrees
        ]
        return [
            Family(table.LAG_MESSAGES, messages),
            Family(table.LAG_LATENCY, latency),
            Family(table.INFLIGHT_MESSAGES, in_flight),
            Family(table.QUEUEING_LATENCY, queueing),
            Family(table.READY_MESSAGES, ready),
            Family(table.FINISHED, finished),
            Family(table.BLOCKING_AGE, blocking),
            Family(
                table.QUEUE_LAG,
                [((each.group, each.topic, str(each.queue_id)), each.messages) for each in worst],
            ),
            Family(table.DEAD_LETTERS, letters),
            Family(table.SUBSCRIPTION_MISMATCHES, odd),
        ]

    def _dead_letters(self) -> Generator[None, None, list[tuple[Labels, Value]]]:
        """How many there are, and how many of them redriving has passed."""
        found: list[tuple[Labels, Value]] = []
        dead = [name for name, _ in self._parts.tables.topics.items() if name.startswith(DEAD_LETTER_PREFIX)]
        for number, topic in enumerate(dead, 1):
            group, redriven, left = topic.removeprefix(DEAD_LETTER_PREFIX), 0, 0
            config = self._parts.tables.topics.get(topic)
            for queue_id in range(config.read_queue_nums if config else 0):
                if queue_id % PIECE == PIECE - 1:
                    yield
                queue = self._store.queues.get((topic, queue_id))
                if queue is not None:
                    to = self._parts.tables.progress.committed(redrive_group(group), topic, queue_id) or 0
                    passed = min(max(to, queue.first), queue.committed_end)
                    redriven, left = redriven + passed - queue.first, left + queue.committed_end - passed
            found += [((group, "left"), left), ((group, "redriven"), redriven)]
            if number % PIECE == 0:
                yield
        return found

    # --- clients ---

    def _clients(self) -> Collecting:
        members = self._parts.tables.members
        producers, consumers = Counter[Labels](), Counter[Labels]()
        seen: set[int] = set()  # a connection may stand for several groups
        for each in members.producer_groups().values():
            for producer in each:
                if id(producer.connection) not in seen:
                    seen.add(id(producer.connection))
                    producers[producer.language.lower(), str(producer.version), _REMOTING] += 1
            yield
        for number, group in enumerate(list(members.consumer_groups()), 1):
            mode = _CONSUME_MODES.get(group.consume_type, "push")
            for member in list(group.members.values()):
                key = group.name, member.language.lower(), str(member.version), mode
                consumers[*key, _REMOTING, _text(is_system_group(group.name))] += 1
            if number % 16 == 0:
                yield
        return [
            Family(table.PRODUCER_CONNECTIONS, list(producers.items())),
            Family(table.CONSUMER_CONNECTIONS, list(consumers.items())),
            Family(table.HELD_PULLS, [((), len(self._parts.waiters))]),
        ]

    # --- store ---

    def _storage(self) -> Collecting:
        store, usage = self._store, self._disk.usage(self._store.layout.root)
        first, end = store.first_position, store.end_position
        oldest_ms = store.records.stored_ms(first) if end > first else 0
        age_ms = max(0, self._clock.now_ms() - oldest_ms) if oldest_ms else 0
        yield
        return [
            _one(table.STORAGE_SIZE, end - first, _STORAGE),
            _one(table.FLUSH_BEHIND, end - store.flushed_position, _STORAGE),
            _one(table.DISPATCH_BEHIND, 0, _STORAGE),
            _one(table.RESERVE_TIME, age_ms, _STORAGE),
            _one(table.WRITABLE, int(store.health.writable)),
            _one(table.DISK_USED, 1 - usage.free_bytes / usage.total_bytes if usage.total_bytes else 0.0),
            _one(table.DISK_FREE, usage.free_bytes),
            _one(table.UNREAD_DELETED, self._parts.stats.counters.unread_deleted),
            _one(table.RECOVERY_CUTS, len(store.recovered.cuts)),
            _one(table.RECOVERY_DAMAGED, len(store.recovered.damaged)),
            _one(table.DAMAGED_READS, store.reader.scan.damaged_reads),
            _one(table.SCRUBBED, self._parts.services.maintenance.scrub.progress),
            _one(table.LOG_DAMAGED, self._parts.services.maintenance.scrub.damaged_bytes),
        ]

    def _replication(self) -> Collecting:
        replication, end = self._parts.replication, self._store.end_position
        found = [_one(table.ROLE, 1, (replication.role.value,))]
        yield
        if replication.leader is not None:
            replicas, durable = replication.leader.replicas, replication.leader.end
            behind = [((host,), max(0, end - position)) for host, position in replicas.positions().items()]
            found += [
                _one(table.REPLICAS_IN_SYNC, len(replicas.in_sync(durable))),
                Family(table.REPLICA_BEHIND, behind),
                _one(table.UNCONFIRMED, max(0, end - replication.confirmed)),
            ]
        if (follower := replication.follower) is not None:
            state = follower.state
            found.append(_one(table.FOLLOWING, int(state is Following.FOLLOWING), (state.name.lower(),)))
        return found

    # --- delays and transactions ---

    def _waiting(self) -> Collecting:
        runner, endings = self._parts.services.delay_runner, self._parts.stats.counters.endings
        timers, metrics = runner.timers, runner.timers.metrics
        yield
        levels = runner.schedule.progress()
        return [
            _one(table.TIMER_ENQUEUE_LAG, timers.behind_offsets),
            _one(table.TIMER_DEQUEUE_LATENCY, timers.behind_ms),
            Family(table.TIMING_MESSAGES, [((topic,), waiting.count) for topic, waiting in metrics.items()]),
            _by_name(table.TIMER_ENQUEUED, metrics.taken),
            _by_name(table.TIMER_DEQUEUED, metrics.released),
            Family(table.DELAY_LEVELS, [((str(level),), end - cursor) for level, (cursor, end) in levels.items()]),
            _one(table.DELAY_LATE, self._parts.stats.counters.delay_late_ms / 1000),
            _one(table.HALF_MESSAGES, self._parts.services.transaction_log.table.waiting, ("*",)),
            _by_name(table.COMMIT_MESSAGES, endings.committed),
            _by_name(table.ROLLBACK_MESSAGES, endings.rolled_back),
            Family(table.FINISH_LATENCY, [((topic,), ages.now()) for topic, ages in endings.ages.items()]),
        ]

    # --- the broker itself ---

    def _state(self) -> Collecting:
        parts, settings = self._parts, self._settings
        registered, given = len(parts.services.registrar.registered_with), len(settings.nameservers)
        lease = parts.replication.environment.lease
        yield
        waiting = {
            "send": parts.write_path.pressure.waiting_for_disk,
            "async_put": len(parts.write_path.gate),
            "pull": len(parts.waiters),
            "admin": self._long_responses(),
            **dict.fromkeys(_NO_QUEUE, 0),
        }
        return [
            Family(table.PROCESSOR_WATERMARK, [((name,), count) for name, count in waiting.items()]),
            _one(table.BROKER_PERMISSION, settings.permission),
            _one(table.TOPIC_NUMBER, len(parts.tables.topics.items())),
            _one(table.GROUP_NUMBER, len(parts.tables.groups.items())),
            Family(table.NAMESERVERS, [(("registered",), registered), (("missing",), max(0, given - registered))]),
            _one(table.NAME_TAKEN, parts.services.registrar.name_watch.taken),
            _one(table.LEASE_NUMBER, lease.state.number if lease is not None else 0),
            _one(table.LEASE_LEFT, lease.left_s if lease is not None else 0.0),
            _one(table.LEASE_CUTS, lease.cut_messages if lease is not None else 0),
            _one(table.LEASE_WAITING, int(lease is not None and bool(lease.waiting))),
            Family(table.LEASE_MISSING, _missing(lease)),
        ]


def _missing(lease: Lease | None) -> list[tuple[Labels, Value]]:
    away = lease.away if lease is not None and lease.is_open else {}
    return [((member,), since_ms / 1_000) for member, since_ms in away.items()]


def _one(metric: Metric, value: float, labels: Labels = ()) -> Family:
    return Family(metric, [(labels, value)])


def _by_name(metric: Metric, counts: Mapping[str, int]) -> Family:
    return Family(metric, [((name,), count) for name, count in counts.items()])


def _in_pieces(
    tallies: Mapping[K, int], labels_of: Callable[[K], Labels]
) -> Generator[None, None, list[tuple[Labels, int]]]:
    found = []
    for number, (key, tally) in enumerate(list(tallies.items()), 1):
        found.append((labels_of(key), tally))
        if number % PIECE == 0:
            yield
    return found


def _text(flag: bool) -> str:
    return "true" if flag else "false"


def _request(code: int) -> str:
    return _REQUEST_NAMES.get(code, "unknown")


def _response(code: int) -> str:
    return _RESPONSE_NAMES.get(code, "unknown")
