"""Messages by key: what the key index suggests, compared with the records themselves.

Java's hashes are small, and anybody can make thousands of keys with one hash. So a search is done in steps, what it may
look at is bounded, and its result says whether it looked at everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from pyromq.errors import CorruptRecordError, PositionOutOfRangeError
from pyromq.store.derived.indexer import Indexer
from pyromq.store.log.commit_log import CommitLog
from pyromq.store.log.log_reader import LogReader
from pyromq.store.tables.steps import InSteps
from pyromq.wire.properties import message_keys

WORK_MAX: Final = 16_384  # small messages that a search in steps compares: about 0.1 s
WORK_NOW_MAX: Final = 1_024  # in one go, while everybody waits: some milliseconds
WORK_AT_ONCE: Final = 128  # of these in one step: about a millisecond
WORK_OF_LINKS: Final = 32  # ``LINKS_AT_ONCE`` links of a chain take as long as comparing so many messages
_WORK_BYTES: Final = 8_192  # likewise the checksum of so many bytes, and one message


class FoundKeys(NamedTuple):
    """Positions of messages with a key, newest first; ``is_all``: those that were compared are all that may have it."""

    positions: list[int]
    is_all: bool
    damaged: int = 0  # messages that may have it, too, and cannot be read


class KeySearch:
    """Looks for keys of messages that end before ``visible_end``; anything indexed later is seen, too."""

    def __init__(self, indexer: Indexer, log: CommitLog, records: LogReader, visible_end: Callable[[], int]) -> None:
        self._indexer = indexer
        self._log = log
        self._records = records
        self._visible_end = visible_end

    def find(
        self, topic: str, key: str, *, count_max: int, begin_ms: int, end_ms: int, work_max: int = WORK_MAX
    ) -> InSteps[FoundKeys]:
        """Look for messages with a key (or unique key) stored in [begin_ms, end_ms], in steps, the latest included."""
        yield from self._index_all()
        wanted_topic, wanted_key, visible = topic.encode(), key.encode(), self._visible_end()
        found: list[int] = []
        work, rest_at, damaged = 0, WORK_AT_ONCE, 0
        for position in self._indexer.index.candidates(topic, key, begin_ms, end_ms):
            if len(found) == count_max or (position is not None and position < self._log.first):
                break
            if work >= work_max:
                return FoundKeys(found, is_all=False, damaged=damaged)
            if work >= rest_at:
                rest_at = work + WORK_AT_ONCE
                yield None
            if position is None:
                work += WORK_OF_LINKS
                continue
            if position >= visible or (found and position == found[-1]):
                continue
            work += 1
            try:
                record = self._records.verify(position)
            except PositionOutOfRangeError:
                continue
            except CorruptRecordError:
                damaged += 1
                continue
            work += record.size // _WORK_BYTES
            in_time = begin_ms <= record.stored_ms <= end_ms
            if in_time and record.topic == wanted_topic and wanted_key in message_keys(record.properties):
                found.append(position)
        return FoundKeys(found, is_all=True, damaged=damaged)

    def _index_all(self) -> InSteps[None]:
        """Bring everything stored up to now into the index, as far as the disk lets it."""
        end = self._log.end
        while self._indexer.position < end and self._indexer.index_some():
            yield None
