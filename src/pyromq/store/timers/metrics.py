"""config/timermetrics: how many messages of each topic wait for their time.

    {"dataVersion":…,"timingCount":{"orders":{"count":3,"timeStamp":1700000000000}}}

Saved now and then, so after a crash the numbers are roughly right; nothing depends on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import ItemsView

import msgspec

from pyromq.model.topic import DataVersion
from pyromq.store.files.whole_file import WholeFile
from pyromq.store.tables.config_table import ConfigTable
from pyromq.wire.json.java_json import Long


class WaitingCount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    count: Long = 0
    time_stamp: Long = 0


class _StoredMetrics(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    data_version: DataVersion = DataVersion()
    timing_count: dict[str, WaitingCount] = {}


class TimerMetrics(ConfigTable):
    """Messages that wait, by the topic they belong to."""

    file_name = "timermetrics"

    def __init__(self, file: WholeFile) -> None:
        super().__init__(file)
        self._counts: dict[str, WaitingCount] = {}
        self.changed = False
        self.taken: defaultdict[str, int] = defaultdict(int)  # since the start: these began to wait
        self.released: defaultdict[str, int] = defaultdict(int)  # and these wait no more

    def items(self) -> ItemsView[str, WaitingCount]:
        return self._counts.items()

    def add(self, topic: str, change: int, now_ms: int) -> None:
        """One more, or one less; a topic for which nothing waits is not listed."""
        if change > 0:
            self.taken[topic] += change
        else:
            self.released[topic] -= change
        known = self._counts.get(topic)
        count = (known.count if known else 0) + change
        if count > 0:
            self._counts[topic] = WaitingCount(count=count, time_stamp=now_ms)
        else:
            self._counts.pop(topic, None)
        self.changed = True

    def snapshot(self) -> TimerMetrics:
        """A copy that another thread may save."""
        copy = TimerMetrics(self._file)
        copy.version, copy._counts = self.version, dict(self._counts)
        return copy

    def _read(self) -> None:
        stored = self._parsed(_StoredMetrics)
        self.version, self._counts = stored.data_version, dict(stored.timing_count)

    def _stored(self) -> _StoredMetrics:
        return _StoredMetrics(data_version=self.version, timing_count=self._counts)
