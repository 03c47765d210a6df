"""Requests 3001 to 3010, users and policies of this broker; 31030, all of them for a replica; 31031, a challenge."""

from __future__ import annotations

import logging
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.net.connection import Connection
from pyromq.replication.proofs import Challenges
from pyromq.security import handover
from pyromq.security.requests import LOOKING_CODES, AccessRequests
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.auth import AccessTablesHeader
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

OFF = (
    "access control is off here: set access.enabled and access.initial_user (RocketMQ: authenticationEnabled, "
    "authorizationEnabled, initAuthenticationUser) and start again"
)
_MASTERS: Final = "this broker is a replica, and has the users of its master: change them there"


class AccessHandler:
    """Requests 3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008, 3009, 3010, 31030 and 31031.

    ``access`` None: access control is off, and nobody may prepare users for the day when it is on.
    """

    def __init__(self, access: GuardedAccess | None, settings: BrokerSettings) -> None:
        self._access = access
        self._settings = settings
        self._requests = AccessRequests(access.guard.book) if access else None
        self.challenges: Challenges | None = None  # of a master: what replicas have to meet
        self._given: set[str] = set()  # addresses of replicas that got users; each is logged once
        self.owners: Callable[[], bytes] = lambda: b""  # the table of owners as its file has it
        self.belong_to_master: Callable[[], bool] = lambda: (
            False
        )  # this broker is a replica, and has its master's users

    def answer(self, connection: Connection, request: Received[Any]) -> bytes:
        if self._access is None or self._requests is None:
            raise RefusedError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, OFF)
        if request.code not in LOOKING_CODES and self.belong_to_master():
            raise RefusedError(ResponseCode.SYSTEM_ERROR, _MASTERS)
        return self._requests.answer(request, self._access.principal_of(connection, request))

    def challenge(self, connection: Connection, request: Received[None]) -> bytes:
        """What a replica has to meet at the port for replicas, with the password of the user that asks for it."""
        if self._access is None or self.challenges is None:
            raise RefusedError(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                "this broker wants no proof of replicas: it has no access control, or is no master",
            )
        principal = self._access.principal_of(connection, request)
        user = self._access.guard.book.rules.users.get(principal.name)
        if user is None:
            raise RefusedError(ResponseCode.NO_PERMISSION, "a challenge is met with a password, and no user has signed")
        return self.challenges.issue(user.password.reveal())

    def hand_over(self, connection: Connection, request: Received[AccessTablesHeader]) -> bytes:
        """Everything there is, passwords too, for a replica that has proved that it is one."""
        inner, replication = self._settings.access.inner, self._settings.replication
        if self._access is None or inner is None or not replication.role.has_port:
            raise RefusedError(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                "this broker gives no users to replicas: it has none, or no access.inner_credentials, or is no master",
            )
        handover.check_replica(request.header, self._access.principal_of(connection, request), inner)
        host = connection.remote.host
        if not (connection.is_encrypted or ip_address(host).is_loopback or replication.insecure_network):
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "users travel to a replica on another machine over TLS alone: give the replica nameserver_tls, or set "
                "replication.insecure_network at the master if the network between the brokers is theirs",
            )
        texts = handover.Texts(self._access.guard.book.text(), self.owners())
        answer = handover.hand_over(request.header, texts, inner)
        if answer.users is not None and host not in self._given:
            self._given.add(host)
            logger.info("users given to a replica: address=%s", host)
        return msgspec.json.encode(answer)
