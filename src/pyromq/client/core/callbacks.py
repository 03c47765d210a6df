"""Callbacks: what brokers ask of a client, passed on to the role whose group is meant; ``roles`` has the table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from pyromq.client.core.received_message import ReceivedMessage, split_messages
from pyromq.client.core.roles import ClientRole, ConsumerRole, ProducerRole
from pyromq.client.core.tasks import TaskOwner
from pyromq.clock import Clock
from pyromq.compiled_core import Buffer, core
from pyromq.errors import MQError, RemoteProtocolError
from pyromq.model import property_names as names
from pyromq.net import Connection, FastPath, Handler
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.headers.callback import PushReplyHeader
from pyromq.wire.json import bodies
from pyromq.wire.message_id import Host
from pyromq.wire.properties import decode_properties, encode_properties
from pyromq.wire.received import Received
from pyromq.wire.record import Draft, encode_record

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=ClientRole)
Serve = Callable[[Connection, Received[Any]], bytes | None]

_OK: Final = int(ResponseCode.SUCCESS)
_FAILED: Final = int(ResponseCode.SYSTEM_ERROR)


class Callbacks(Handler):
    """Serves the connections to brokers. ``tasks`` runs what takes its time; more codes may be added with ``serve``."""

    def __init__(
        self, roles: Callable[[], Iterable[ClientRole]], tasks: TaskOwner, clock: Clock, namespace: str
    ) -> None:
        self._roles = roles
        self._tasks = tasks
        self._clock = clock
        self._namespace = namespace
        self._table: dict[int, Serve] = {
            RequestCode.CHECK_TRANSACTION_STATE: self._check_transaction,
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset_offsets,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._offsets,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self._reply_arrived,
        }

    def serve(self, code: RequestCode, serve: Serve) -> None:
        """``serve(connection, request)`` returns the body of the response, or None for one without; it may raise."""
        self._table[code] = serve

    def fast_path(self, connection: Connection) -> FastPath | None:
        """Responses to sends are read by the compiled core, where it is there: many in one call, without objects of
        their headers. What it leaves, and what waits for a whole response, goes the ordinary way."""
        return None if core is None else _take_sent

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        for request in requests:
            if request.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
                self._tasks.start(self._consume_directly(connection, request), name="consume-directly")
            elif serve := self._table.get(request.code):
                self._respond(connection, request, serve)
            else:
                super().on_requests(connection, [request])

    def _respond(self, connection: Connection, request: Received[Any], serve: Serve) -> None:
        try:
            body = serve(connection, request)
        except Exception as error:  # a role's mistake must not cost all roles the connection
            self._fail(connection, request, error)
        else:
            _reply(connection, request, _OK, body or b"", None)

    async def _consume_directly(self, connection: Connection, request: Received[Any]) -> None:
        try:
            role = self._role(ConsumerRole, request.header.consumer_group)
            message = self._message(request, request.header.broker_name or "")
            body = await role.consume_directly(request.header, message)
        except Exception as error:  # a role's mistake must not leave the broker without response
            self._fail(connection, request, error)
        else:
            _reply(connection, request, _OK, body, None)

    def _fail(self, connection: Connection, request: Received[Any], error: Exception) -> None:
        facts = (request.code, connection.remote_text, error)
        logger.warning(
            "request of a broker failed: code=%d peer=%s error=%r",
            *facts,
            exc_info=None if isinstance(error, MQError) else error,
        )
        _reply(connection, request, _FAILED, b"", f"{type(error).__name__}: {error}")

    # --- consumers ---

    def _members_changed(self, connection: Connection, request: Received[Any]) -> None:
        self._role(ConsumerRole, request.header.consumer_group).members_changed()

    def _reset_offsets(self, connection: Connection, request: Received[Any]) -> None:
        offsets = bodies.decode(request.body, bodies.ResetOffsets).offset_table if request.body else {}
        self._role(ConsumerRole, request.header.group).reset_offsets(request.header, offsets)

    def _offsets(self, connection: Connection, request: Received[Any]) -> bytes:
        offsets = self._role(ConsumerRole, request.header.group).offsets(request.header.topic)
        return bodies.encode(bodies.ClientOffsets(message_queue_table=dict(offsets)))

    def _running_info(self, connection: Connection, request: Received[Any]) -> bytes:
        return self._role(ConsumerRole, request.header.consumer_group).running_info(request.header)

    # --- producers ---

    def _check_transaction(self, connection: Connection, request: Received[Any]) -> None:
        message = self._message(request, request.header.broker_name or "")
        group = message.get(names.PRODUCER_GROUP) or ""
        producers = [role for role in self._roles() if isinstance(role, ProducerRole) and role.group == group]
        if not any(producer.check_transaction(message, request.header, connection) for producer in producers):
            raise RemoteProtocolError(f"this client has no producer that answers for transactions of group {group!r}")

    def _reply_arrived(self, connection: Connection, request: Received[Any]) -> None:
        message = reply_message(request.header, request.body, self._clock.now_ms(), namespace=self._namespace)
        producers = [role for role in self._roles() if isinstance(role, ProducerRole)]
        if not any(producer.reply_arrived(message) for producer in producers):
            logger.info("reply that no request waits for: id=%s", message.get(names.CORRELATION_ID))

    # --- helpers ---

    def _role(self, kind: type[R], group: str) -> R:
        for role in self._roles():
            if isinstance(role, kind) and role.group == group:
                return role
        raise RemoteProtocolError(f"this client has no consumer in group {group!r}")

    def _message(self, request: Received[Any], broker: str) -> ReceivedMessage:
        messages = split_messages(request.body, broker, namespace=self._namespace)
        if len(messages) != 1:
            raise RemoteProtocolError(f"request {request.code} must carry one message, not {len(messages)}")
        return messages[0]


def reply_message(header: PushReplyHeader, body: bytes, now_ms: int, *, namespace: str = "") -> ReceivedMessage:
    """A pushed reply in the form of every other message. It was not read from a log, so it has no position."""
    properties = decode_properties((header.properties or "").encode())
    properties[names.ARRIVE_TIME] = str(now_ms)
    draft = Draft(
        topic=header.topic,
        queue_id=header.queue_id,
        body=body,
        properties=encode_properties(properties),
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_ms=header.born_timestamp,
        born_host=Host.parse(header.born_host.removeprefix("/")).encode(),
        delivery_attempt=header.reconsume_times or 0,
    )
    store_host = Host.parse(header.store_host.removeprefix("/")).encode()
    record = encode_record(
        draft, offset=0, position=0, stored_ms=header.store_timestamp, store_host=store_host, checksum=False
    )
    return split_messages(record, "", namespace=namespace)[0]


def _reply(connection: Connection, request: Received[Any], code: int, body: bytes, remark: str | None) -> None:
    if not request.is_oneway:
        response = encode_response(
            code, request.correlation_id, body=body, remark=remark, serialize_type=request.serialize_type
        )
        connection.send(response)


def _take_sent(connection: Connection, data: Buffer) -> int:
    assert core is not None
    taken, found = core.sent_responses(data, connection.settings.frame_bytes_max)
    if found:
        connection.answered(found, data)
    return taken
