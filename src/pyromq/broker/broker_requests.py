"""Questions about the broker as a whole: its configuration, what it is doing, its offsets."""

from __future__ import annotations

from pyromq.broker.progress import Progress
from pyromq.broker.pull_waiters import PullWaiters
from pyromq.broker.settings import BrokerSettings
from pyromq.broker.stats import Stats
from pyromq.broker.turn import Turns
from pyromq.clock import Clock
from pyromq.net.connection import Connection
from pyromq.store.disk import Disk
from pyromq.store.message_store import MessageStore
from pyromq.wire import bodies
from pyromq.wire.headers.admin import GetBrokerConfigResponseHeader
from pyromq.wire.received import Received

VERSION_TEXT = "V5_3_3"  # what our protocol version stands for; tools print it


class BrokerHandler:
    """Requests 26, 28 and 43."""

    def __init__(
        self,
        store: MessageStore,
        progress: Progress,
        turns: Turns,
        waiters: PullWaiters,
        stats: Stats,
        settings: BrokerSettings,
        clock: Clock,
        disk: Disk,
    ) -> None:
        self._store, self._progress, self._settings, self._clock, self._disk = store, progress, settings, clock, disk
        self._turns, self._waiters, self._stats = turns, waiters, stats
        self._started_ms = clock.now_ms()

    def config(self, connection: Connection, request: Received[None]) -> tuple[GetBrokerConfigResponseHeader, bytes]:
        """Settings in RocketMQ's words."""
        settings, store = self._settings, self._settings.store
        values = {
            "brokerClusterName": settings.cluster,
            "brokerName": settings.name,
            "brokerId": settings.broker_id,
            "listenPort": settings.port,
            "namesrvAddr": ";".join(settings.nameservers),
            "brokerPermission": settings.permission,
            "autoCreateTopicEnable": str(settings.auto_create_topics).lower(),
            "autoCreateSubscriptionGroup": str(settings.auto_create_groups).lower(),
            "defaultTopicQueueNums": settings.default_topic_queues,
            "flushDiskType": f"{store.flush.name}_FLUSH",
            "mappedFileSizeCommitLog": store.segment_bytes,
            "maxMessageSize": store.body_bytes_max,
            "fileReservedTime": store.keep_ms // 3_600_000,
            "deleteWhen": ";".join(f"{hour:02d}" for hour in store.delete_hours),
            "longPollingEnable": str(settings.long_polling).lower(),
            "regionId": settings.region,
        }
        text = "".join(f"{key}={value}\n" for key, value in values.items())
        return GetBrokerConfigResponseHeader(version='{"counter":0,"stateVersion":0,"timestamp":0}'), text.encode()

    def runtime_info(self, connection: Connection, request: Received[None]) -> bytes:
        store, usage = self._store, self._disk.usage(self._store.layout.root)
        table: dict[str, object] = {
            "brokerVersionDesc": VERSION_TEXT,
            "brokerActive": "true",
            "bootTimestamp": self._started_ms,
            "runtime": f"{(self._clock.now_ms() - self._started_ms) // 1000} seconds",
            "commitLogMinOffset": store.log.first,
            "commitLogMaxOffset": store.log.end,
            "commitLogDiskRatio": usage.used_percent / 100,
            "consumeQueueDiskRatio": usage.used_percent / 100,
            "commitLogDirCapacity": f"Total : {usage.total_bytes}, Free : {usage.free_bytes}.",
            "remainHowManyDataToFlush": store.log.unflushed_bytes,
            "earliestMessageTimeStamp": self._earliest_ms(),
            "pageCacheLockTimeMills": self._turns.stuck_ms(),
            "sendThreadPoolQueueSize": self._turns.waiting,
            "sendThreadPoolQueueCapacity": self._settings.unflushed_sends_max,
            "sendThreadPoolQueueHeadWaitTimeMills": self._turns.oldest_wait_ms(),
            "pullThreadPoolQueueSize": len(self._waiters),
            "pullThreadPoolQueueCapacity": self._settings.held_pulls_max,
            "pullThreadPoolQueueHeadWaitTimeMills": 0,  # a pull is answered or held, it never queues
            "ackThreadPoolQueueSize": 0,
            "ackThreadPoolQueueHeadWaitTimeMills": 0,
            "dispatchBehindBytes": 0,  # queues are written in the same turn as the log
            "startAcceptSendRequestTimeStamp": 0,
        }
        table |= self._traffic()
        return bodies.encode(bodies.KeyValues(table={key: str(value) for key, value in table.items()}))

    def _traffic(self) -> dict[str, object]:
        counters, rates = self._stats.counters, self._stats.rates_text
        return {
            "putTps": rates("put_messages"),
            "getFoundTps": rates("pulls_found"),
            "getMissTps": rates("pulls_missed"),
            "getTotalTps": rates("pulls_found", "pulls_missed"),
            "getTransferredTps": rates("pulled_messages"),
            "putMessageTimesTotal": counters.put_messages,
            "putMessageSizeTotal": counters.put_bytes,
            "putMessageFailedTimes": counters.put_refused,
            "putMessageAverageSize": counters.put_bytes / max(1, counters.put_messages),
            "msgPutTotalTodayNow": counters.put_messages,
            "msgGetTotalTodayNow": counters.pulled_messages,
        }

    def _earliest_ms(self) -> int:
        return self._store.log.stored_ms(self._store.log.first) if self._store.log.end > self._store.log.first else -1

    def all_offsets(self, connection: Connection, request: Received[None]) -> bytes:
        return self._progress.table.text()
