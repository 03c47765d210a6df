"""Requests 3001 to 3010: users and policies of this broker."""

from __future__ import annotations

from typing import Any

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.refusals import RefusedError
from pyromq.net.connection import Connection
from pyromq.security.requests import AccessRequests
from pyromq.wire.codes import ResponseCode
from pyromq.wire.received import Received

OFF = (
    "access control is off here: set access.enabled and access.initial_user (RocketMQ: authenticationEnabled, "
    "authorizationEnabled, initAuthenticationUser) and start again"
)


class AccessHandler:
    """Requests 3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008, 3009 and 3010.

    ``access`` None: access control is off, and nobody may prepare users for the day when it is on.
    """

    def __init__(self, access: GuardedAccess | None) -> None:
        self._access = access
        self._requests = AccessRequests(access.guard.book) if access else None

    def answer(self, connection: Connection, request: Received[Any]) -> bytes:
        if self._access is None or self._requests is None:
            raise RefusedError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, OFF)
        return self._requests.answer(request, self._access.principal_of(connection, request))
