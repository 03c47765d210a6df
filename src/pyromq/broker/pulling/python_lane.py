"""What the compiled core's pull lane does, in Python: plain pulls of known kinds, in one function.

A pull the ordinary way passes a dozen functions, which ask again what they asked at the pull before: may this group
read, what does it subscribe to, how long may the response be. Of a known kind all that is known, and what is left is to
read entries and to answer. It knows no signatures: where users are asked for there is no lane without the core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from pyromq.compiled_core import Buffer, TakenPull, TakenPulls
from pyromq.errors import StoreError
from pyromq.net.connection import UNJOINED_BYTES
from pyromq.net.turns import TURN_S
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.queue_reader import QueueReader
from pyromq.store.queue_scan import TagFilter
from pyromq.wire.fast.pull_request import read_pull
from pyromq.wire.fast.responses import found_messages_head
from pyromq.wire.flags import PullFlag

_COMMIT: Final = int(PullFlag.COMMIT_OFFSET)
_NOT_COMMIT: Final = ~_COMMIT
_PULLS_MAX: Final = 256  # of one call; other connections wait meanwhile
_BYTES_MAX: Final = 8 << 20  # likewise, and far from the limit of a frame


class _Known(NamedTuple):
    """A kind of pulls that ``PullHandler`` has answered."""

    queue: ConsumeQueue
    key: tuple[str, str, int]  # topic, group and queue id
    pair: tuple[str, str]  # topic and group
    accept_tag: TagFilter | None


class PythonLane:
    """Knows kinds of pulls and changes nothing, as the core's lane."""

    def __init__(self, reader: QueueReader, now_s: Callable[[], float]) -> None:
        self._reader = reader
        self._now_s = now_s
        self._known: dict[object, _Known] = {}

    def learn(
        self,
        key: tuple[str, str, int],
        sys_flag: int,
        subscription: tuple[str | None, int, str | None],
        queue: Any,
        tags: Sequence[int],
        signer: tuple[str, bytes, str] | None,
    ) -> None:
        assert signer is None, "signatures are verified by the core, or the ordinary way"
        accept_tag = frozenset(tags).__contains__ if tags else None
        self._known[*key, sys_flag & _NOT_COMMIT, *subscription] = _Known(queue, key, key[:2], accept_tag)

    def forget(self) -> None:
        self._known.clear()

    def __len__(self) -> int:
        return len(self._known)

    def take(self, data: Buffer, log: tuple[int, int, int, int, int], ip: str | None) -> TakenPulls | None:
        """The first pull that is not known, or finds nothing that is plain, ends it."""
        _, verified_from, _, visible_end, log_end = log
        within = (verified_from, log_end)
        pulls: list[TakenPull] = []
        reader, scan, at, total_bytes, until_s = self._reader, self._reader.scan, 0, 0, 0.0
        while True:
            found = read_pull(data, at)
            if found is None:
                break
            request, frame_end = found
            header = request.header
            flags, offset, bytes_max = header.sys_flag, header.queue_offset, header.max_msg_bytes
            kind = (header.topic, header.consumer_group, header.queue_id, flags & _NOT_COMMIT)
            known = self._known.get((*kind, header.subscription, header.sub_version, header.expression_type))
            if known is None or (bytes_max is not None and bytes_max <= 0):
                break
            queue, key, pair, accept_tag = known
            limits = scan.limits_in_memory(header.max_msg_nums, bytes_max)
            try:
                end = reader.end_of(queue) if queue.owed_bytes or visible_end < log_end else queue.end
                first = queue.first
                if not first <= offset < end:
                    break
                records = scan.plain_records(queue, offset, end, limits, accept_tag, within)
            except (OSError, StoreError):
                break  # the ordinary way meets the same failure, and explains it
            if records is None or not 0 < records.size_bytes < _BYTES_MAX:
                break
            size_bytes, count, pieces = records.size_bytes, len(records.positions), records.pieces()
            next_offset = records.next_offset
            head = found_messages_head(request.correlation_id, next_offset, first, end, size_bytes)
            parts = pieces if size_bytes >= UNJOINED_BYTES * len(pieces) else None
            response = b"".join((head, *pieces)) if parts is None else head
            commits = header.commit_offset if flags & _COMMIT and header.commit_offset <= end else None
            pulls.append((key, pair, next_offset, commits, count, size_bytes, response, parts))
            at, total_bytes = frame_end, total_bytes + size_bytes
            if at == len(data) or len(pulls) == _PULLS_MAX or total_bytes >= _BYTES_MAX:
                break
            now_s = self._now_s()
            until_s = until_s or now_s + TURN_S
            if now_s >= until_s:  # records that are not in memory take long
                break
        return (at, pulls) if at else None
