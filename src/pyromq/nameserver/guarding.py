"""Access control of a name server: who may register a broker, ask for routes, change settings.

A route leads clients to a broker, so whoever registers one could make them send to itself. Registering needs Update on
the cluster and on the topic that bears the broker's name, and a user that is not a super user registers only addresses
of the machine that it speaks from. Super users (``inner_credentials`` of a broker is one) may register any.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from pyromq.errors import ConfigError, MQError
from pyromq.nameserver.auditing import NameServerAuditing
from pyromq.nameserver.service import LaterFrame, NameServerService, encode, refusal
from pyromq.nameserver.state import Response
from pyromq.net import Address, Connection
from pyromq.security.addresses import parsed_ip
from pyromq.security.audited import AUDITED_BY_NAMESERVERS
from pyromq.security.errors import AccessDeniedError
from pyromq.security.guard import Guard
from pyromq.security.identity import Peer, Principal
from pyromq.security.requests import ACCESS_CODES, AccessRequests
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.header_errors import HeaderFieldError
from pyromq.wire.headers.nameserver import RegisterBrokerHeader
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

_ACCESS_CODES: Final = frozenset(ACCESS_CODES)
_REGISTER: Final = int(RequestCode.REGISTER_BROKER)


class GuardedService:
    """The service behind its guard."""

    def __init__(self, service: NameServerService, guard: Guard, auditing: NameServerAuditing | None = None) -> None:
        self._service = service
        self._guard = guard
        self._auditing = auditing
        self._requests = AccessRequests(guard.book)

    def handle(self, request: Received[Any], connection: Connection) -> bytes | LaterFrame | None:
        """Verify the request, then hand it to the service."""
        try:
            peer = Peer(connection.remote.host, connection.peer_name)
            principal = self._guard.admit(request, peer)
            if request.code in _ACCESS_CODES:
                response = self._change_users(request, principal, connection)
                return None if request.is_oneway else encode(request, response)
            if request.code == _REGISTER:
                self._check_address(request.header, principal, peer)
        except MQError as error:
            return None if request.is_oneway else encode(request, refusal(error))
        except Exception:  # a defect of ours, or of a plug-in, lets nobody in
            logger.exception("request not verified: code=%d", request.code)
            failure = Response(code=ResponseCode.SYSTEM_ERROR, remark="internal error of the name server")
            return None if request.is_oneway else encode(request, failure)
        return self._service.handle(request, connection)

    def _change_users(self, request: Received[Any], principal: Principal, connection: Connection) -> Response:
        """Or look at them."""

        def answer() -> Response:
            return Response(body=self._requests.answer(request, principal))

        if self._auditing is None or request.code not in AUDITED_BY_NAMESERVERS:
            return answer()
        return self._auditing.watch(request, connection, answer)

    def refuse_header(self, error: HeaderFieldError, connection: Connection) -> bytes | None:
        """Strangers are not shown what a request should look like."""
        request = error.received
        if request is not None:
            try:
                self._guard.verify(request, Peer(connection.remote.host, connection.peer_name))
            except MQError as denied:
                return None if request.is_oneway else encode(request, refusal(denied))
        return self._service.refuse_header(error)

    def _check_address(self, header: RegisterBrokerHeader, principal: Principal, peer: Peer) -> None:
        if self._guard.book.rules.is_super(principal):
            return
        for address in filter(None, (header.broker_addr, header.ha_server_addr)):
            try:
                host = Address.parse(address).host
            except ConfigError:
                host = address
            if parsed_ip(host) is None or parsed_ip(host) != parsed_ip(peer.ip):
                text = f"User:{principal.name} registers address {address[:80]!r} from {peer.ip}: only addresses of"
                raise AccessDeniedError(f"{text} its own machine, unless it is a super user")
