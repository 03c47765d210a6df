"""Queue rebuild: enters the records that recovery finds in the log into the queues that do not have them.

Offsets are kept: a record gets the entry of its own offset. Where records are missing before it, *filler entries* stand
for them, so that no later message gets an offset that was given before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pyromq.errors import InvalidNameError
from pyromq.model.names import validate_topic
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.entry_tag import entry_tag
from pyromq.store.derived.queue_entry import ENTRY_BYTES
from pyromq.store.log.log_walk import DamagedRange
from pyromq.store.recovery_report import RecoveryReport
from pyromq.store.sealing.seal import Seal
from pyromq.wire.record import RecordFound, has_checksum, is_visible
from pyromq.wire.record_layout import RECORD_OVERHEAD_BYTES

logger = logging.getLogger(__name__)

Queues = dict[tuple[str, int], ConsumeQueue]
_UNCHECKED_GAP_MAX = 4_096
_NOWHERE = 1 << 63  # as if a queue had everything: records with an impossible topic have none


@dataclass(frozen=True, slots=True)
class _Target:
    """Where records of one queue go; those before ``covered`` are there already."""

    topic: str
    queue: ConsumeQueue
    covered: int


class QueueRebuild:
    """Belongs to one recovery; adds queues that only the log knows."""

    def __init__(
        self,
        queues: Queues,
        seal: Seal | None,
        new_queue: Callable[[str, int], ConsumeQueue],
        ladder_ms: tuple[int, ...],
        report: RecoveryReport,
    ) -> None:
        self._queues = queues
        self._seal = seal
        self._new_queue = new_queue
        self._ladder_ms = ladder_ms
        self._report = report
        self._targets: dict[tuple[bytes, int], _Target] = {}  # by topic and queue id, as records have them

    def enter(self, records: list[tuple[int, RecordFound]]) -> None:
        """Enter records, in log order, with their positions. Raises OSError."""
        self._report.records += len(records)
        self._report.last_stored_ms = records[-1][1].stored_ms
        ladder_ms, targets = self._ladder_ms, self._targets
        for position, record in records:
            target = targets.get((record.topic, record.queue_id)) or self._target(position, record)
            if position >= target.covered and (not record.sys_flag or is_visible(record.sys_flag)):
                queue = target.queue
                if record.offset != queue.next_offset and not self._bridge_gap(queue, position, record):
                    continue
                tag = entry_tag(target.topic, record.properties, record.stored_ms, ladder_ms)
                queue.stage(position, record.size, tag)
        for target in targets.values():
            target.queue.write_staged()

    def _bridge_gap(self, queue: ConsumeQueue, position: int, record: RecordFound) -> bool:
        """Make the record's offset the next one of a queue; False when that offset cannot be right.

        What lies between was lost, or belongs to an earlier life of the topic. A record without checksum may have a
        wrong offset, so not everything is believed of it.
        """
        queue.write_staged()
        offset, checked = record.offset, has_checksum(record.properties)
        gap = offset - queue.next_offset
        gap_max = position // RECORD_OVERHEAD_BYTES if checked else _UNCHECKED_GAP_MAX
        goes_back = gap < 0 and not (checked or offset == 0)
        if offset < 0 or goes_back or (gap > gap_max and queue.next_offset):
            reason = f"it claims offset {offset} of {queue.topic}/{queue.queue_id}"
            self._report.damaged.append(DamagedRange(position, position + record.size, reason))
            return False
        if gap < 0 or queue.next_offset == 0:
            queue.restart_at(offset)  # the topic was deleted and made again, or its older files are gone
        else:
            queue.fill_up_to(offset, position)
        return True

    def _target(self, position: int, record: RecordFound) -> _Target:
        topic = record.topic.decode("utf-8", "replace")
        queue = self._queues.get((topic, record.queue_id))
        seal = self._seal
        unsealed = seal is not None and f"{topic}/{record.queue_id}" not in seal.queues
        if seal is not None and (position < seal.deleted.get(topic, 0) or (unsealed and position < seal.position)):
            # The topic was deleted; behind that, or behind the seal, it may have been made again.
            return _Target(topic, self._new_queue(topic, record.queue_id), _NOWHERE)
        if queue is None:
            queue = self._new_queue(topic, record.queue_id)
            try:
                self._queues[validate_topic(topic), record.queue_id] = queue
            except InvalidNameError as error:
                logger.error("record belongs to no queue: topic=%r reason=%s", topic, error)
                target = self._targets[record.topic, record.queue_id] = _Target(topic, queue, _NOWHERE)
                return target
        target = _Target(topic, queue, queue.find_covered_end())
        self._targets[record.topic, record.queue_id] = target
        return target

    def keep_offsets(self, queue: ConsumeQueue, log_end: int) -> None:
        """Offsets that a queue once gave are never given again, even if nothing is left of their messages."""
        seals = self._seal.queues.get(f"{queue.topic}/{queue.queue_id}") if self._seal else None
        once = max(((seal.base + seal.used_bytes) // ENTRY_BYTES for seal in seals or ()), default=0)
        once = max(once, queue.claimed_end)
        if queue.next_offset >= once:
            return
        if queue.end > queue.first:
            queue.fill_up_to(once, log_end)
        else:
            queue.restart_at(once)
