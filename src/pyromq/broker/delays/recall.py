"""Recall: taking back a message that still waits for its time."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode
from functools import partial
from typing import Final, NamedTuple

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.refusals import RefusedError, not_accepting, refusal_of
from pyromq.broker.base.responses import send_refusal, send_response
from pyromq.broker.base.session import Session
from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.delays.delays import Delays
from pyromq.broker.delays.timer_messages import cancelled_key
from pyromq.broker.delays.timers import Timers
from pyromq.broker.state.topics import Topics
from pyromq.errors import MQError
from pyromq.model.names import TIMER_TOPIC
from pyromq.model.property_names import REAL_TOPIC, TAGS, TIMER_DELIVER_MS, UNIQUE_KEY
from pyromq.model.property_names import TIMER_DELETED_KEY as CANCEL
from pyromq.model.property_names import TIMER_OUT_MS as DUE
from pyromq.model.topic import Perm
from pyromq.net.connection import Connection
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.producer import RecallMessageHeader, RecallMessageResponseHeader
from pyromq.wire.properties import find_property
from pyromq.wire.property_text import with_values
from pyromq.wire.received import Received
from pyromq.wire.record import Draft

RECALL_TAG: Final = "_RECALL_TAG_"
_WRITE: Final = int(Perm.WRITE)
_VERSION: Final = "v1"


class RecallHandle(NamedTuple):
    """What the response to a send said about how to take the message back."""

    topic: str
    broker: str
    due_ms: int
    key: str

    @classmethod
    def parse(cls, text: str) -> RecallHandle:
        """Parse a recall handle. Raises RefusedError."""
        try:
            words = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().split(" ")
            if len(words) == 5 and words[0] == _VERSION:
                return cls(words[1], words[2], int(words[3]), words[4])
        except (binascii.Error, ValueError):
            pass
        raise _refused("this is not a recall handle: use the one from the response to the send")


class RecallHandler:
    """Request 370. Writes a cancellation beside the message; answers when it is as safe as the message was."""

    def __init__(
        self, environment: Environment, topics: Topics, write_path: WritePath, delays: Delays, timers: Timers
    ) -> None:
        self._store = write_path.store
        self._topics = topics
        self._delays = delays
        self._timers = timers
        self._put = write_path.internal_writes.put
        self._settings = environment.settings
        self._clock = environment.clock

    def recall(self, connection: Connection, request: Received[RecallMessageHeader]) -> None:
        handle = self._checked(request.header)
        key = f"{handle.topic}+{handle.key}"
        self._find(handle, key)
        if not self._timers.hold(key.encode()):
            raise _refused(f"message {handle.key} is already being cancelled")
        try:
            draft = self._cancellation(handle, connection.session_as(Session).born_host)
            self._put(draft, partial(self._reported, connection, request, handle, key))
        except MQError:
            self._timers.let_go(key.encode())
            raise

    def _checked(self, header: RecallMessageHeader) -> RecallHandle:
        settings = self._settings
        if not settings.recall_messages:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"broker {settings.name} does not recall messages")
        if settings.broker_id:
            raise RefusedError(ResponseCode.SLAVE_NOT_AVAILABLE, "only the master recalls messages")
        if not settings.permission & _WRITE:
            raise not_accepting(settings.name, ResponseCode.SERVICE_NOT_AVAILABLE)
        self._topics.require(header.topic)
        handle = RecallHandle.parse(header.recall_handle)
        if handle.topic != header.topic:
            raise _refused(f"the handle belongs to topic {handle.topic}, not to {header.topic}")
        if handle.broker != settings.name:
            raise _refused(f"the message waits on broker {handle.broker}; this is broker {settings.name}")
        if handle.due_ms <= self._clock.now_ms():
            raise _refused(f"it is too late: message {handle.key} is already due")
        return handle

    def _find(self, handle: RecallHandle, key: str) -> None:
        """Check that the delayed message still waits. Raises RefusedError when it does not, or was cancelled before."""
        due_ms = 0
        for position in self._store.find(TIMER_TOPIC, handle.key):
            properties = self._store.records.verify(position).properties
            if find_property(properties, CANCEL.encode()) and cancelled_key(properties) == key.encode():
                raise _refused(f"message {handle.key} was already cancelled")
            if find_property(properties, REAL_TOPIC.encode()) == handle.topic.encode():
                due_ms = int(find_property(properties, DUE.encode()) or b"0")
        if not due_ms:
            raise _refused(f"no message {handle.key} of topic {handle.topic} is waiting on this broker")
        if due_ms <= self._clock.now_ms():
            raise _refused(f"it is too late: message {handle.key} is already due")

    def _cancellation(self, handle: RecallHandle, born_host: bytes) -> Draft:
        values = {
            UNIQUE_KEY: handle.key,
            TAGS: RECALL_TAG,
            CANCEL: handle.key,
            TIMER_DELIVER_MS: str(handle.due_ms),
        }
        place = self._delays.place(handle.topic, 0, with_values("", values))
        return Draft(
            topic=place.topic,
            queue_id=place.queue_id,
            body=b"0",
            properties=place.properties.encode(),
            born_ms=self._clock.now_ms(),
            born_host=born_host,
        )

    def _reported(
        self,
        connection: Connection,
        request: Received[RecallMessageHeader],
        handle: RecallHandle,
        key: str,
        error: MQError | None,
    ) -> None:
        if error is not None:
            self._timers.let_go(key.encode())
            send_refusal(connection, request, *refusal_of(error))
            return
        header = RecallMessageResponseHeader(msg_id=handle.key, region=self._settings.region)
        send_response(connection, request, header)


def _refused(remark: str) -> RefusedError:
    return RefusedError(ResponseCode.ILLEGAL_OPERATION, remark)
