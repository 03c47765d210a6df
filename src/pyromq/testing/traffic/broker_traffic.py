"""Traffic of a broker: what goes wrong in it (``faults``), and what it says (``journal``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from pyromq.client.core.received_message import ReceivedMessage, split_messages
from pyromq.errors import MQError
from pyromq.model import property_names as names
from pyromq.model.names import RETRY_PREFIX, retry_topic
from pyromq.testing.observing.journal import Journal, JournalEventKind
from pyromq.testing.traffic.fault_rules import Fault, FaultKind
from pyromq.testing.traffic.faults import Faults
from pyromq.testing.traffic.requests import PULLS, SENDS, RequestFacts, facts_of, retry_group
from pyromq.testing.traffic.watched_server import Handle, WatchedConnection
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import encode_request, encode_response
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.headers.consumer import UpdateConsumerOffsetHeader
from pyromq.wire.headers.producer import SendHeader, SendResponseHeader
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.properties import encode_properties
from pyromq.wire.received import Received, decode_received
from pyromq.wire.send_statuses import STORED_CODES

_ONEWAY: Final = 2
_KEPT_FLAGS: Final = 0x703  # compression, and many tags
_LEFT_OUT: Final = frozenset(  # else the copy would wait, or be a transaction's, once more
    (names.DELAY, names.TIMER_DELAY_MS, names.TIMER_DELAY_SEC, names.TIMER_DELIVER_MS, names.PREPARED)
)

RecordAt = Callable[[int], bytes]
"""The stored bytes at a position of the commit log; raises MQError."""


class Traffic:
    """The watcher of a broker's server. ``crash`` stops the broker at once and starts it again."""

    def __init__(
        self, faults: Faults, journal: Journal, broker: str, record_at: RecordAt, crash: Callable[[], None]
    ) -> None:
        self._faults = faults
        self._journal = journal
        self._broker = broker
        self._record_at = record_at
        self._crash = crash
        self._offsets: dict[tuple[str, str, int], int] = {}  # as committed last, by group, topic and queue

    def is_away(self) -> bool:
        return False

    def on_request(self, connection: WatchedConnection, request: Received[Any], handle: Handle) -> None:
        facts = facts_of(request)
        fault = self._faults.choose(facts)
        if fault is None:
            self._watch(connection, request, facts, handle, is_heard=True)
            handle(request)
            return
        self._journal.add(JournalEventKind.FAULT, group=facts.group, topic=facts.topic, text=f"{fault.kind}: {facts}")
        self._happen(fault, connection, request, handle)

    # --- what goes wrong ---

    def _happen(self, fault: Fault, connection: WatchedConnection, request: Received[Any], handle: Handle) -> None:
        facts = facts_of(request)
        match fault.kind:
            case FaultKind.LOSE_RESPONSE:
                self._watch(connection, request, facts, handle, is_heard=False)
                connection.call_with_response(request, lambda _: False)
                handle(request)
            case FaultKind.CUT_WHEN_DONE:
                self._watch(connection, request, facts, handle, is_heard=False)
                connection.call_with_response(request, partial(_cut_instead, connection))
                handle(request)
            case FaultKind.REFUSE:
                if not request.is_oneway:
                    connection.send(_refusal(request, fault))
            case FaultKind.SLOW:

                def late() -> None:
                    self._watch(connection, request, facts, handle, is_heard=True)
                    handle(request)

                asyncio.get_running_loop().call_later(fault.delay_ms / 1000, late)
            case FaultKind.TWICE:
                self._watch(connection, request, facts, handle, is_heard=True, is_again=facts.code in PULLS)
                handle(request)
                if facts.code not in PULLS:
                    handle(msgspec.structs.replace(request, flag=request.flag | _ONEWAY))
            case FaultKind.CUT:
                connection.abort("cut by a fault of the test")
            case FaultKind.CRASH:
                self._crash()

    def _deliver_again(self, message: ReceivedMessage, group: str, handle: Handle) -> None:
        """By way of the group's retry topic, with the attempt that it has."""
        kept = {name: value for name, value in message.properties.items() if name not in _LEFT_OUT}
        kept[names.RETRY_TOPIC] = message.topic
        kept[names.ORIGIN_MESSAGE_ID] = message.origin_message_id
        header = SendHeader(
            producer_group=group,
            topic=retry_topic(group),
            default_topic="TBW102",
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=message.sys_flag & _KEPT_FLAGS,
            born_timestamp=message.born_ms,
            flag=message.flag,
            properties=encode_properties(kept).decode(),
            reconsume_times=message.delivery_attempt,
        )
        frame = encode_request(RequestCode.SEND_MESSAGE, 0, header, body=message.packed_body, oneway=True)
        handle(decode_received(FrameDecoder().feed(frame)[0]))

    # --- what it tells ---

    def _watch(
        self,
        connection: WatchedConnection,
        request: Received[Any],
        facts: RequestFacts,
        handle: Handle,
        *,
        is_heard: bool,
        is_again: bool = False,
    ) -> None:
        """``is_heard``: its sender gets the response; ``is_again``: what it brings is to come again."""
        if facts.code in SENDS:
            connection.call_with_response(request, lambda response: self._sent(facts, response, is_heard))
        elif facts.code in PULLS:
            if is_heard:
                connection.call_with_response(
                    request, lambda response: self._pulled(facts, response, handle, is_again=is_again)
                )
        elif facts.code == RequestCode.CONSUMER_SEND_MSG_BACK:
            connection.call_with_response(request, lambda response: self._sent_back(facts, request, response))
        elif facts.code == RequestCode.UPDATE_CONSUMER_OFFSET:
            self._committed(facts, request.header)

    def _sent(self, facts: RequestFacts, response: Received[Any], is_heard: bool) -> bool:
        if response.code in STORED_CODES:
            ids = response.header_as(SendResponseHeader).msg_id.split(",")
            for message in [self._message_at(decode_offset_id(each)[1]) for each in ids]:
                if group := retry_group(facts.topic):  # a member that could not send it back the usual way
                    self._journal.add(JournalEventKind.SENT_BACK, group=group, message=message)
                else:
                    kind = JournalEventKind.ACKNOWLEDGED if is_heard else JournalEventKind.STORED
                    self._journal.add(kind, topic=facts.topic, message=message)
        return True

    def _pulled(self, facts: RequestFacts, response: Received[Any], handle: Handle, *, is_again: bool) -> bool:
        if response.code == ResponseCode.SUCCESS and response.body:
            for message in split_messages(response.body, self._broker):
                topic = message.topic if facts.topic.startswith(RETRY_PREFIX) else facts.topic
                self._journal.add(JournalEventKind.DELIVERED, group=facts.group, topic=topic, message=message)
                if not message.is_retry and (is_again or self._faults.is_redelivered(facts)):
                    is_again = False
                    self._journal.add(JournalEventKind.FAULT, group=facts.group, topic=topic, text="delivered twice")
                    asyncio.get_running_loop().call_soon(self._deliver_again, message, facts.group, handle)
        return True

    def _sent_back(self, facts: RequestFacts, request: Received[Any], response: Received[Any]) -> bool:
        if response.code == ResponseCode.SUCCESS:
            message = self._message_at(request.header.position)
            topic = message.topic if message is not None else facts.topic
            self._journal.add(JournalEventKind.SENT_BACK, group=facts.group, topic=topic, message=message)
        return True

    def _committed(self, facts: RequestFacts, header: UpdateConsumerOffsetHeader) -> None:
        queue = (facts.group, facts.topic, header.queue_id)
        if self._offsets.get(queue) != header.commit_offset:  # members repeat what they said
            self._offsets[queue] = header.commit_offset
            text = f"{header.topic}/{header.queue_id} up to {header.commit_offset}"
            self._journal.add(JournalEventKind.COMMITTED, group=facts.group, topic=facts.topic, text=text)

    def _message_at(self, position: int) -> ReceivedMessage | None:
        try:
            return split_messages(self._record_at(position), self._broker)[0]
        except MQError:  # deleted meanwhile
            return None


class NameServerTraffic:
    """The watcher of a name server's server."""

    def __init__(self) -> None:
        self.away = False
        self.keeps_brokers = False  # a broker that crashes does not say goodbye

    def is_away(self) -> bool:
        return self.away

    def on_request(self, connection: WatchedConnection, request: Received[Any], handle: Handle) -> None:
        if self.keeps_brokers and request.code == RequestCode.UNREGISTER_BROKER:
            connection.send(encode_response(0, request.correlation_id, serialize_type=request.serialize_type))
        else:
            handle(request)


def _cut_instead(connection: WatchedConnection, response: Received[Any]) -> bool:
    connection.abort("cut by a fault of the test")
    return False


def _refusal(request: Received[Any], fault: Fault) -> bytes:
    return encode_response(
        fault.code, request.correlation_id, remark=fault.remark, serialize_type=request.serialize_type
    )
