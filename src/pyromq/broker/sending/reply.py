"""Replies of the request-reply pattern: pushed to the client that waits for them, then stored.

responder ──324/325──▶ broker ──326──▶ requester          a producer whose client id is in REPLY_TO_CLIENT
                         │ ◀─────────── code 0
                         └─▶ <cluster>_REPLY_TOPIC        for a look at replies later

A reply goes to the connection that has the client id, whoever else claims it. Its CORRELATION_ID is the token that came
with the request: who may not read that does not know it, and a requester drops what it does not wait for. Under access
control a responder needs Pub on the reply topic, whatever else it may send to.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from pyromq.broker.base.access import OPEN
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.identity import Identity
from pyromq.broker.base.refusals import RefusedError, inner_batch, queue_out_of_range
from pyromq.broker.base.session import Session
from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.state.members import ConnectedMember
from pyromq.broker.state.tables import Tables
from pyromq.errors import MQError, quoted
from pyromq.model import property_names as names
from pyromq.model.system_names import reply_topic
from pyromq.net.connection import Connection
from pyromq.store.message_store import Placed
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.flags import SysFlag
from pyromq.wire.headers.callback import PushReplyHeader
from pyromq.wire.headers.producer import SendHeader, SendResponseHeader
from pyromq.wire.message_id import encode_offset_id
from pyromq.wire.properties import decode_properties, encode_properties
from pyromq.wire.property_text import closed, join_items
from pyromq.wire.received import Received
from pyromq.wire.record import Draft

logger = logging.getLogger(__name__)

PUSH_TIMEOUT_MS = 10_000
_NOT_STORED = "0"  # RocketMQ's message id of a reply that was pushed only


class ReplyHandler:
    """Requests 324 and 325. The response says whether the requester got it, not whether it was stored."""

    def __init__(self, environment: Environment, identity: Identity, tables: Tables, write_path: WritePath) -> None:
        self._store = write_path.store
        self._topics = tables.topics
        self._members = tables.members
        self._gate = write_path.gate
        self._group_commit = write_path.group_commit
        self._settings = environment.settings
        self._clock = environment.clock
        self._store_host = identity.host
        self._access = environment.access
        self._reply_topic = reply_topic(environment.settings.cluster)
        self._pushing: dict[asyncio.Future[Received[Any]], tuple[Connection, Received[SendHeader]]] = {}

    def reply(self, connection: Connection, request: Received[SendHeader]) -> None:
        header = request.header
        if self._access is not OPEN and header.topic != self._reply_topic:
            text = f"a reply is sent to topic {self._reply_topic}, whose Pub right lets a user reply"
            raise self._access.denied(connection, request, f"{text}; this one names {quoted(header.topic)}")
        config = self._topics.for_send(
            header.topic, header.default_topic, header.default_topic_queue_nums, unit=bool(header.unit_mode)
        )
        if header.queue_id >= max(1, config.write_queue_nums):
            raise queue_out_of_range(header.queue_id, header.topic, config.write_queue_nums)
        if header.sys_flag & SysFlag.INNER_BATCH:
            raise inner_batch()
        properties = decode_properties((header.properties or "").encode())
        try:
            future = self._push(connection, request, properties)
        except MQError as error:
            self._conclude(connection, request, str(error))
            return
        self._pushing[future] = connection, request
        future.add_done_callback(self._pushed)

    def finish(self) -> None:
        """Answer what waits for requesters, without storing it: their connections end after the last commit."""
        pushing, self._pushing = self._pushing, {}
        for connection, request in pushing.values():
            if not request.is_oneway:
                connection.send(self._respond(request, None, "the broker stops, or changes its role"))

    def _push(
        self, connection: Connection, request: Received[SendHeader], properties: dict[str, str]
    ) -> asyncio.Future[Received[Any]]:
        header = request.header
        client_id = properties.get(names.REPLY_TO_CLIENT)
        if not client_id:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "the reply has no property REPLY_TO_CLIENT")
        requester = self._members.producer_by_client(client_id)
        if requester is None:
            text = f"client {client_id}, which waits for this reply, is not connected to this broker"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
        if not properties.get(names.CORRELATION_ID):  # what a requester knows its own replies by
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "the reply has no property CORRELATION_ID")
        now_ms = self._clock.now_ms()
        pushed = PushReplyHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=max(0, header.queue_id),
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=encode_properties(properties | {names.PUSH_REPLY_TIME: str(now_ms)}).decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=bool(header.unit_mode),
            born_host=connection.remote_text,
            store_host=str(self._store_host),
            store_timestamp=now_ms,
        )
        code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        future = requester.connection.request_nowait(code, pushed, request.body, timeout_ms=PUSH_TIMEOUT_MS)
        future.add_done_callback(partial(self._noted, requester))
        return future

    def _noted(self, requester: ConnectedMember[Connection], future: asyncio.Future[Received[Any]]) -> None:
        """A connection that is dead without knowing it must not keep the next one of its client from its replies."""
        if not future.cancelled() and future.exception() is not None:
            self._members.not_answered(requester)

    def _pushed(self, future: asyncio.Future[Received[Any]]) -> None:
        pushed = self._pushing.pop(future, None)
        if pushed is None or future.cancelled():
            return
        connection, request = pushed
        if (error := future.exception()) is not None:
            self._conclude(connection, request, str(error))
        elif (response := future.result()).code != ResponseCode.SUCCESS:
            self._conclude(connection, request, f"the client refused it: code {response.code} {response.remark or ''}")
        else:
            self._conclude(connection, request, None)

    def _conclude(self, connection: Connection, request: Received[SendHeader], problem: str | None) -> None:
        """Store it if that is wanted and possible, and answer."""
        placed = self._stored(connection, request) if self._settings.store_replies else None
        response = b"" if request.is_oneway else self._respond(request, placed, problem)
        if placed is None:
            if response:
                connection.send(response)
            return
        self._group_commit.staged(
            (connection, request, response), (request.header.topic, max(0, request.header.queue_id))
        )
        self._group_commit.commit_early()  # this is not part of a read, whose end would do it

    def _stored(self, connection: Connection, request: Received[SendHeader]) -> Placed | None:
        header, session = request.header, connection.session_as(Session)
        text = closed(header.properties or "") + join_items([(names.CLUSTER, self._settings.cluster)])
        draft = Draft(
            topic=header.topic,
            queue_id=max(0, header.queue_id),
            body=request.body,
            properties=text.encode(),
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_ms=header.born_timestamp,
            born_host=session.born_host,
            delivery_attempt=header.reconsume_times or 0,
        )
        try:
            self._gate.check_stuck()
            return self._store.stage(draft)
        except MQError as error:  # it has been pushed, or cannot be: that is what the responder wants to know
            logger.warning("reply not stored: topic=%s reason=%s", header.topic, error)
            return None

    def _respond(self, request: Received[SendHeader], placed: Placed | None, problem: str | None) -> bytes:
        header = SendResponseHeader(
            msg_id=encode_offset_id(self._store_host, placed.position) if placed else _NOT_STORED,
            queue_id=max(0, request.header.queue_id),
            queue_offset=placed.offset if placed else 0,
            region=self._settings.region,
            trace_on="true",
        )
        code = ResponseCode.SUCCESS if problem is None else ResponseCode.SYSTEM_ERROR
        remark = None if problem is None else f"the reply did not reach its client: {problem}"
        return encode_response(
            code, request.correlation_id, header, remark=remark, serialize_type=request.serialize_type
        )
