"""The name server without sockets: a request in, the bytes of its response out.

Two tables say it all: which function carries out which request, and which response code stands for which error.
Whatever a request holds, ``handle`` returns; a mistake of our own is logged and answered with code 1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Any, Final

from pyromq.clock import Clock
from pyromq.errors import MQError, shortened
from pyromq.model.limits import REMARK_CHARACTERS_MAX
from pyromq.nameserver import admin_requests, broker_requests, lookup_requests
from pyromq.nameserver.auditing import NameServerAuditing
from pyromq.nameserver.errors import KeyNotFoundError, NotServedError, ProtectedSettingError, UnknownTopicError
from pyromq.nameserver.kv_config import KvConfig
from pyromq.nameserver.members import BrokerProcess, LiveMember
from pyromq.nameserver.route_table import RouteTable
from pyromq.nameserver.settings import NameServerSettings
from pyromq.nameserver.state import Answer, AnswerT, Handle, Job, NameServerState, Response
from pyromq.security.audit import AuditLog
from pyromq.security.errors import AccessChangeError, AccessDeniedError
from pyromq.security.guard import Guard
from pyromq.security.requests import ACCESS_CODES
from pyromq.security.rights import NAMESERVER_RIGHTS, check_rights
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.header_errors import HeaderFieldError
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

_HANDLES: Final[dict[int, Handle]] = {
    # brokers
    Code.REGISTER_BROKER: broker_requests.register,
    Code.UNREGISTER_BROKER: broker_requests.unregister,
    Code.QUERY_DATA_VERSION: broker_requests.query_data_version,
    Code.BROKER_HEARTBEAT: broker_requests.heartbeat,
    Code.REGISTER_TOPIC_IN_NAMESRV: broker_requests.register_topic,
    Code.GET_BROKER_MEMBER_GROUP: broker_requests.member_group,
    # clients and tools
    Code.GET_ROUTEINFO_BY_TOPIC: lookup_requests.get_route,
    Code.GET_BROKER_CLUSTER_INFO: lookup_requests.cluster_info,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: lookup_requests.all_topics,
    Code.GET_TOPICS_BY_CLUSTER: lookup_requests.topics_of_cluster,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: lookup_requests.topics_by(RouteTable.list_system_topics),
    Code.GET_UNIT_TOPIC_LIST: lookup_requests.topics_by(RouteTable.list_unit_topics),
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: lookup_requests.topics_by(RouteTable.list_unit_subscribed_topics),
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: lookup_requests.topics_by(RouteTable.list_unit_subscribed_only_topics),
    # administration
    Code.PUT_KV_CONFIG: admin_requests.put_kv,
    Code.GET_KV_CONFIG: admin_requests.get_kv,
    Code.DELETE_KV_CONFIG: admin_requests.delete_kv,
    Code.GET_KVLIST_BY_NAMESPACE: admin_requests.list_kv,
    Code.WIPE_WRITE_PERM_OF_BROKER: admin_requests.wipe_write_perm,
    Code.ADD_WRITE_PERM_OF_BROKER: admin_requests.add_write_perm,
    Code.DELETE_TOPIC_IN_NAMESRV: admin_requests.delete_topic,
    Code.UPDATE_NAMESRV_CONFIG: admin_requests.set_settings,
    Code.GET_NAMESRV_CONFIG: admin_requests.get_settings,
    Code.QUERY_AUDIT_LOG: admin_requests.find_audited,
    **dict.fromkeys(ACCESS_CODES, admin_requests.refuse_access_request),
}

_ERROR_CODES: Final[dict[type[BaseException], ResponseCode]] = {  # the nearest class of the tree counts
    MQError: ResponseCode.SYSTEM_ERROR,
    UnknownTopicError: ResponseCode.TOPIC_NOT_EXIST,
    KeyNotFoundError: ResponseCode.QUERY_NOT_FOUND,
    ProtectedSettingError: ResponseCode.NO_PERMISSION,
    NotServedError: ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    AccessDeniedError: ResponseCode.NO_PERMISSION,
    AccessChangeError: ResponseCode.INVALID_PARAMETER,
}


class NameServerService:
    """Owns the state; every method runs on one thread and returns at once."""

    def __init__(self, settings: NameServerSettings, *, clock: Clock, kv: KvConfig | None = None) -> None:
        check_rights(NAMESERVER_RIGHTS, _HANDLES, "name server")
        self._state = NameServerState(settings, clock=clock, kv=kv or KvConfig(limits=settings.limits))
        self._clock = clock
        self._handles = _HANDLES

    def audit(self, log: AuditLog, guard: Guard | None) -> NameServerAuditing:
        """From now on what changes something is written into the log."""
        self._state.audit_log = log
        auditing = NameServerAuditing(log, self._state, self._clock, guard)
        self._handles = auditing.handles(_HANDLES)
        return auditing

    @property
    def table(self) -> RouteTable:
        return self._state.table

    @property
    def settings(self) -> NameServerSettings:
        """Current settings, which admin tools change while it runs."""
        return self._state.settings

    def handle(self, request: Received[Any], connection: Hashable) -> bytes | LaterFrame | None:
        """The frame of the response, or what makes it on another thread; None for a one-way request."""
        response = self._respond(request, connection)
        if request.is_oneway:
            return None
        return encode(request, response) if isinstance(response, Response) else LaterFrame(request, response)

    def refuse_header(self, error: HeaderFieldError) -> bytes | None:
        """The frame that answers a request without usable ext fields."""
        request = error.received
        if request is None or request.is_oneway:
            return None
        known = request.code in _HANDLES
        return encode(request, refusal(error) if known else _unsupported(request.code))

    def drop_connection(self, connection: Hashable) -> list[BrokerProcess]:
        """Forget the brokers that registered over a connection that is gone."""
        members = self._state.table.drop_connection(connection)
        for member in members:
            logger.warning("broker lost: broker=%r address=%r reason=disconnected", member.broker, member.address)
        return members

    def drop_silent(self) -> list[LiveMember]:
        """Forget brokers that were silent for too long; their connections should be closed."""
        silent = self._state.table.drop_silent()
        for member in (entry.member for entry in silent):
            logger.warning("broker lost: broker=%r address=%r reason=silent", member.broker, member.address)
        return silent

    def _respond(self, request: Received[Any], connection: Hashable) -> Answer:
        handle = self._handles.get(request.code)
        if handle is None:
            return _unsupported(request.code)
        return _answered(request, lambda: handle(self._state, request, connection))


class LaterFrame:
    """A response that another thread makes."""

    def __init__(self, request: Received[Any], job: Job) -> None:
        self._request = request
        self._job = job

    def frame(self) -> bytes:
        """Encode the response on that thread."""
        return encode(self._request, _answered(self._request, self._job))

    def refused(self) -> bytes:
        """In its place, when there are too many."""
        remark = "too many requests that read the audit log at once; try again in a moment"
        return encode(self._request, Response(code=ResponseCode.SYSTEM_BUSY, remark=remark))


def _answered(request: Received[Any], carry_out: Callable[[], AnswerT]) -> AnswerT | Response:
    """What comes of it, or why nothing does."""
    try:
        return carry_out()
    except MQError as error:
        logger.debug("request refused: code=%d reason=%s", request.code, error)
        return refusal(error)
    except Exception:  # a bug of ours must not take the server down, nor leave the peer without a response
        logger.exception("request failed: code=%d", request.code)
        return Response(code=ResponseCode.SYSTEM_ERROR, remark="internal error of the name server")


def _unsupported(code: int) -> Response:
    return Response(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {code} not supported")


def refusal(error: MQError) -> Response:
    """What an error is answered with."""
    code = next(_ERROR_CODES[each] for each in type(error).__mro__ if each in _ERROR_CODES)
    return Response(code=code, remark=shortened(str(error), REMARK_CHARACTERS_MAX))


def encode(request: Received[Any], response: Response) -> bytes:
    """The frame of a response."""
    try:
        return _frame(request, response)
    except MQError as error:  # a list too long for a frame, a key that a header cannot hold
        return _frame(request, refusal(error))


def _frame(request: Received[Any], response: Response) -> bytes:
    return encode_response(
        response.code,
        request.correlation_id,
        response.header,
        body=response.body,
        remark=response.remark,
        serialize_type=request.serialize_type,
    )
