"""Bulk indexing: brings the keys of committed messages into the key index, apart from the appends.

Two sources, both in log order. The *gap*, which recovery left, is read from the log again, some megabytes at a time;
what was appended since waits in memory, and must not become much.
"""

from __future__ import annotations

from typing import cast

from pyromq.store.derived.key_index import HashedKeys, KeyIndex, Unindexed
from pyromq.store.files.health import DiskHealth
from pyromq.store.log.commit_log import CommitLog
from pyromq.store.log.log_walk import LogWalk
from pyromq.wire.record import is_indexed

_AT_ONCE = 4_096
_RUN_MIN = 256  # messages with hashed keys are added to those of earlier commits until these are so many


class Indexer:
    """Owns what is not in the index yet. When the disk refuses, it goes on waiting and nothing is lost."""

    def __init__(self, index: KeyIndex, log: CommitLog, health: DiskHealth, gap_start: int, waiting_max: int) -> None:
        """Records from ``gap_start`` to the end of the log are not in the index."""
        self.index = index
        self._log = log
        self._health = health
        self._waiting_max = waiting_max
        self._gap_start = gap_start
        self._gap_end = log.end
        self._committed: list[Unindexed | HashedKeys] = []  # behind the gap
        self._waiting = 0  # messages in it
        self._hashed_waiting = 0  # of these, how many have their keys hashed
        self._hashed_staged = 0  # likewise, of what is staged
        self._staged_more = 0  # messages that are staged, beyond one for each element
        self._last_run: HashedKeys | None = None  # the last of those that wait, if more can be added to it
        self._run_keys: list[bytes] = []  # staged, of messages whose keys are hashed, with nothing else before them
        self._run_messages = 0  # how many these are
        self._run_position = 0  # of the first of them
        # of records that are not in the log yet; appended to directly, for speed
        self.staged: list[Unindexed | HashedKeys] = []

    @property
    def position(self) -> int:
        """Every record before this position is in the index."""
        if self._gap_start < self._gap_end:
            return self._gap_start
        if not self._committed:
            return self._log.end
        first = self._committed[0]
        return first.position if isinstance(first, HashedKeys) else first[2]

    @property
    def gap_bytes(self) -> int:
        """How much of the log has to be read again: a crash or a bad disk took its keys from the index."""
        return max(0, self._gap_end - max(self._gap_start, self._log.first))

    def commit(self) -> bool:
        """What is staged waits to be indexed. True when so much waits that some should be."""
        if self._run_messages:
            self._commit_run()
        if self.staged:
            self._committed += self.staged
            self._last_run = None
            self._waiting += len(self.staged) + self._staged_more
            self._hashed_waiting += self._hashed_staged
            self._staged_more = self._hashed_staged = 0
            self.staged.clear()
        return self._waiting >= self._waiting_max

    def stage_hashed(self, keys: bytes, messages: int, position: int) -> None:
        """So many messages were staged, from that position on, whose keys are hashed already."""
        if self.staged:
            self.staged.append(HashedKeys([keys], messages, position))
            self._staged_more += messages - 1
            self._hashed_staged += messages
            return
        if not self._run_messages:
            self._run_position = position
        self._run_keys.append(keys)
        self._run_messages += messages

    def _commit_run(self) -> None:
        run, messages = self._last_run, self._run_messages
        if run is None or run.messages >= _RUN_MIN:
            run = self._last_run = HashedKeys([], 0, self._run_position)
            self._committed.append(run)
        run.keys += self._run_keys
        run.messages += messages
        self._waiting += messages
        self._hashed_waiting += messages
        self._run_keys, self._run_messages = [], 0

    def drop_staged(self) -> None:
        self.staged.clear()
        self._run_keys.clear()
        self._staged_more = self._hashed_staged = self._run_messages = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be indexed."""
        return not self._committed and self._gap_start >= self._gap_end

    def index_some(self) -> bool:
        """Index a part of what waits; False when the disk refuses."""
        return self.is_idle or self._work(everything=False)

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
        if self._hashed_waiting:
            self._last_run = None
            left = _AT_ONCE
            while left > 0 and self._committed:
                left -= self._index_run(left)
            return True
        some = cast("list[Unindexed]", self._committed[:_AT_ONCE])
        self.index.add(some)
        del self._committed[: len(some)]
        self._waiting -= len(some)
        return True

    def _index_run(self, count_max: int) -> int:
        """Messages whose keys are hashed, or those before the next of that kind; says how many. Raises OSError."""
        hashed: list[HashedKeys] = []
        plain: list[Unindexed] = []
        count = 0
        for each in self._committed:
            if count >= count_max:
                break
            if isinstance(each, HashedKeys):
                if plain:
                    break
                hashed.append(each)
                count += each.messages
            else:
                if hashed:
                    break
                plain.append(each)
                count += 1
        if hashed:
            self.index.add_hashed(b"".join([keys for each in hashed for keys in each.keys]))
            self._hashed_waiting -= count
        else:
            self.index.add(plain)
        del self._committed[: len(hashed) or len(plain)]
        self._waiting -= count
        return count

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
