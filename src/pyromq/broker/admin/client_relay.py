"""Requests of tools that only a client can answer: passed on to it, and its response passed back as it is."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec

from pyromq.broker.base.access import OPEN, Access
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.responses import pass_back, send_refusal, send_response
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.state.members import ConnectedMember, ConsumerGroup
from pyromq.broker.state.tables import Tables
from pyromq.errors import MQError, StoreError
from pyromq.model.queue import QueueId
from pyromq.net.connection import Connection
from pyromq.security.resources import Action
from pyromq.store.message_store import MessageStore
from pyromq.wire.codes import VERSION_OFFSET_RESET, VERSION_RUNNING_INFO, RequestCode, ResponseCode
from pyromq.wire.headers import Header
from pyromq.wire.headers.admin import GetConsumerStatusHeader
from pyromq.wire.headers.shared import ConsumeDirectlyHeader, ConsumerRunningInfoHeader, TopicGroupHeader
from pyromq.wire.json import bodies
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.received import Received

_TIMEOUT_MS = 10_000
_STATUS_TIMEOUT_MS = 5_000


class ClientRelay:
    """Requests 223, 307 and 309."""

    def __init__(self, store: MessageStore, tables: Tables, settings: BrokerSettings, access: Access = OPEN) -> None:
        self._store = store
        self._access = access
        self._topics = tables.topics
        self._groups = tables.groups
        self._members = tables.members
        self._settings = settings

    # --- one client ---

    def running_info(self, connection: Connection, request: Received[ConsumerRunningInfoHeader]) -> None:
        """307: what is the client doing?"""
        target = self._client(request.header.consumer_group, request.header.client_id)
        self._pass_on(connection, request, target, request.header, b"")

    def consume_directly(self, connection: Connection, request: Received[ConsumeDirectlyHeader]) -> None:
        """309: let the client consume one stored message now; its progress does not move."""
        header = request.header
        target = self._client(header.consumer_group, header.client_id)
        body = self._message(header.msg_id)
        if self._access is not OPEN:
            _, position = decode_offset_id(header.msg_id or "")
            topic_name = self._store.reader.record_at(position).topic.decode()
            self._access.require(connection, request, topic_name, Action.SUB)
        topic, group = self._topics.get(header.topic or ""), self._groups.table.get(header.consumer_group)
        passed_on = msgspec.structs.replace(
            header,
            broker_name=self._settings.name,
            topic_sys_flag=topic.topic_sys_flag if topic else None,
            group_sys_flag=group.group_sys_flag if group else None,
        )
        self._pass_on(connection, request, target, passed_on, body)

    def _message(self, message_id: str | None) -> bytes:
        if not message_id:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "msgId is missing: the id that the broker gave the message")
        _, position = decode_offset_id(message_id)
        try:
            return bytes(self._store.reader.bytes_of(position))
        except StoreError as error:
            text = f"message {message_id} is not in this store: {error}"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text) from error

    def _client(self, group: str, client_id: str | None) -> ConnectedMember[Connection]:
        member = self._members.consumer_by_client(group, client_id or "")
        if member is None:
            raise _not_connected(group, client_id)
        _refuse_if_too_old(member, VERSION_RUNNING_INFO)
        return member

    def _pass_on(
        self,
        connection: Connection,
        request: Received[Any],
        target: ConnectedMember[Connection],
        header: Header,
        body: bytes,
    ) -> None:
        future = target.connection.request_nowait(request.code, header, body, timeout_ms=_TIMEOUT_MS)
        future.add_done_callback(partial(_passed_on, connection, request))

    # --- all clients of a group ---

    def status(self, connection: Connection, request: Received[GetConsumerStatusHeader]) -> None:
        """223: where are the clients of a group, all of them or one?"""
        header = request.header
        asked = TopicGroupHeader(topic=header.topic, group=header.group)
        code, futures = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {}
        for member in self._asked_clients(header.group, header.client_addr):
            futures[member.client_id] = member.connection.request_nowait(code, asked, timeout_ms=_STATUS_TIMEOUT_MS)
        together = asyncio.gather(*futures.values(), return_exceptions=True)
        together.add_done_callback(partial(_collected, connection, request, list(futures)))

    def _asked_clients(self, group: str, client_id: str | None) -> list[ConnectedMember[Connection]]:
        live: ConsumerGroup[Connection] | None = self._members.consumer_group(group)
        found = [
            member
            for member in (live.members.values() if live else ())
            if member.connection.is_open and (not client_id or member.client_id == client_id)
            if self._members.consumer_by_client(group, member.client_id)
            is member  # who only claims the id is not asked
        ]
        if not found:
            raise _not_connected(group, client_id or "(any)")
        for member in found:
            _refuse_if_too_old(member, VERSION_OFFSET_RESET)
        return found


def _not_connected(group: str, client_id: str | None) -> RefusedError:
    text = f"client {client_id} of group {group} is not connected to this broker"
    return RefusedError(ResponseCode.SYSTEM_ERROR, text)


def _refuse_if_too_old(member: ConnectedMember[Connection], version: int) -> None:
    if member.version < version:
        text = f"client {member.client_id} has version {member.version}, this request needs {version}"
        raise RefusedError(ResponseCode.SYSTEM_ERROR, text)


def _passed_on(connection: Connection, request: Received[Any], future: asyncio.Future[Received[Any]]) -> None:
    if future.cancelled():
        return
    if (error := future.exception()) is not None:
        send_refusal(connection, request, ResponseCode.CONSUME_MSG_TIMEOUT, str(error))
    else:
        pass_back(connection, request, future.result())


def _collected(
    connection: Connection,
    request: Received[Any],
    client_ids: list[str],
    together: asyncio.Future[list[Received[Any] | BaseException]],
) -> None:
    """Answer with what the clients said; those that were silent are left out."""
    if together.cancelled():
        return
    table: dict[str, dict[QueueId, int]] = {}
    problems = []
    for client_id, response in zip(client_ids, together.result(), strict=True):
        if isinstance(response, BaseException):
            problems.append(str(response))
            continue
        try:
            table[client_id] = bodies.decode(response.body, bodies.ClientOffsets).message_queue_table
        except MQError as error:
            problems.append(f"client {client_id}: code {response.code} {response.remark or error}")
    if table:
        send_response(connection, request, bodies.encode(bodies.GroupOffsets(consumer_table=table)))
    else:
        send_refusal(connection, request, ResponseCode.CONSUME_MSG_TIMEOUT, "; ".join(problems))
