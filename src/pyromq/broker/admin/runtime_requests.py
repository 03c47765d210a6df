"""Run-time information about the broker as a whole: what it is doing, its statistics, its offsets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyromq.broker.admin.delay_requests import DelayHandler
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.long_responses import Steps, elsewhere
from pyromq.broker.base.name_watch import NameWatch
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.stats import Stats
from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.pulling.pull_waiters import PullWaiters
from pyromq.broker.state.progress import Progress
from pyromq.compiled_core import DESCRIPTION
from pyromq.net.connection import Connection
from pyromq.net.stalls import StallWatch
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.admin import ViewBrokerStatsHeader
from pyromq.wire.json import bodies
from pyromq.wire.received import Received

VERSION_TEXT = "V5_3_3"  # what our protocol version stands for; tools print it


class RuntimeHandler:
    """Requests 28, 43, 315 and 907."""

    def __init__(
        self,
        environment: Environment,
        write_path: WritePath,
        progress: Progress,
        waiters: PullWaiters,
        stats: Stats,
        delays: DelayHandler,
        stalls: StallWatch,
        name_watch: NameWatch,
    ) -> None:
        self._stalls = stalls
        self._name_watch = name_watch
        self._delays = delays
        self._store = write_path.store
        self._progress = progress
        self._settings = environment.settings
        self._clock = environment.clock
        self._disk = environment.disk
        self._disk_stage = write_path.disk
        self._pressure = write_path.pressure
        self._waiters = waiters
        self._stats = stats
        self._started_ms = environment.clock.now_ms()
        # of a broker that has replicas, or is one: what it is doing, in our words and in RocketMQ's
        self.replication_facts: Callable[[], dict[str, object]] = dict
        self.scrub_facts: Callable[[], dict[str, object]] = dict  # how far it is, and what it found
        self.replication_state: Callable[[], bodies.ReplicationState] = self._alone

    def runtime_info(self, connection: Connection, request: Received[None]) -> bytes:
        return bodies.encode(bodies.KeyValues(table=self.facts()))

    def facts(self) -> dict[str, str]:
        """What the broker says about itself."""
        store, usage = self._store, self._disk.usage(self._store.layout.root)
        table: dict[str, object] = {
            "brokerVersionDesc": VERSION_TEXT,
            "compiledCore": DESCRIPTION,
            "brokerActive": "true",
            "bootTimestamp": self._started_ms,
            "runtime": f"{(self._clock.now_ms() - self._started_ms) // 1000} seconds",
            "commitLogMinOffset": store.first_position,
            "commitLogMaxOffset": store.end_position,
            "commitLogDiskRatio": usage.used_percent / 100,
            "consumeQueueDiskRatio": usage.used_percent / 100,
            "commitLogDirCapacity": f"Total : {usage.total_bytes}, Free : {usage.free_bytes}.",
            "remainHowManyDataToFlush": store.end_position - store.flushed_position,
            "earliestMessageTimeStamp": self._earliest_ms(),
            "pageCacheLockTimeMills": self._pressure.stuck_ms(),
            "sendThreadPoolQueueSize": self._pressure.waiting_for_disk,
            "sendThreadPoolQueueCapacity": self._settings.unflushed_sends_max,
            "sendThreadPoolQueueHeadWaitTimeMills": self._disk_stage.oldest_wait_ms(),
            "pullThreadPoolQueueSize": len(self._waiters),
            "pullThreadPoolQueueCapacity": self._settings.held_pulls_max,
            "pullThreadPoolQueueHeadWaitTimeMills": 0,  # a pull is answered or held, it never queues
            "ackThreadPoolQueueSize": 0,
            "ackThreadPoolQueueHeadWaitTimeMills": 0,
            "dispatchBehindBytes": 0,  # queues are written in the same commit as the log
            "startAcceptSendRequestTimeStamp": self._settings.sends_from_ms,
        }
        table |= self._traffic() | self._delays.runtime() | self._stalls.report() | self._name_watch.report()
        table |= self.replication_facts() | self.scrub_facts()
        if not store.health.writable:
            table["storeTrouble"] = str(store.health.error())
        return {key: str(value) for key, value in table.items()}

    def _traffic(self) -> dict[str, object]:
        counters, rates = self._stats.counters, self._stats.rates_text
        put, got = self._stats.days("put_messages"), self._stats.days("pulled_messages")
        return {
            "putTps": rates("put_messages"),
            "getFoundTps": rates("pulls_found"),
            "getMissTps": rates("pulls_missed"),
            "getTotalTps": rates("pulls_found", "pulls_missed"),
            "getTransferredTps": rates("pulled_messages"),
            "putMessageTimesTotal": counters.put_messages,
            "putMessageSizeTotal": counters.put_bytes,
            "putMessageFailedTimes": counters.put_refused,
            "flowControlRejectRequest": counters.refused_at_door,
            "flowControlOverload": counters.refused_overload,
            "flowControlTimeoutCleanQueue": counters.refused_from_queue_late,
            "flowControlPcBusyCleanQueue": counters.refused_from_queue_stuck,
            "flowControlPcSynchronized": counters.refused_stuck,
            "quotaRefusedSends": counters.quota_sends,
            "quotaRefusedPulls": counters.quota_pulls,
            "quotaRefusedConnections": counters.quota_connections,
            "quotaRefusedCreations": counters.quota_creations,
            "unreadMessagesDeleted": counters.unread_deleted,
            "putMessageAverageSize": counters.put_bytes / max(1, counters.put_messages),
            "msgPutTotalYesterdayMorning": put.yesterday_morning,
            "msgPutTotalTodayMorning": put.this_morning,
            "msgPutTotalTodayNow": put.now,
            "msgGetTotalYesterdayMorning": got.yesterday_morning,
            "msgGetTotalTodayMorning": got.this_morning,
            "msgGetTotalTodayNow": got.now,
        }

    def _earliest_ms(self) -> int:
        store = self._store
        return store.records.stored_ms(store.first_position) if store.end_position > store.first_position else -1

    def all_offsets(self, connection: Connection, request: Received[None]) -> Steps:
        table = self._progress.everything()
        yield from elsewhere(sum(map(len, table.offset_table.values())) + len(table.pull_offset_table))
        return partial(bodies.encode, table)

    def replication(self, connection: Connection, request: Received[None]) -> bytes:
        return bodies.encode(self.replication_state())

    def _alone(self) -> bodies.ReplicationState:
        """A master without replicas."""
        return bodies.ReplicationState(master_commit_log_max_offset=self._store.end_position)

    def stats_data(self, connection: Connection, request: Received[ViewBrokerStatsHeader]) -> bytes:
        """What one topic or group did in the last minute, hour and day."""
        name, key = request.header.stats_name, request.header.stats_key
        found = self._stats.view(name, key, self._settings.cluster)
        if found is None:
            text = f"there are no statistics {name} for {key}: they are not kept, or nothing has happened yet"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
        return bodies.encode(found)
