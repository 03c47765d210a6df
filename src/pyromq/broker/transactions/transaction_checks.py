"""Checks of prepared messages without a decision: their producers are asked, again and again, until they are put away.

    round, every 30 s: look at each prepared message that waits
        younger than 6 s (or than its own limit)     ─▶ later
        asked 15 times, or older than files are kept ─▶ TRANS_CHECK_MAX_TIME_TOPIC, where a person can look at it
        else                                         ─▶ CHECK_TRANSACTION_STATE to one producer of its group

A round in which no producer of the group could be asked does not count. Prepared messages stay where they are: the
number of questions is kept in memory, and a restart begins to count anew. Only when few that wait keep many that are
done from being forgotten are these few written again, at the end of the half topic.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.state.tables import Tables
from pyromq.broker.transactions.prepared_table import CHECKS_MAX
from pyromq.broker.transactions.transaction_log import Ending, TransactionLog
from pyromq.broker.transactions.transactions import prepared_draft
from pyromq.errors import LocalProtocolError, StoreError, TransportError
from pyromq.model.names import HALF_TOPIC
from pyromq.model.property_names import CHECK_TIMES, PREPARED_OFFSET
from pyromq.model.system_names import DISCARD_TOPIC
from pyromq.security.resources import Action
from pyromq.store.read_result import ReadStatus
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.callback import CheckTransactionHeader
from pyromq.wire.message_id import stored_id
from pyromq.wire.prepared import (
    ARRIVED,
    PreparedMessage,
    StoredPrepared,
    read_prepared,
    read_stored,
)
from pyromq.wire.property_text import value_of, with_values
from pyromq.wire.record import Draft, encode_record

logger = logging.getLogger(__name__)

SPAN_MAX: Final = 1 << 17  # prepared messages between the oldest that waits and the newest; one byte of memory each
_LOOKS_PER_TICK: Final = 100
_BYTES_PER_TICK: Final = 1 << 20
_PRODUCERS_ASKED_MAX: Final = 3
_MISSING: Final = frozenset((ReadStatus.MESSAGE_WAS_REMOVING, ReadStatus.OFFSET_TOO_SMALL))


class CheckVerdict(Enum):
    """What to do about a prepared message that waits."""

    LATER = "it is too young to ask"
    ASK = "its producer should say something"
    PUT_AWAY = "its producer will not decide"


def verdict(prepared: PreparedMessage, *, checks: int, now_ms: int, settings: BrokerSettings) -> CheckVerdict:
    """``checks`` are all that were made about it, here and elsewhere."""
    age_ms = now_ms - prepared.arrived_ms
    if checks >= min(settings.transaction_checks_max, CHECKS_MAX) or age_ms > settings.store.keep_ms:
        return CheckVerdict.PUT_AWAY
    limit_ms = settings.transaction_timeout_ms if prepared.immunity_ms is None else prepared.immunity_ms
    if 0 <= age_ms <= limit_ms:
        return CheckVerdict.LATER
    return CheckVerdict.ASK if prepared.group and prepared.topic else CheckVerdict.PUT_AWAY


class TransactionChecks:
    """Owns the rounds. ``tick`` looks at a few prepared messages at a time, so that nothing else has to wait."""

    def __init__(
        self,
        environment: Environment,
        tables: Tables,
        write_path: WritePath,
        log: TransactionLog,
        *,
        span_max: int = SPAN_MAX,
    ) -> None:
        self._store = write_path.store
        self._topics = tables.topics
        self._members = tables.members
        self._writes = write_path.internal_writes
        self._log = log
        self._settings = environment.settings
        self._clock = environment.clock
        self._access = environment.access
        self._span_max = span_max
        self._started_ms: int | None = None  # the first round, which finds out what waits, begins at once
        self._cursor: int | None = None  # the next offset of this round; None between rounds
        self._end = 0  # of this round
        self._move_before = 0  # prepared messages below are written again in this round
        self._asked = 0  # questions so far: producers of a group are asked in rotation

    # --- rounds ---

    @property
    def is_under_way(self) -> bool:
        """Whether a round of checks has begun and not ended."""
        return self._cursor is not None

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
        self._started_ms, self._cursor, self._end = now_ms, table.first, self._log.prepared_end
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

    # --- one prepared message ---

    def _look_at(self, offset: int) -> int:
        """How many bytes it has."""
        record = self._read(offset)
        if record is None:
            return 0
        text = record.text
        prepared = read_prepared(record, text)
        if prepared.is_copy:
            self._log.note_copy(prepared.unique_key, offset)
        checks = prepared.checks + self._log.table.checks(offset)
        decided = verdict(prepared, checks=checks, now_ms=self._clock.now_ms(), settings=self._settings)
        try:
            self._follow(decided, record, prepared, text, checks)
        except LocalProtocolError as error:  # its properties are too long to write it again, or it is odd otherwise
            logger.error(
                "transaction cannot be checked: offset=%d key=%s reason=%s", offset, prepared.unique_key, error
            )
        return len(record.body)

    def _follow(
        self, decided: CheckVerdict, record: StoredPrepared, prepared: PreparedMessage, text: str, checks: int
    ) -> None:
        if decided is CheckVerdict.PUT_AWAY:
            self._put_away(record, prepared, checks)
            return
        if decided is CheckVerdict.ASK and self._ask(record, prepared):
            self._log.table.count_check(prepared.offset)
            checks += 1
        if prepared.offset < self._move_before:
            self._move(record, prepared, text, checks)

    def _read(self, offset: int) -> StoredPrepared | None:
        found = self._store.reader.read(HALF_TOPIC, 0, offset, count_max=1)
        if found.status is ReadStatus.FOUND:
            return read_stored(memoryview(found.to_bytes()))
        if found.status in _MISSING:
            logger.error("prepared message lost, its file was deleted or is damaged: offset=%d", offset)
            self._log.table.remove(offset)
        return None

    def _ask(self, record: StoredPrepared, prepared: PreparedMessage) -> bool:
        producers = self._members.producers(prepared.group)
        if not producers:
            return False
        header, body = check_request(record, prepared, self._settings.name)
        for _ in range(min(_PRODUCERS_ASKED_MAX, len(producers))):
            self._asked += 1
            connection = producers[self._asked % len(producers)].connection
            if connection.is_congested or not self._access.may(connection, prepared.topic, Action.PUB):
                continue
            try:
                connection.request_oneway(RequestCode.CHECK_TRANSACTION_STATE, header, body)
            except (TransportError, LocalProtocolError) as error:
                logger.debug("producer not asked: group=%s reason=%s", prepared.group, error)
                continue
            return True
        return False

    def _put_away(self, record: StoredPrepared, prepared: PreparedMessage, checks: int) -> None:
        self._topics.create(DISCARD_TOPIC, queues=1)
        self._writes.put(prepared_draft(record, record.properties, DISCARD_TOPIC), lambda error: None)
        self._log.end(prepared.offset, Ending.MOVED)
        logger.warning(
            "transaction put away, its producer never decided: topic=%s key=%s group=%s checks=%d",
            *(prepared.topic, prepared.unique_key, prepared.group, checks),
        )

    def _move(self, record: StoredPrepared, prepared: PreparedMessage, text: str, checks: int) -> None:
        """Write it again at the end of the half topic."""
        origin = value_of(text, PREPARED_OFFSET) or str(prepared.offset)
        values = {PREPARED_OFFSET: origin, CHECK_TIMES: str(checks), ARRIVED: str(prepared.arrived_ms)}
        properties = with_values(text, values).encode(errors="surrogateescape")
        self._log.write_copy(prepared_draft(record, properties, HALF_TOPIC), prepared.unique_key)
        self._log.end(prepared.offset, Ending.MOVED)


def check_request(
    record: StoredPrepared, prepared: PreparedMessage, broker_name: str
) -> tuple[CheckTransactionHeader, bytes]:
    """The question, and the message it is about, as it will be when it is committed."""
    draft = Draft(
        topic=prepared.topic,
        queue_id=prepared.queue_id,
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
        msg_id=prepared.unique_key,
        transaction_id=prepared.unique_key,
        offset_msg_id=stored_id(record.store_host, record.position),
        broker_name=broker_name,
    )
    return header, body
