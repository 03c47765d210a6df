"""What tools change on a name server: key-value configuration, permissions, topics, settings."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Any

from pyromq.nameserver.errors import KeyNotFoundError, NotServedError
from pyromq.nameserver.settings import describe_settings, update_settings
from pyromq.nameserver.state import Job, NameServerState, Response, small_body
from pyromq.security.audit import answer_of
from pyromq.wire.headers.nameserver import (
    AddWritePermResponseHeader,
    BrokerNameHeader,
    DeleteTopicInNameServerHeader,
    GetKvConfigResponseHeader,
    KvConfigHeader,
    NamespaceHeader,
    PutKvConfigHeader,
    WipeWritePermResponseHeader,
)
from pyromq.wire.json.bodies import KeyValues, encode
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)


def put_kv(state: NameServerState, request: Received[PutKvConfigHeader], connection: Hashable) -> Response:
    """Handle request 100 (PUT_KV_CONFIG)."""
    header = request.header
    before = state.kv.revision
    state.kv.put(header.namespace, header.key, header.value)
    if state.kv.revision != before:
        facts = (header.namespace, header.key, len(header.value), _peer(connection))
        logger.info("configuration set: namespace=%r key=%r characters=%d client=%s", *facts)
    return Response()


def _peer(connection: Hashable) -> object:
    """The address of a client, for a log line."""
    return getattr(connection, "remote_text", connection)


def get_kv(state: NameServerState, request: Received[KvConfigHeader], _: Hashable) -> Response:
    """Handle request 101 (GET_KV_CONFIG)."""
    header = request.header
    value = state.kv.get(header.namespace, header.key)
    if value is None:
        raise KeyNotFoundError(namespace=header.namespace, key=header.key)
    return Response(header=GetKvConfigResponseHeader(value=value))


def delete_kv(state: NameServerState, request: Received[KvConfigHeader], connection: Hashable) -> Response:
    """Handle request 102 (DELETE_KV_CONFIG)."""
    header, before = request.header, state.kv.revision
    state.kv.delete(header.namespace, header.key)
    if state.kv.revision != before:
        facts = (header.namespace, header.key, _peer(connection))
        logger.info("configuration deleted: namespace=%r key=%r client=%s", *facts)
    return Response()


def list_kv(state: NameServerState, request: Received[NamespaceHeader], _: Hashable) -> Response:
    """Handle request 219 (GET_KVLIST_BY_NAMESPACE)."""
    table = state.kv.namespace(request.header.namespace)
    if table is None:
        raise KeyNotFoundError(namespace=request.header.namespace)
    return Response(body=encode(KeyValues(table=dict(table))))


def wipe_write_perm(state: NameServerState, request: Received[BrokerNameHeader], _: Hashable) -> Response:
    """Handle request 205 (WIPE_WRITE_PERM_OF_BROKER)."""
    count = state.table.wipe_write_perm(request.header.broker_name)
    logger.info("write permission wiped: broker=%r topics=%d", request.header.broker_name, count)
    return Response(header=WipeWritePermResponseHeader(wipe_topic_count=count))


def add_write_perm(state: NameServerState, request: Received[BrokerNameHeader], _: Hashable) -> Response:
    """Handle request 327 (ADD_WRITE_PERM_OF_BROKER)."""
    count = state.table.add_write_perm(request.header.broker_name)
    logger.info("write permission added: broker=%r topics=%d", request.header.broker_name, count)
    return Response(header=AddWritePermResponseHeader(add_topic_count=count))


def delete_topic(state: NameServerState, request: Received[DeleteTopicInNameServerHeader], _: Hashable) -> Response:
    """Handle request 216 (DELETE_TOPIC_IN_NAMESRV)."""
    state.table.delete_topic(request.header.topic, request.header.cluster_name or None)
    logger.info("topic deleted: topic=%r cluster=%r", request.header.topic, request.header.cluster_name)
    return Response()


def refuse_access_request(_state: NameServerState, _request: Received[Any], _: Hashable) -> Response:
    """3001 to 3010 where access control is off: nobody may prepare users for the day when it is on."""
    text = "set access.enabled and access.initial_user (RocketMQ: initAuthenticationUser) and start again"
    raise NotServedError(f"access control is off here: {text}")


def get_settings(state: NameServerState, _request: Received[Any], _: Hashable) -> Response:
    """Handle request 319 (GET_NAMESRV_CONFIG)."""
    return Response(body=describe_settings(state.settings))


def set_settings(state: NameServerState, request: Received[Any], _: Hashable) -> Response:
    """Handle request 318 (UPDATE_NAMESRV_CONFIG)."""
    state.settings = update_settings(state.settings, request.body)
    logger.info("settings changed: bytes=%d", len(request.body))
    return Response()


def find_audited(state: NameServerState, request: Received[Any], _: Hashable) -> Job:
    """31001: files of many megabytes are read, so it is a job."""
    if state.audit_log is None:
        raise NotServedError("this name server keeps no audit log: give it a folder (setting kv_path, option --data)")
    answer = answer_of(state.audit_log, small_body(state, request))
    return lambda: Response(body=answer())
