"""Sending: one message, a batch, and what the broker adds to each before it is stored."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from pyromq.broker.groups import Groups
from pyromq.broker.locks import QueueLocks
from pyromq.broker.refusals import RefusedError
from pyromq.broker.session import Session
from pyromq.broker.settings import BrokerSettings
from pyromq.broker.stats import Counters
from pyromq.broker.topics import Topics
from pyromq.broker.turn import PendingSend, Turns
from pyromq.clock import Clock
from pyromq.model.names import RETRY_PREFIX, dead_letter_topic
from pyromq.model.topic import Perm, TopicConfig, TopicFilterType
from pyromq.net.connection import Connection
from pyromq.store.message_store import MessageStore, Placed
from pyromq.wire.batch import decode_batch
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.flags import TRANSACTION_MASK, SysFlag
from pyromq.wire.headers.producer import SendHeader, SendResponseHeader
from pyromq.wire.properties import find_property
from pyromq.wire.received import Received
from pyromq.wire.record import Draft

_HONOURS_RETRY_LIMIT: Final = 121  # protocol version 3.4.9
_WRITE: Final = int(Perm.WRITE)
_MULTI_TAGS: Final = int(SysFlag.MULTI_TAGS)
_MULTI_TAG_TOPIC: Final = TopicFilterType.MULTI_TAG
_NOT_SUPPORTED_YET: Final = (b"TRAN_MSG\x01true", b"TIMER_D", b"DELAY\x01", b"INNER_NUM\x01")


class SendHandler:
    """Requests 10, 310 and 320. Checks and refusals in RocketMQ's order, then stages; the turn answers."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        locks: QueueLocks,
        turns: Turns,
        counters: Counters,
        settings: BrokerSettings,
        clock: Clock,
        rng: Random,
        *,
        host_hex: str,
        new_unique_key: Callable[[], str],
    ) -> None:
        self._store, self._topics, self._groups, self._locks = store, topics, groups, locks
        self._turns, self._settings, self._clock, self._rng = turns, settings, clock, rng
        self._counters = counters
        self._host_hex, self._new_unique_key = host_hex, new_unique_key
        added = {"MSG_REGION": settings.region, "TRACE_ON": "true", "CLUSTER": settings.cluster}
        self._added = "".join(f"{name}\x01{value}\x02" for name, value in added.items()).encode()

    # --- one message ---

    def send(self, connection: Connection, request: Received[SendHeader]) -> None:
        header = request.header
        if header.batch:
            self.send_batch(connection, request)
            return
        self._refuse_when_busy()
        config = self._topics.get(header.topic) or self._topics.for_send(
            header.topic, header.default_topic, header.default_topic_queue_nums, unit=bool(header.unit_mode)
        )
        if config.order and not self._settings.permission & _WRITE:
            text = f"broker {self._settings.name} takes no messages at the moment"
            raise RefusedError(ResponseCode.NO_PERMISSION, text)
        topic, queue_id = header.topic, self._queue_id(config, header.queue_id)
        properties = (header.properties or "").encode()
        if self._topics.is_reserved(topic):
            topic, queue_id = self._checked_topic(header, topic, queue_id, request.version)
        unique_key = find_property(properties, b"UNIQ_KEY")
        properties, unique_key = self._completed(properties, unique_key)
        session: Any = connection.session
        draft = Draft(
            topic=topic,
            queue_id=queue_id,
            body=request.body,
            properties=properties,
            flag=header.flag,
            sys_flag=header.sys_flag | (_MULTI_TAGS if config.topic_filter_type is _MULTI_TAG_TOPIC else 0),
            born_ms=header.born_timestamp,
            born_host=session.born_host,
            delivery_attempt=header.reconsume_times or 0,
        )
        placed = self._store.stage(draft)
        answer = b""
        if not request.is_oneway:
            answer = self._answer(request, queue_id, placed.offset, self._id_of(placed), unique_key.decode())
        self._stage_answer(connection, request, answer, placed, (topic, queue_id), properties)

    def _queue_id(self, config: TopicConfig, wanted: int) -> int:
        if wanted < 0:
            return self._rng.randrange(max(1, config.write_queue_nums))
        if wanted >= max(config.read_queue_nums, config.write_queue_nums):
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                f"queue id {wanted} is out of range: topic {config.topic_name} has {config.write_queue_nums} queues",
            )
        return wanted

    def _checked_topic(self, header: SendHeader, topic: str, queue_id: int, version: int) -> tuple[str, int]:
        """Names that stand for something: those that clients must not write to, and retry topics."""
        self._topics.for_send(topic, header.default_topic, header.default_topic_queue_nums, unit=False)
        if not topic.startswith(RETRY_PREFIX):
            return topic, queue_id
        group = self._groups.require(topic.removeprefix(RETRY_PREFIX))
        attempts_max = group.retry_max_times
        if version >= _HONOURS_RETRY_LIMIT and header.max_reconsume_times is not None:
            attempts_max = header.max_reconsume_times
        exhausted = (header.reconsume_times or 0) > attempts_max
        if not exhausted and not self._locks.is_held(group.group_name):
            return topic, queue_id
        dead = self._topics.create(dead_letter_topic(group.group_name), queues=1)
        return dead.topic_name, 0

    def _completed(self, properties: bytes, unique_key: bytes | None) -> tuple[bytes, bytes]:
        """Properties as they are stored: without what clients must not set, with what the broker adds."""
        for name in _NOT_SUPPORTED_YET:
            if name in properties:
                self._refuse_unsupported(properties)
        if b"POP_CK\x01" in properties:
            items = [item for item in properties.split(b"\x02") if item and not item.startswith(b"POP_CK\x01")]
            properties = b"\x02".join(items)
        if properties and not properties.endswith(b"\x02"):
            properties += b"\x02"
        if unique_key is None:
            unique_key = self._new_unique_key().encode()
            return b"%bUNIQ_KEY\x01%b\x02%b" % (properties, unique_key, self._added), unique_key
        return properties + self._added, unique_key

    def _refuse_unsupported(self, properties: bytes) -> None:
        for name in (b"TRAN_MSG", b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS", b"TIMER_DELIVER_MS", b"DELAY", b"INNER_NUM"):
            value = find_property(properties, name)
            if value is not None and value not in (b"false", b"0"):
                text = f"this broker does not take messages with the property {name.decode()} yet"
                raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, text)

    # --- batches ---

    def send_batch(self, connection: Connection, request: Received[SendHeader]) -> None:
        header = request.header
        self._refuse_when_busy()
        if header.topic.startswith(RETRY_PREFIX):
            raise RefusedError(
                ResponseCode.MESSAGE_ILLEGAL, f"batches to the retry topic {header.topic} are not allowed"
            )
        if header.sys_flag & TRANSACTION_MASK:
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be part of a transaction")
        if len(request.body) > self._settings.store.body_bytes_max:
            limit = self._settings.store.body_bytes_max
            text = f"the batch has {len(request.body)} bytes, at most {limit} are allowed"
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, text)
        config = self._topics.for_send(
            header.topic, header.default_topic, header.default_topic_queue_nums, unit=bool(header.unit_mode)
        )
        queue_id, session = self._queue_id(config, header.queue_id), connection.session_as(Session)
        drafts = [
            Draft(
                topic=header.topic,
                queue_id=queue_id,
                body=item.body,
                properties=item.properties,
                flag=item.flag,
                sys_flag=header.sys_flag,
                born_ms=header.born_timestamp,
                born_host=session.born_host,
                delivery_attempt=header.reconsume_times or 0,
            )
            for item in decode_batch(request.body)
        ]
        if not drafts:
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, "the batch is empty")
        placed = self._store.stage_batch(drafts)
        answer = b""
        if not request.is_oneway:
            ids = ",".join([self._id_of(each) for each in placed])
            answer = self._answer(request, queue_id, placed[0].offset, ids, None)
        properties = (header.properties or "").encode()
        self._stage_answer(connection, request, answer, placed[-1], (header.topic, queue_id), properties, len(placed))

    # --- answers ---

    def _stage_answer(
        self,
        connection: Connection,
        request: Received[SendHeader],
        answer: bytes,
        placed: Placed,
        queue: tuple[str, int],
        properties: bytes,
        count: int = 1,
    ) -> None:
        wait = b"WAIT\x01false" not in properties
        self._counters.put_messages += count
        self._counters.put_bytes += len(request.body)
        end, now = placed.position + placed.size, self._clock.monotonic_ms()
        self._turns.staged(PendingSend(connection, request, answer, end, wait, now), queue)

    def _answer(
        self, request: Received[SendHeader], queue_id: int, offset: int, message_id: str, unique_key: str | None
    ) -> bytes:
        header = SendResponseHeader(
            msg_id=message_id,
            queue_id=queue_id,
            queue_offset=offset,
            transaction_id=unique_key,
            region=self._settings.region,
            trace_on="true",
        )
        return encode_response(
            ResponseCode.SUCCESS, request.correlation_id, header, serialize_type=request.serialize_type
        )

    def _id_of(self, placed: Placed) -> str:
        return f"{self._host_hex}{placed.position:016X}"

    # --- flow control ---

    def _refuse_when_busy(self) -> None:
        turns, settings = self._turns, self._settings
        if turns.stuck_ms() > settings.stuck_disk_ms:
            self._counters.put_refused += 1
            text = "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
            raise RefusedError(ResponseCode.SYSTEM_BUSY, text)
        if turns.waiting >= settings.unflushed_sends_max:
            self._counters.put_refused += 1
            raise RefusedError(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]system busy, start flow control for a while")
