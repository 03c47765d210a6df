"""Queues and key index together under a check: takes every whole record of the log, once, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyromq.errors import InvalidNameError
from pyromq.model.names import SCHEDULE_TOPIC, validate_topic
from pyromq.model.property_names import TAGS
from pyromq.store.check.files import FileRun
from pyromq.store.check.index import IndexComparison
from pyromq.store.check.queues import LogView, QueueComparison, Trust
from pyromq.store.check.report import Findings, IndexCheck, LogCheck, QueuesCheck, StoreSeverity, count_of
from pyromq.store.derived.entry_tag import entry_tag
from pyromq.store.settings import StoreSettings
from pyromq.wire.properties import find_property, message_keys
from pyromq.wire.record import RecordFound, is_indexed, is_visible

QueueKey = tuple[str, int]

_LMQ_PREFIX = "%LMQ%"  # queues of records that lie in other topics
_NO_TRUST = Trust(0, 0, intact=True)


@dataclass(frozen=True, slots=True)
class QueueWorld:
    """What is known of the queues before the log is read."""

    runs: Mapping[QueueKey, FileRun]
    trusts: Mapping[QueueKey, Trust]
    empty_run: Callable[[QueueKey], FileRun]
    sealed: bool
    promised: frozenset[QueueKey]  # by the seal
    has_extensions: bool  # third fields may be addresses in consumequeue_ext
    batch_topics: frozenset[str]  # have queues of another format
    topics: Mapping[Any, Any] | None  # of config/topics.json, when it could be read


class DerivedCheck:
    """Compares queues and index with the log while it is read."""

    def __init__(self, world: QueueWorld, log: LogView, index: IndexComparison, findings: Findings) -> None:
        self._world = world
        self._log = log
        self._index = index
        self._findings = findings
        self._ladder_ms = StoreSettings().delay_ladder_ms
        self._queues: dict[tuple[bytes, int], QueueComparison] = {}  # by topic and queue id, as records have them
        self._topics: dict[bytes, str] = {}  # decoded; "" for an impossible name
        self._nameless = 0  # records with an impossible topic name
        self._in_batches = 0  # records of queues in RocketMQ's batch format

    def add(self, position: int, record: RecordFound) -> None:
        if is_visible(record.sys_flag):
            self._add_entry(position, record)
        if is_indexed(record.sys_flag):
            keys, tag = message_keys(record.properties), find_property(record.properties, TAGS.encode())
            self._index.add(position, record.topic, keys, tag)

    def _add_entry(self, position: int, record: RecordFound) -> None:
        topic = self._topics.get(record.topic)
        if topic is None:
            topic = self._topics[record.topic] = self._valid_topic(record.topic)
        if not topic:
            self._nameless += 1
        elif topic in self._world.batch_topics:
            self._in_batches += 1
        else:
            queue = self._queues.get((record.topic, record.queue_id))
            if queue is None:
                queue = self._queues[record.topic, record.queue_id] = self._comparison((topic, record.queue_id))
            tag = entry_tag(topic, record.properties, record.stored_ms, self._ladder_ms)
            queue.add(position, record.size, record.offset, tag)

    def _valid_topic(self, raw: bytes) -> str:
        try:
            return validate_topic(raw.decode("utf-8", "replace"))
        except InvalidNameError:
            return ""

    def _comparison(self, key: QueueKey) -> QueueComparison:
        run = self._world.runs.get(key) or self._world.empty_run(key)
        compare_tags = key[0] != SCHEDULE_TOPIC and not self._world.has_extensions
        name = f"{key[0]}/{key[1]}"
        return QueueComparison(name, run, self._world.trusts.get(key, _NO_TRUST), self._log, compare_tags=compare_tags)

    def finish(self, log: LogCheck) -> tuple[QueuesCheck, IndexCheck]:
        for topic, queue_id in self._world.runs:
            raw = topic.encode()
            if (raw, queue_id) not in self._queues and not topic.startswith(_LMQ_PREFIX):
                self._queues[raw, queue_id] = self._comparison((topic, queue_id))
        wrong = 0
        for (raw, queue_id), queue in self._queues.items():
            queue.finish(log.end)
            topic = raw.decode()
            deleted = self._was_deleted((topic, queue_id))
            report_queue(queue, self._findings, sealed=self._world.sealed, deleted=deleted)
            wrong += queue.wrong if deleted is False else 0
        self._report_passed_over()
        every = self._queues.values()
        return (
            QueuesCheck(
                queues=len(self._queues),
                entries=sum(queue.entries for queue in every),
                fillers=sum(queue.fillers for queue in every),
                rebuilt=sum(queue.rebuilt for queue in every),
                to_add=sum(queue.to_add for queue in every),
                to_drop=sum(queue.to_drop for queue in every),
                wrong=wrong,
                lost_messages=sum(queue.lost for queue in every),
            ),
            self._index.finish(),
        )

    def _was_deleted(self, key: QueueKey) -> bool | None:
        """Whether a queue without files is one whose topic was deleted; None when nothing says."""
        run = self._world.runs.get(key)
        if run is not None and run.files:
            return False
        if self._world.sealed:
            return key not in self._world.promised
        if any(topic == key[0] and other.files for (topic, _), other in self._world.runs.items()):
            return False
        return key[0] not in self._world.topics if self._world.topics is not None else None

    def _report_passed_over(self) -> None:
        if self._nameless:
            text = f"{self._nameless} records have an impossible topic name and are in no queue"
            self._findings.add(StoreSeverity.WARNING, "topic-name", "commitlog", text)
        if self._in_batches:
            text = f"{self._in_batches} records belong to queues of RocketMQ's batch format, which are not checked"
            self._findings.add(StoreSeverity.NOTE, "batch-queues", "batchconsumequeue", text)


def report_queue(queue: QueueComparison, findings: Findings, *, sealed: bool, deleted: bool | None) -> None:
    """Put what was counted into words. ``deleted``: the topic was (True) or may have been (None) removed on purpose."""
    where = f"consumequeue/{queue.name}"
    if queue.gaps:
        text = f"{count_of(queue.gaps, 'offset')} missing in the log, first {queue.first_wrong}; no damage explains it"
        findings.add(StoreSeverity.ERROR, "offset-gap", where, text)
    if queue.repeats:
        text = f"{count_of(queue.repeats, 'record')} with the offset of an earlier one, first {queue.first_wrong}"
        findings.add(StoreSeverity.ERROR, "offset-repeat", where, text)
    if queue.wrong and deleted is not False:
        severity = StoreSeverity.NOTE if deleted else StoreSeverity.WARNING
        text = f"{count_of(queue.wrong, 'record')} of the log without queue: the topic was deleted"
        findings.add(severity, "topic-deleted", where, text if deleted else text + ", or its folder is lost")
    elif queue.wrong:
        _report_wrong(queue, findings, where, sealed=sealed)
    if queue.other_tags:
        entries = count_of(queue.other_tags, "entry", "entries")
        text = f"{entries} with another third field: other delay levels, or extended queue entries"
        findings.add(StoreSeverity.NOTE, "queue-tags", where, text)
    if queue.older_life:
        text = f"{count_of(queue.older_life, 'record')} from before the topic was deleted and made again"
        findings.add(StoreSeverity.NOTE, "topic-deleted", where, text)


def _report_wrong(queue: QueueComparison, findings: Findings, where: str, *, sealed: bool) -> None:
    counts = {
        "missing": queue.missing,
        "different from the log": queue.different,
        "without a record": queue.dangling,
        "good ones that opening would drop": queue.dropped,
    }
    parts = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    if sealed:
        advice = "opening the store does not repair this unless the folder is removed first"
    else:
        advice = "to repair this, open and close the store once, remove the folder and open it again"
    text = f"entries wrong from offset {queue.first_wrong} on: {parts}; {advice}"
    findings.add(StoreSeverity.ERROR, "queue-wrong", where, text)
