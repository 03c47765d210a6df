"""Bulk indexing: brings the keys of committed messages into the key index, apart from the appends.

Two sources, both in log order. The *gap*, which recovery left, is read from the log again, some megabytes at a time;
what was appended since waits in memory, and must not become much.
"""

from __future__ import annotations

from pyromq.store.derived.key_index import KeyIndex, Unindexed
from pyromq.store.files.health import Health
from pyromq.store.log.commit_log import CommitLog
from pyromq.store.log.log_walk import LogWalk
from pyromq.wire.record import is_indexed

_AT_ONCE = 4_096


class Indexer:
    """Owns what is not in the index yet. When the disk refuses, it goes on waiting and nothing is lost."""

    def __init__(self, index: KeyIndex, log: CommitLog, health: Health, gap_start: int, waiting_max: int) -> None:
        """Records from ``gap_start`` to the end of the log are not in the index."""
        self.index = index
        self._log = log
        self._health = health
        self._waiting_max = waiting_max
        self._gap_start = gap_start
        self._gap_end = log.end
        self._committed: list[Unindexed] = []  # behind the gap
        self.staged: list[Unindexed] = []  # of records that are not in the log yet; appended to directly, for speed

    @property
    def position(self) -> int:
        """Every record before this position is in the index."""
        if self._gap_start < self._gap_end:
            return self._gap_start
        return self._committed[0][2] if self._committed else self._log.end

    @property
    def gap_bytes(self) -> int:
        """How much of the log has to be read again: a crash or a bad disk took its keys from the index."""
        return max(0, self._gap_end - max(self._gap_start, self._log.first))

    def commit(self) -> bool:
        """What is staged waits to be indexed. True when so much waits that some should be."""
        self._committed += self.staged
        self.staged.clear()
        return len(self._committed) >= self._waiting_max

    def drop_staged(self) -> None:
        self.staged.clear()

    def index_some(self) -> bool:
        """Index a part of what waits; False when the disk refuses."""
        return self._work(everything=False)

    def index_all(self) -> bool:
        """Index everything that waits; False when the disk refuses."""
        return self._work(everything=True)

    def _work(self, *, everything: bool) -> bool:
        try:
            while self._index_part() and everything:
                pass
        except OSError as error:
            self._health.failed_write("the key index", error)
            return False
        return True

    def _index_part(self) -> bool:
        """False when nothing was left. Raises OSError."""
        if self._gap_start < self._gap_end:
            self._index_gap()
            return True
        if not self._committed:
            return False
        some = self._committed[:_AT_ONCE]
        self.index.add(some)
        del self._committed[: len(some)]
        return True

    def _index_gap(self) -> None:
        walk = LogWalk(self._log.segments, max(self._gap_start, self._log.first), self._gap_end)
        records = next(iter(walk), [])
        self.index.add(
            [
                (record.topic + b"#", record.properties, position, record.stored_ms)
                for position, record in records
                if is_indexed(record.sys_flag)
            ]
        )
        self._gap_start = walk.position if records else self._gap_end
