"""Transactions: a prepared message (RocketMQ: half message) waits, out of sight, until its producer ends it.

    send with TRAN_MSG ─▶ half topic ─▶ END_TRANSACTION ─┬─ commit ───▶ its topic (or the place where it is delayed), op
                              │                          └─ rollback ─▶ op
                              └─ silence ─▶ transaction_checks

The op record says that the prepared message is dealt with. A producer that ends a transaction twice in the same way
gets the same response and nothing happens; one that ends it in two ways is refused the second time.
"""

from __future__ import annotations

import logging
from typing import Final

from pyromq.broker.base.access import OPEN
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.queue_key import QueueKey
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.responses import send_response
from pyromq.broker.base.stats import Counters
from pyromq.broker.base.window_counters import ONE_MESSAGE
from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.delays.delays import Delays, Detour
from pyromq.broker.state.topics import Topics
from pyromq.broker.transactions.prepared_reader import HALF_QUEUE, PreparedReader
from pyromq.broker.transactions.transaction_log import Ending, TransactionLog
from pyromq.model.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from pyromq.model.property_names import (
    CHECK_IMMUNITY,
    CHECK_TIMES,
    DELAY,
    PRODUCER_GROUP,
    REAL_QUEUE,
    REAL_TOPIC,
    TIMED,
    TRANSACTION_ID,
)
from pyromq.model.system_names import DISCARD_TOPIC
from pyromq.net.connection import Connection
from pyromq.security.resources import Action
from pyromq.wire.codes import ResponseCode
from pyromq.wire.fast.responses import success
from pyromq.wire.flags import TRANSACTION_MASK, SysFlag
from pyromq.wire.headers.admin import ResumeCheckHalfMessageHeader
from pyromq.wire.headers.producer import EndTransactionHeader
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.prepared import (
    ARRIVED,
    PreparedMessage,
    StoredPrepared,
    has_item,
    read_prepared,
    take_home,
    with_home,
)
from pyromq.wire.properties import find_property
from pyromq.wire.property_text import item_key, join_items, number_of, with_values, without
from pyromq.wire.received import Received
from pyromq.wire.record import Draft, Record

logger = logging.getLogger(__name__)

_COMMIT: Final = int(SysFlag.COMMIT)
_ENDINGS: Final = {int(each): each for each in (Ending.COMMIT, Ending.ROLLBACK)}
_HALF_TOPIC: Final = HALF_TOPIC.encode()
_RESUMABLE: Final = frozenset((_HALF_TOPIC, DISCARD_TOPIC.encode()))
_OP_QUEUE: Final[QueueKey] = (OP_HALF_TOPIC, 0)
_GROUP: Final = PRODUCER_GROUP.encode()
_DELAY: Final = item_key(DELAY)
_DELAY_BYTES: Final = _DELAY.encode()
_TIMED_BYTES: Final = TIMED.encode()
_HOME: Final = (REAL_TOPIC, REAL_QUEUE, TRANSACTION_ID)


