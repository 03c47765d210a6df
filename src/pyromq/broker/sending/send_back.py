"""Send-back: a consumer could not use a message, and wants it later, or never again.

    failed message ─▶ a copy with one attempt more ─▶ waits at its delay level ─▶ %RETRY%group ─▶ consumed again
                                                   └─▶ too many attempts, or asked for: %DLQ%group

The copy is stored before the response leaves, so the consumer may forget the original once it has the response. A
consumer of PyroMQ says why the message failed (``model.failure``); the copy has that as properties.
"""

from __future__ import annotations

from typing import Final

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.record_copy import again, properties_of
from pyromq.broker.base.refusals import RefusedError, not_accepting
from pyromq.broker.base.responses import send_response
from pyromq.broker.base.stats import Counters
from pyromq.broker.base.system_names import refuse_change
from pyromq.broker.base.window_counters import ONE_MESSAGE
from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.delays.delays import Delays, Detour
from pyromq.broker.sending.retry_policy import attempts_allowed, retry_delay_ms
from pyromq.broker.state.tables import Tables
from pyromq.errors import StoreError
from pyromq.model import property_names as names
from pyromq.model.failure import STORY_BYTES_MAX, STORY_NAMES, TRACEBACK
from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.model.topic import GroupConfig, Perm, TopicConfig
from pyromq.net.connection import Connection
from pyromq.security.resources import Action
from pyromq.wire.codes import ResponseCode
from pyromq.wire.fast.responses import success
from pyromq.wire.headers.consumer import SendBackHeader
from pyromq.wire.message_id import stored_id
from pyromq.wire.properties import PROPERTIES_BYTES_MAX, find_property
from pyromq.wire.property_text import split_items, value_of, with_values, without
from pyromq.wire.received import Received
from pyromq.wire.record import Record

_FIRST_RETRY_LEVEL: Final = 3
_NO_DELAY: Final = "0"  # of dead letters, as RocketMQ has it; those that come as sends have -1
_WRITE: Final = int(Perm.WRITE)
_STORY_NAMES: Final = frozenset(STORY_NAMES)
_ROOM_BYTES: Final = 1_024  # for where a copy goes after its delay, its origin, a checksum


class SendBackHandler:
    """Handler of send-backs (CONSUMER_SEND_MSG_BACK). Request 36."""

    def __init__(
        self, environment: Environment, tables: Tables, write_path: WritePath, delays: Delays, counters: Counters
    ) -> None:
        self._store = write_path.store
        self._topics = tables.topics
        self._groups = tables.groups
        self._delays = delays
        self._gate = write_path.gate
        self._group_commit = write_path.group_commit
        self._counters = counters
        self._settings = environment.settings
        self._rng = environment.rng
        self._access = environment.access

    def send_back(self, connection: Connection, request: Received[SendBackHeader]) -> None:
        self._gate.check_stuck()
        header = request.header
        refuse_change(group=header.group)
        group = self._groups.require(header.group)
        if not self._settings.permission & _WRITE:
            raise not_accepting(self._settings.name)
        if group.retry_queue_nums <= 0:  # a group that wants no retries
            send_response(connection, request, None)
            return
        retry = self._writable_retry_topic(group, unit=bool(header.unit_mode))
        failed = self._failed(header)
        self._access.require(connection, request, failed.topic.decode(), Action.SUB)
        is_dead, place = self._next_place(group, header, failed, retry, request.version)
        placed = self._store.stage(again(failed, place.topic, place.queue_id, place.properties.encode(), failures=1))
        topic, counters = _origin(failed), self._counters
        counters.send_backs[topic, header.group] += ONE_MESSAGE + placed.size
        if is_dead:
            counters.dead[topic, header.group] += ONE_MESSAGE + placed.size
        self._group_commit.staged((connection, request, success(request)), (place.topic, place.queue_id))

    def _writable_retry_topic(self, group: GroupConfig, *, unit: bool) -> TopicConfig:
        retry = self._topics.create(retry_topic(group.group_name), queues=group.retry_queue_nums, unit=unit)
        if not retry.perm & _WRITE:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"the retry topic {retry.topic_name} is not writable")
        return retry

    def _failed(self, header: SendBackHeader) -> Record:
        try:
            failed = self._store.reader.record_at(header.position)
        except StoreError as error:
            text = f"there is no message at position {header.position} to send back: {error}"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text) from error
        refuse_change(topic=failed.topic.decode())  # a prepared or waiting message is not for consumers yet
        return failed

    def _next_place(
        self, group: GroupConfig, header: SendBackHeader, failed: Record, retry: TopicConfig, version: int
    ) -> tuple[bool, Detour]:
        """Whether it is dead, and where it goes."""
        attempts_max = attempts_allowed(group, header.max_reconsume_times, version, self._settings.subscription_policy)
        topic, text = failed.topic.decode(), with_story(properties_of(failed).decode(), header.failure_story)
        first_id = value_of(text, names.ORIGIN_MESSAGE_ID) or stored_id(failed.store_host, failed.position)
        values = {names.ORIGIN_MESSAGE_ID: first_id, names.WAIT: "false"}
        if not value_of(text, names.RETRY_TOPIC):
            values[names.RETRY_TOPIC] = topic
        if failed.delivery_attempt >= attempts_max or header.delay_level < 0:
            dead = self._topics.create(dead_letter_topic(group.group_name), queues=1)
            return True, Detour(dead.topic_name, 0, with_values(text, values | {names.DELAY: _NO_DELAY}))
        topic, queue_id = retry.topic_name, self._rng.randrange(max(1, retry.write_queue_nums))
        delay_ms = retry_delay_ms(group.group_retry_policy, failed.delivery_attempt)
        if delay_ms is not None and header.delay_level == 0:
            return False, self._delays.place_after(topic, queue_id, with_values(text, values), delay_ms)
        level = header.delay_level or _FIRST_RETRY_LEVEL + failed.delivery_attempt
        return False, self._delays.place_at_level(topic, queue_id, text, level, values)


def with_story(properties: str, encoded: str | None) -> str:
    """The properties of a failed message, and what its consumer reports of the failure.

    Nothing but the names of a story is taken from there. What is too long, or leaves too little room for what the
    broker adds, is left out, the traceback first: the message goes its way without it.
    """
    if not encoded:
        return properties
    story = {name: value for name, value in split_items(encoded[:STORY_BYTES_MAX]).items() if name in _STORY_NAMES}
    shorter = {name: value for name, value in story.items() if name != TRACEBACK}
    for each in (story, shorter) if len(encoded) <= STORY_BYTES_MAX else ():
        whole = with_values(properties, each, drop=STORY_NAMES)
        if _fits(whole):
            return whole
    return without(properties, STORY_NAMES)


def _fits(properties: str) -> bool:
    try:
        return len(properties.encode()) <= PROPERTIES_BYTES_MAX - _ROOM_BYTES
    except UnicodeEncodeError:
        return False


def _origin(failed: Record) -> str:
    """The topic that statistics count: where the message was sent to, however often it has failed since."""
    origin = find_property(failed.properties, names.RETRY_TOPIC.encode())
    return (origin or failed.topic).decode(errors="replace")
