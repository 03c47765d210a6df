"""Half messages nobody has decided about: their producers are asked, again and again, until they are put away.

    round, every 30 s: look at each half message that waits
        younger than 6 s (or than its own patience)  ─▶ later
        asked 15 times, or older than files are kept ─▶ TRANS_CHECK_MAX_TIME_TOPIC, where a person can look at it
        else                                         ─▶ CHECK_TRANSACTION_STATE to one producer of its group

A round in which no producer of the group could be asked does not count. Half messages stay where they are: the number
of questions is kept in memory, and a restart begins to count anew. Only when few that wait keep many that are done from
being forgotten are these few written again, at the end of the half topic.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.commit.internal_writes import OwnWrites
from pyromq.broker.state.members import Members
from pyromq.broker.state.topics import DISCARD_TOPIC, Topics
from pyromq.broker.transactions.prepared_table import CHECKS_MAX
from pyromq.broker.transactions.transaction_log import Ending, TransactionLog
from pyromq.broker.transactions.transactions import half_draft
from pyromq.clock import Clock
from pyromq.errors import LocalProtocolError, MQError, StoreError, TransportError
from pyromq.model.names import HALF_TOPIC
from pyromq.net.connection import Connection
from pyromq.store.message_store import MessageStore
from pyromq.store.read_result import ReadStatus
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.callback import CheckTransactionHeader
from pyromq.wire.message_id import stored_id
from pyromq.wire.prepared import ARRIVED, CHECK_TIMES, ORIGIN, PreparedMessage, StoredHalf, read_half, read_prepared
from pyromq.wire.property_text import value_of, with_values
from pyromq.wire.record import Draft, encode_record

logger = logging.getLogger(__name__)

SPAN_MAX: Final = 1 << 17  # half messages between the oldest that waits and the newest; one byte of memory each
_LOOKS_PER_TICK: Final = 100
_BYTES_PER_TICK: Final = 1 << 20
_PRODUCERS_ASKED_MAX: Final = 3
_MISSING: Final = frozenset((ReadStatus.MESSAGE_WAS_REMOVING, ReadStatus.OFFSET_TOO_SMALL))


class Verdict(Enum):
    """What to do about a half message that waits."""

    LATER = "it is too young to ask"
    ASK = "its producer should say something"
    PUT_AWAY = "nobody will decide"


def verdict(half: PreparedMessage, *, checks: int, now_ms: int, settings: BrokerSettings) -> Verdict:
    """``checks`` are all that were made about it, here and elsewhere."""
    age_ms = now_ms - half.arrived_ms
    if checks >= min(settings.transaction_checks_max, CHECKS_MAX) or age_ms > settings.store.keep_ms:
        return Verdict.PUT_AWAY
    patience_ms = settings.transaction_timeout_ms if half.immunity_ms is None else half.immunity_ms
    if 0 <= age_ms <= patience_ms:
        return Verdict.LATER
    return Verdict.ASK if half.group and half.topic else Verdict.PUT_AWAY


class TransactionChecks:
    """Owns the rounds. ``tick`` looks at a few half messages at a time, so that nothing else has to wait."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        members: Members[Connection],
        writes: OwnWrites,
        log: TransactionLog,
        settings: BrokerSettings,
        clock: Clock,
        *,
        span_max: int = SPAN_MAX,
    ) -> None:
        self._store, self._topics, self._members, self._writes, self._log = store, topics, members, writes, log
        self._settings, self._clock, self._span_max = settings, clock, span_max
        self._started_ms: int | None = None  # the first round, which finds out who waits, begins at once
        self._cursor: int | None = None
        self._end = self._move_before = 0
        self._asked = 0

    # --- rounds ---

    def tick(self) -> None:
        if self._settings.broker_id:  # a replica leaves that to its leader
            return
        self._log.settle()
        now_ms = self._clock.monotonic_ms()
        if self._cursor is None:
            interval_ms = self._settings.transaction_check_interval_ms
            if self._started_ms is not None and now_ms - self._started_ms < interval_ms:
                return
            self._begin(now_ms)
        try:
            self._look_at_some()
        except StoreError as error:  # it is full, or not to be trusted
            logger.warning("checks of transactions wait for the next round: reason=%s", error)
            self._cursor = None

    def _begin(self, now_ms: int) -> None:
        table = self._log.table
        self._started_ms, self._cursor, self._end = now_ms, table.first, self._log.half_end
        table.grow(self._end)
        span = table.end - table.first
        is_crowded = span > self._span_max and table.waiting * 2 < span
        self._move_before = table.end - self._span_max // 2 if is_crowded else 0

    def _look_at_some(self) -> None:
        looked_bytes = 0
        for _ in range(_LOOKS_PER_TICK):
            assert self._cursor is not None
            offset = self._log.table.next_waiting(self._cursor, self._end)
            if offset is None:
                self._finish()
                return
            self._cursor = offset + 1
            if offset not in self._log.ending:
                looked_bytes += self._look_at(offset)
            if looked_bytes > _BYTES_PER_TICK:
                return

    def _finish(self) -> None:
        self._log.is_surveyed = True
        self._log.forget_ended_copies()
        self._cursor = None

    # --- one half message ---

    def _look_at(self, offset: int) -> int:
        """How many bytes it has."""
        record = self._read(offset)
        if record is None:
            return 0
        text = record.text
        half = read_prepared(record, text)
        if half.is_copy:
            self._log.note_copy(half.unique_key, offset)
        checks = half.checks + self._log.table.checks(offset)
        decided = verdict(half, checks=checks, now_ms=self._clock.now_ms(), settings=self._settings)
        try:
            self._follow(decided, record, half, text, checks)
        except LocalProtocolError as error:  # its properties are too long to write it again, or it is odd otherwise
            logger.error("transaction cannot be checked: offset=%d key=%s reason=%s", offset, half.unique_key, error)
        return len(record.body)

    def _follow(self, decided: Verdict, record: StoredHalf, half: PreparedMessage, text: str, checks: int) -> None:
        if decided is Verdict.PUT_AWAY:
            self._put_away(record, half, checks)
            return
        if decided is Verdict.ASK and self._ask(record, half):
            self._log.table.count_check(half.offset)
            checks += 1
        if half.offset < self._move_before:
            self._move(record, half, text, checks)

    def _read(self, offset: int) -> StoredHalf | None:
        found = self._store.reader.read(HALF_TOPIC, 0, offset, count_max=1)
        if found.status is ReadStatus.FOUND:
            return read_half(memoryview(found.to_bytes()))
        if found.status in _MISSING:
            logger.error("half message lost, its file was deleted or is damaged: offset=%d", offset)
            self._log.table.remove(offset)
        return None

    def _ask(self, record: StoredHalf, half: PreparedMessage) -> bool:
        producers = self._members.producers(half.group)
        if not producers:
            return False
        header, body = check_request(record, half, self._settings.name)
        for _ in range(min(_PRODUCERS_ASKED_MAX, len(producers))):
            self._asked += 1
            connection = producers[self._asked % len(producers)].connection
            if connection.is_congested:
                continue
            try:
                connection.request_oneway(RequestCode.CHECK_TRANSACTION_STATE, header, body)
            except (TransportError, LocalProtocolError) as error:
                logger.debug("producer not asked: group=%s reason=%s", half.group, error)
                continue
            return True
        return False

    def _put_away(self, record: StoredHalf, half: PreparedMessage, checks: int) -> None:
        self._topics.create(DISCARD_TOPIC, queues=1)
        self._writes.put(half_draft(record, record.properties, DISCARD_TOPIC), lambda error: None)
        self._log.end(half.offset, Ending.MOVED)
        logger.warning(
            "transaction put away, nobody decided: topic=%s key=%s group=%s checks=%d",
            *(half.topic, half.unique_key, half.group, checks),
        )

    def _move(self, record: StoredHalf, half: PreparedMessage, text: str, checks: int) -> None:
        """Write it again at the end of the half topic."""
        origin = value_of(text, ORIGIN) or str(half.offset)
        values = {ORIGIN: origin, CHECK_TIMES: str(checks), ARRIVED: str(half.arrived_ms)}
        properties = with_values(text, values).encode(errors="surrogateescape")
        log, key = self._log, half.unique_key

        def written(error: MQError | None) -> None:
            if error is not None:
                log.copies.pop(key, None)

        placed = self._writes.put(half_draft(record, properties, HALF_TOPIC), written)
        log.note_copy(key, placed.offset)
        log.end(half.offset, Ending.MOVED)


def check_request(record: StoredHalf, half: PreparedMessage, broker_name: str) -> tuple[CheckTransactionHeader, bytes]:
    """The question, and the message it is about, as it will be when it is committed."""
    draft = Draft(
        topic=half.topic,
        queue_id=half.queue_id,
        body=record.body,
        properties=record.properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_ms=record.born_ms,
        born_host=record.born_host,
        delivery_attempt=record.delivery_attempt,
    )
    body = encode_record(
        draft,
        offset=record.offset,
        position=record.position,
        stored_ms=record.stored_ms,
        store_host=record.store_host,
        checksum=False,
    )
    header = CheckTransactionHeader(
        topic=HALF_TOPIC,
        tran_state_table_offset=record.offset,
        commit_log_offset=record.position,
        msg_id=half.unique_key,
        transaction_id=half.unique_key,
        offset_msg_id=stored_id(record.store_host, record.position),
        broker_name=broker_name,
    )
    return header, body