class TransactionHandler:
    """Requests 37 and 323, and where sends that are part of a transaction wait."""

    def __init__(
        self,
        environment: Environment,
        topics: Topics,
        write_path: WritePath,
        log: TransactionLog,
        delays: Delays,
        counters: Counters,
    ) -> None:
        self._store = write_path.store
        self._topics = topics
        self._group_commit = write_path.group_commit
        self._log = log
        self._delays = delays
        self._gate = write_path.gate
        self._counters = counters
        self._settings = environment.settings
        self._clock = environment.clock
        self._access = environment.access
        self._prepared = PreparedReader(write_path.store)
        # of the producers that end one transaction after the other
        self._last_group = ""
        self._last_item = b""  # that group as an item of properties

    # --- preparing ---

    def prepare(self, topic: str, queue_id: int, text: str, unique_key: str) -> Detour:
        """Where a message waits for the decision; store it with the transaction bits of its flags cleared.

        Raises RefusedError when there are no transactions here, and for a delay that could never be kept.
        """
        if not self._settings.transactions:
            problem = f"broker {self._settings.name} does not accept transactional messages at the moment"
            raise RefusedError(ResponseCode.NO_PERMISSION, problem)
        if _DELAY in text or TIMED in text:
            self._delays.place(topic, queue_id, text)  # to refuse it now rather than when it is committed
        if "REAL_" in text or TRANSACTION_ID in text:
            text = without(text, _HOME)
        return Detour(HALF_TOPIC, 0, with_home(text, topic, queue_id, unique_key))

    # --- ending ---

    def end(self, connection: Connection, request: Received[EndTransactionHeader]) -> None:
        self._gate.check_stuck()
        header = request.header
        if self._settings.broker_id:
            text = f"broker {self._settings.name} is a replica: end the transaction at its leader"
            raise RefusedError(ResponseCode.SLAVE_NOT_AVAILABLE, text)
        ending = _ENDINGS.get(header.commit_or_rollback)
        if ending is None:  # the producer does not know yet; clients say so one-way, and RocketMQ answers nobody
            logger.debug("transaction goes on: group=%s key=%s", header.producer_group, header.msg_id)
            send_response(connection, request, None)
            return
        prepared = self._prepared.read(header.tran_state_table_offset, header.commit_log_offset)
        if prepared is None:
            problem = f"prepared message {header.tran_state_table_offset} is not at position {header.commit_log_offset}"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, problem)
        if self._access is not OPEN:
            self._access.require(connection, request, take_home(prepared.properties)[0], Action.PUB)
        is_special = b"CHECK_" in prepared.properties  # it has its own time limit, or was written again: both are rare
        if is_special and not header.from_transaction_check:
            self._check_age(prepared)
        group = header.producer_group
        if group != self._last_group:
            self._last_group, self._last_item = group, join_items([(PRODUCER_GROUP, group)]).encode()
        if (
            not has_item(prepared.properties, self._last_item)
            and find_property(prepared.properties, _GROUP) != group.encode()
        ):
            problem = f"group {header.producer_group} did not begin the transaction of message {prepared.offset}"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, problem)
        queue, offset = _OP_QUEUE, prepared.offset
        if not self._log.is_waiting(offset):
            offset = self._waits_elsewhere(prepared, ending)
        if offset >= 0:
            is_asked = header.from_transaction_check
            is_new = not (is_special or is_asked)  # else that has to be looked at
            if ending is Ending.COMMIT and (is_new or not self._was_committed(prepared, is_asked=is_asked)):
                queue = self._stage_final(prepared)
            elif ending is Ending.ROLLBACK:
                self._count_end(prepared, take_home(prepared.properties)[0], committed=False)
            self._log.end(offset, ending)
        self._group_commit.staged((connection, request, success(request)), queue)

    def _check_age(self, prepared: StoredPrepared) -> None:
        seconds = number_of(prepared.text, CHECK_IMMUNITY)
        if seconds is not None and 0 <= seconds * 1_000 < self._clock.now_ms() - prepared.born_ms:
            problem = f"the transaction is older than its limit of {seconds} s; it is decided when the broker checks it"
            raise RefusedError(ResponseCode.ILLEGAL_OPERATION, problem)

    def _waits_elsewhere(self, prepared: StoredPrepared, ending: Ending) -> int:
        """The offset of its copy; -1 when the transaction has ended in this way before. Raises RefusedError."""
        log, facts = self._log, read_prepared(prepared, prepared.text)
        copy = log.live_copy(facts.unique_key)
        if copy is not None:
            return copy
        self._gate.check_busy()  # what follows looks things up
        before = log.ending.get(log.copies.get(facts.unique_key, prepared.offset))
        if before is None:
            before = self._ending_of(prepared, facts)
        if before is not ending:
            problem = (
                f"transaction {facts.unique_key} is not open any more, and it was not ended with {ending.name}; "
                f"if it was never ended, it is in topic {DISCARD_TOPIC}"
            )
            raise RefusedError(ResponseCode.ILLEGAL_OPERATION, problem)
        return -1

    def _ending_of(self, prepared: StoredPrepared | Record, facts: PreparedMessage) -> Ending:
        """How a transaction that is over ended: it was committed if its message is there."""
        if not self._log.knows_all_copies:
            text = "this broker has just started and does not know this transaction yet; its producer will be asked"
            raise RefusedError(ResponseCode.SYSTEM_BUSY, text)
        return Ending.COMMIT if self._is_committed(prepared, facts) else Ending.ROLLBACK

    def _was_committed(self, prepared: StoredPrepared, *, is_asked: bool) -> bool:
        """Whether it is there although its end is not on record.

        Its producer may have sent the prepared message twice and ended one; the op record may be lost, with the end of
        the log; other brokers go on asking about copies of prepared messages that are committed.
        """
        facts = read_prepared(prepared, prepared.text)
        return (is_asked or facts.is_copy) and self._is_committed(prepared, facts)

    def _is_committed(self, prepared: StoredPrepared | Record, facts: PreparedMessage) -> bool:
        """Compares more than the key: a message must not be missing because another one has its key."""
        for topic in (facts.topic, SCHEDULE_TOPIC, TIMER_TOPIC):
            for position in self._store.find(topic, facts.unique_key):
                final = self._store.reader.record_at(position)
                is_same = (final.born_ms, final.body) == (prepared.born_ms, prepared.body)
                if is_same and final.sys_flag & TRANSACTION_MASK == _COMMIT:
                    return True
        return False

    def _stage_final(self, prepared: StoredPrepared) -> QueueKey:
        topic, queue_id, properties = take_home(prepared.properties)
        home = topic
        if self._topics.get(topic) is None:
            self._topics.require(topic)
        if _DELAY_BYTES in properties or _TIMED_BYTES in properties:
            text = properties.decode(errors="surrogateescape")
            topic, queue_id, text = self._delays.place(topic, queue_id, text)
            properties = text.encode(errors="surrogateescape")
        placed = self._store.stage(
            Draft(
                topic=topic,
                queue_id=queue_id,
                body=prepared.body,
                properties=properties,
                flag=prepared.flag,
                sys_flag=prepared.sys_flag | _COMMIT,
                born_ms=prepared.born_ms,
                born_host=prepared.born_host,
                delivery_attempt=prepared.delivery_attempt,
                prepared_position=prepared.position,
            )
        )
        counters = self._counters
        counters.put_messages += 1
        counters.put_bytes += len(prepared.body)
        counters.puts[topic] += ONE_MESSAGE + placed.size
        self._count_end(prepared, home, committed=True)
        return topic, queue_id

    def _count_end(self, prepared: StoredPrepared, topic: str, *, committed: bool) -> None:
        age_s = max(0, self._clock.now_ms() - prepared.born_ms) / 1000
        self._counters.endings.ended(topic, committed=committed, age_s=age_s)

    # --- once more ---

    def resume(self, connection: Connection, request: Received[ResumeCheckHalfMessageHeader]) -> None:
        """A prepared message that was put away waits again, as if its producer had never been asked about it."""
        _, position = decode_offset_id(request.header.msg_id or "")
        record = self._store.reader.record_at(position)
        text = record.properties.decode(errors="surrogateescape")
        prepared = read_prepared(record, text)
        if record.topic not in _RESUMABLE or not (self._is_listed(record) and prepared.topic and prepared.group):
            problem = f"the message at position {position} is not part of a transaction"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, problem)
        self._access.require(connection, request, prepared.topic, Action.UPDATE)
        waiting = self._log.live_copy(prepared.unique_key)
        if record.topic == _HALF_TOPIC and self._log.is_waiting(record.offset):
            waiting = record.offset
        if waiting is not None:
            self._log.table.forget_checks(waiting)
        elif record.topic == _HALF_TOPIC or self._ending_of(record, prepared) is Ending.COMMIT:
            problem = f"transaction {prepared.unique_key} is over; use the message id from topic {DISCARD_TOPIC}"
            raise RefusedError(ResponseCode.ILLEGAL_OPERATION, problem)
        else:
            anew = {CHECK_TIMES: "0", ARRIVED: str(self._clock.now_ms())}
            properties = with_values(text, anew).encode(errors="surrogateescape")
            self._log.write_copy(prepared_draft(record, properties, HALF_TOPIC), prepared.unique_key)
        self._group_commit.staged((connection, request, success(request)), HALF_QUEUE)

    def _is_listed(self, record: Record) -> bool:
        entry = next(self._store.reader.entries(record.topic.decode(), 0, record.offset, 1), None)
        return entry is not None and entry[0] == record.position


def prepared_draft(prepared: StoredPrepared | Record, properties: bytes, topic: str) -> Draft:
    """A prepared message as it is written once more, to the half topic or to where it is put away."""
    return Draft(
        topic=topic,
        queue_id=0,
        body=prepared.body,
        properties=properties,
        flag=prepared.flag,
        sys_flag=prepared.sys_flag & ~TRANSACTION_MASK,
        born_ms=prepared.born_ms,
        born_host=prepared.born_host,
        delivery_attempt=prepared.delivery_attempt,
    )
