"""How far delayed messages have come, as replicas and tools ask for it."""

from __future__ import annotations

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.stats import Stats
from pyromq.broker.delays.delay_runner import DelayRunner
from pyromq.net.connection import Connection
from pyromq.replication.settings import Role
from pyromq.store.message_store import MessageStore
from pyromq.store.tables.offsets import DelayOffsets
from pyromq.wire.received import Received


class DelayHandler:
    """Requests 45, 60 and 61, and a part of the run-time information."""

    def __init__(self, environment: Environment, store: MessageStore, delay_runner: DelayRunner, stats: Stats) -> None:
        self._store = store
        self._delay_runner = delay_runner
        self._stats = stats
        self._disk = environment.disk
        self._started_ms = environment.clock.now_ms()
        self._is_replica = environment.settings.replication.role is Role.REPLICA
        self._offsets: DelayOffsets | None = None  # of a master, which alone moves them

    def offsets(self, connection: Connection, request: Received[None]) -> bytes:
        """The offsets of levels as they are now, in the form of their file; replicas ask every few seconds."""
        table = self._offsets
        if table is None:
            table = DelayOffsets.load(self._disk, self._store.layout.root, self._started_ms)
            self._offsets = None if self._is_replica else table
        self._delay_runner.schedule.note(table)
        return table.text()

    def timer_check(self, connection: Connection, request: Received[None]) -> bytes:
        """The last note of timers, as a replica takes it over."""
        return self._delay_runner.files.noted.pack()

    def timer_metrics(self, connection: Connection, request: Received[None]) -> bytes:
        """How many messages of each topic wait for their time."""
        return self._delay_runner.timers.metrics.text()

    def runtime(self) -> dict[str, object]:
        """What RocketMQ's tools read, then what only PyroMQ says."""
        schedule, timers, counters = self._delay_runner.schedule, self._delay_runner.timers, self._stats.counters
        progress = schedule.progress()
        levels = {f"scheduleMessageOffset_{level}": f"{cursor},{end}" for level, (cursor, end) in progress.items()}
        return {
            **levels,
            "timerReadBehind": timers.behind_ms // 1_000,
            "timerOffsetBehind": timers.behind_offsets,
            "timerCongestNum": timers.pending,
            "timerEnqueueTps": f"{self._stats.rates('timers_taken')[0]:.2f}",
            "timerDequeueTps": f"{self._stats.rates('timers_delivered')[0]:.2f}",
            "delayLevelsPending": schedule.pending,
            "delayLevelsDelivered": counters.levels_delivered,
            "timersPending": timers.pending,
            "timersDelivered": counters.timers_delivered,
            "timersCancelled": counters.timers_cancelled,
            "delayLateMillisMax": counters.delay_late_ms,
        }
