"""Sending: one message, a batch, and what the broker adds to each before it is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.identity import Identity
from pyromq.broker.base.refusals import RefusedError, inner_batch, not_accepting, queue_out_of_range
from pyromq.broker.base.session import Session
from pyromq.broker.base.stats import Counters
from pyromq.broker.base.window_counters import CALL, MESSAGE, ONE_MESSAGE
from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.delays.delays import Delays, Detour, recall_handle
from pyromq.broker.sending.priority import queue_by_priority
from pyromq.broker.sending.retry_policy import attempts_allowed
from pyromq.broker.sending.send_lane import LaneTexts, SendLane
from pyromq.broker.state.tables import Tables
from pyromq.compiled_core import core
from pyromq.model import property_names as names
from pyromq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, dead_letter_topic
from pyromq.model.topic import Perm, TopicConfig, TopicFilterType
from pyromq.net.connection import Connection
from pyromq.store.settings import Flush
from pyromq.wire.batch import decode_batch
from pyromq.wire.codes import ResponseCode
from pyromq.wire.fast.responses import SendResponses
from pyromq.wire.flags import TRANSACTION_MASK, SysFlag
from pyromq.wire.headers.producer import SendHeader
from pyromq.wire.property_text import item_key, join_items, number_of, value_of, with_values, without
from pyromq.wire.received import CommandFlag, Received
from pyromq.wire.record import Draft

_WRITE: Final = int(Perm.WRITE)
_MULTI_TAGS: Final = int(SysFlag.MULTI_TAGS)
_INNER_BATCH: Final = int(SysFlag.INNER_BATCH)
_MULTI_TAG_TOPIC: Final = TopicFilterType.MULTI_TAG
_TRANSACTION: Final = TRANSACTION_MASK
_ONEWAY: Final = int(CommandFlag.ONEWAY)
_ITEM_END: Final = names.ITEM_END
_UNIQUE_KEY: Final = names.UNIQUE_KEY
_PREPARED: Final = names.PREPARED
_TIMED: Final = names.TIMED
_DELAY: Final = names.DELAY
_INNER: Final = names.INNER_NUM
_POP_CHECK: Final = names.POP_CHECK
_PRIORITY: Final = names.PRIORITY
_NO_WAIT: Final = item_key(names.WAIT) + "false"

Prepare = Callable[[str, int, str, str], Detour]
"""Where a prepared message of this topic, queue, properties and unique key waits for its outcome."""


class SendHandler:
    """Requests 10, 310 and 320. Checks and refusals in RocketMQ's order, then stages; the group commit answers."""

    def __init__(
        self,
        environment: Environment,
        identity: Identity,
        tables: Tables,
        write_path: WritePath,
        delays: Delays,
        prepare: Prepare,
        counters: Counters,
    ) -> None:
        settings, topics, host_hex = environment.settings, tables.topics, identity.host.encode().hex().upper()
        self._store = write_path.store
        self._topics = topics
        self._groups = tables.groups
        self._locks = tables.locks
        self._delays = delays
        self._prepare = prepare
        self._gate = write_path.gate
        self._group_commit = write_path.group_commit
        self._settings = settings
        self._rng = environment.rng
        self._counters = counters
        self._new_unique_key = identity.unique_keys(environment.clock)  # for messages whose senders gave them none
        responses = SendResponses(host_hex, settings.region)
        self._encode_response = responses.encode
        self._encode_batch_response = responses.encode_batch
        self._reserved = topics.reserved
        self._on_disk = "true" if settings.store.flush is Flush.SYNC else "false"  # when a response leaves
        added = {names.REGION: settings.region, names.TRACE_ON: "true", names.CLUSTER: settings.cluster}
        self._added = join_items(added.items()).encode()  # what the broker adds to the properties of every message
        self.lane = self._new_lane(environment, identity, write_path, responses) if core is not None else None

    def _new_lane(
        self, environment: Environment, identity: Identity, write_path: WritePath, responses: SendResponses
    ) -> SendLane:
        """Takes plain sends before they become requests."""
        assert core is not None
        texts = LaneTexts(
            added=self._added,
            response=responses.pieces(self._on_disk),
            store_host=identity.host.encode(),
            reserved=self._reserved,
        )
        access = environment.access if isinstance(environment.access, GuardedAccess) else None
        return SendLane(core, texts, write_path, self._topics, self._counters, access)

    # --- one message ---

    def send(self, connection: Connection, request: Received[SendHeader]) -> None:
        """The hottest request of a broker; what is out of the ordinary has its own method."""
        header = request.header
        if header.batch:
            self.send_batch(connection, request)
            return
        topic, text = header.topic, header.properties or ""
        if self._gate.closed and not self._gate.passes(connection, request):
            return
        config = self._topics.get(topic)
        if config is None or config.order or topic in self._reserved or topic[0] == "%":
            config, topic = self._checked_topic(header, request.version)
        queue_id = header.queue_id
        if queue_id < 0 or queue_id >= config.write_queue_nums or topic is not header.topic:
            queue_id = self._queue_id(config, queue_id)
        if text and text[-1] != _ITEM_END:
            text += _ITEM_END
        unique_key = value_of(text, _UNIQUE_KEY)
        if not unique_key:
            unique_key = self._new_unique_key()
            text += join_items([(_UNIQUE_KEY, unique_key)])
        if _PRIORITY in text:
            queue_id, text = queue_by_priority(text, queue_id, config.write_queue_nums)
        sys_flag, queue, handle = header.sys_flag, queue_id, None
        if sys_flag & _INNER_BATCH:
            raise inner_batch()
        if _PREPARED in text or _TIMED in text or _DELAY in text or _INNER in text or _POP_CHECK in text:
            topic, queue, text, sys_flag, handle = self._detour(header, topic, queue_id, text, unique_key)
        if config.topic_filter_type is _MULTI_TAG_TOPIC:
            sys_flag |= _MULTI_TAGS
        placed = self._store.stage(
            Draft(
                topic=topic,
                queue_id=queue,
                body=request.body,
                properties=text.encode() + self._added,
                flag=header.flag,
                sys_flag=sys_flag,
                born_ms=header.born_timestamp,
                born_host=connection.session.born_host,  # type: ignore[attr-defined]
                delivery_attempt=header.reconsume_times or 0,
            )
        )
        counters = self._counters
        counters.put_messages += 1
        counters.put_bytes += len(request.body)
        counters.puts[topic] += ONE_MESSAGE + placed.size
        wait = _NO_WAIT not in text
        response = b""
        if not request.flag & _ONEWAY:
            on_disk = self._on_disk if wait else "false"
            response = self._encode_response(
                request, queue_id, placed.position, placed.offset, unique_key, on_disk, handle
            )
        self._group_commit.staged((connection, request, response), (topic, queue), wait=wait)
        if self.lane is not None:
            self.lane.learn(connection, request, config, queue_id)

    def _detour(
        self, header: SendHeader, topic: str, queue_id: int, text: str, unique_key: str
    ) -> tuple[str, int, str, int, str | None]:
        """Prepared and delayed messages are not for their topic yet: where they wait instead."""
        if _INNER in text and number_of(text, _INNER):
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, "messages that contain several others are not accepted")
        if item_key(_POP_CHECK) in text:
            text = without(text, (_POP_CHECK,))
        if topic is not header.topic:  # a dead letter is not delayed any more
            text = with_values(text, {_DELAY: "-1"})
        resent = header.reconsume_times and (number_of(text, _DELAY) or 0) > 0
        if _PREPARED in text and value_of(text, _PREPARED).lower() == "true" and not resent:
            prepared = self._prepare(topic, queue_id, text, unique_key)
            return prepared.topic, prepared.queue_id, prepared.properties, header.sys_flag & ~_TRANSACTION, None
        if header.sys_flag & _TRANSACTION:  # no message of its topic: no consumer would ever see it
            return topic, queue_id, text, header.sys_flag, None
        place = self._delays.place(topic, queue_id, text)
        return *place, header.sys_flag, recall_handle(place, self._settings.name)

    def _checked_topic(self, header: SendHeader, version: int) -> tuple[TopicConfig, str]:
        """Topics that do not exist yet, that clients may not write to, and retry topics, whose messages may die."""
        config = self._topics.for_send(
            header.topic, header.default_topic, header.default_topic_queue_nums, unit=bool(header.unit_mode)
        )
        if config.order and not self._settings.permission & _WRITE:
            raise not_accepting(self._settings.name)
        if not header.topic.startswith(RETRY_PREFIX):
            return config, header.topic
        group = self._groups.require(header.topic.removeprefix(RETRY_PREFIX))
        attempts_max = attempts_allowed(group, header.max_reconsume_times, version, self._settings.subscription_policy)
        if (header.reconsume_times or 0) <= attempts_max and not self._locks.is_held(group.group_name):
            return config, header.topic
        dead = self._topics.create(dead_letter_topic(group.group_name), queues=1)
        return dead, dead.topic_name

    def _queue_id(self, config: TopicConfig, wanted: int) -> int:
        if wanted < 0:
            return self._rng.randrange(max(1, config.write_queue_nums))
        if wanted >= max(config.read_queue_nums, config.write_queue_nums):
            if config.topic_name.startswith(DEAD_LETTER_PREFIX):
                return 0
            raise queue_out_of_range(wanted, config.topic_name, config.write_queue_nums)
        return wanted

    # --- batches ---

    def send_batch(self, connection: Connection, request: Received[SendHeader]) -> None:
        header = request.header
        if self._gate.closed and not self._gate.passes(connection, request):
            return
        if header.topic.startswith(RETRY_PREFIX):
            raise RefusedError(
                ResponseCode.MESSAGE_ILLEGAL, f"batches to the retry topic {header.topic} are not allowed"
            )
        if header.sys_flag & TRANSACTION_MASK:
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be part of a transaction")
        if header.sys_flag & _INNER_BATCH:
            raise inner_batch()
        if len(request.body) > self._settings.store.body_bytes_max:
            limit = self._settings.store.body_bytes_max
            text = f"the batch has {len(request.body)} bytes; at most {limit} are allowed"
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, text)
        config = self._topics.for_send(
            header.topic, header.default_topic, header.default_topic_queue_nums, unit=bool(header.unit_mode)
        )
        queue_id, session = self._queue_id(config, header.queue_id), connection.session_as(Session)
        batch = decode_batch(request.body)
        if not batch.bodies:
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, "the batch is empty")
        shared = Draft(
            topic=header.topic,
            queue_id=queue_id,
            body=b"",
            sys_flag=header.sys_flag,
            born_ms=header.born_timestamp,
            born_host=session.born_host,
            delivery_attempt=header.reconsume_times or 0,
        )
        placed = self._store.stage_batch(shared, batch)
        wait = _NO_WAIT not in (header.properties or "")
        response = b""
        if not request.is_oneway:
            batch_key = value_of(header.properties or "", _UNIQUE_KEY) or None  # the items have keys of their own
            response = self._encode_batch_response(
                request, queue_id, placed.positions, placed.offset, batch_key, self._on_disk if wait else "false"
            )
        counters, messages = self._counters, len(batch.bodies)
        counters.put_messages += messages
        counters.put_bytes += len(request.body)
        counters.puts[header.topic] += CALL + messages * MESSAGE + sum(placed.sizes)
        self._group_commit.staged((connection, request, response), (header.topic, queue_id), wait=wait)
        if self.lane is not None:
            self.lane.learn(connection, request, config, queue_id)
