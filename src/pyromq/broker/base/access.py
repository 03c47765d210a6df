"""Access control in a broker: before a request is handled, and again where its object is found.

Without access control there is ``OPEN``, which asks nothing; handlers do not see a difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.session import Session
from pyromq.net.connection import Connection
from pyromq.security.errors import AccessDeniedError
from pyromq.security.guard import Guard
from pyromq.security.identity import Principal
from pyromq.security.policies import User
from pyromq.security.resources import Action
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.received import Received

_NO_USERS_YET: Final = "this broker does not have the users of its master yet; ask for the route again"
_HEARTBEAT: Final = int(RequestCode.HEART_BEAT)


class Access(Protocol):
    """What handlers ask. ``version`` changes with every change of users and policies."""

    @property
    def version(self) -> int: ...

    def recheck(self, connection: Connection, request: Received[Any]) -> None:
        """A request that was admitted earlier, and waits. Raises AccessDeniedError."""

    def require(self, connection: Connection, request: Received[Any], topic: str, *actions: Action) -> None:
        """What the request found by an id belongs to this topic. Raises AccessDeniedError."""

    def may(self, connection: Connection, topic: str, *actions: Action) -> bool:
        """Whether the client that sends heartbeats over a connection may have a message of that topic."""

    def user_of(self, connection: Connection, request: Received[Any]) -> str | None:
        """Who sent the request; None: nobody is verified. Raises AccessDeniedError."""

    def denied(self, connection: Connection, request: Received[Any], reason: str) -> AccessDeniedError:
        """What to raise when a handler finds out that its sender may not; logged and audited as other refusals."""


class OpenAccess:
    """Access control that is off: everybody may do everything."""

    version = 0

    def recheck(self, connection: Connection, request: Received[Any]) -> None:
        return

    def require(self, connection: Connection, request: Received[Any], topic: str, *actions: Action) -> None:
        return

    def may(self, connection: Connection, topic: str, *actions: Action) -> bool:
        return True

    def user_of(self, connection: Connection, request: Received[Any]) -> str | None:
        return None

    def denied(self, connection: Connection, request: Received[Any], reason: str) -> AccessDeniedError:
        return AccessDeniedError(reason)


OPEN: Final = OpenAccess()


class GuardedAccess:
    """Who sent the request under way is remembered until the next; any other request is verified again."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.has_users: Callable[[], bool] = lambda: True  # not before a member with a new disk has its master's
        self._request: Received[Any] | None = None
        self._principal: Principal | None = None
        self._clients: WeakKeyDictionary[Connection, Principal] = WeakKeyDictionary()  # by their last heartbeats

    @property
    def version(self) -> int:
        return self.guard.book.rules.version

    def admit(self, connection: Connection, request: Received[Any]) -> None:
        """Verify a request and check its rights. Raises AccessDeniedError, RefusedError without users."""
        session: Session = connection.session  # type: ignore[assignment]  # the broker sets no other
        self._request = None
        try:
            self._principal = self.guard.admit(request, session.peer, session.principal)
        except AccessDeniedError:
            if self.has_users():
                raise
            raise RefusedError(ResponseCode.SERVICE_NOT_AVAILABLE, _NO_USERS_YET) from None
        self._request = request
        if request.code == _HEARTBEAT:
            self._clients[connection] = self._principal

    def principal_of(self, connection: Connection, request: Received[Any]) -> Principal:
        """Return who a request comes from. Raises AccessDeniedError."""
        if request is self._request and self._principal is not None:
            return self._principal
        session = connection.session_as(Session)
        return session.principal or self.guard.verify(request, session.peer)

    @property
    def rules(self) -> object:
        """Users and policies as they are: another object after every change."""
        return self.guard.book.rules

    def signer_of(self, connection: Connection, request: Received[Any]) -> User | None:
        """Who signed a request that was admitted, if that alone proves it. Raises AccessDeniedError."""
        return self.guard.signer(self.principal_of(connection, request))

    def recheck(self, connection: Connection, request: Received[Any]) -> None:
        session = connection.session_as(Session)
        self.guard.admit(request, session.peer, session.principal)

    def require(self, connection: Connection, request: Received[Any], topic: str, *actions: Action) -> None:
        peer = connection.session_as(Session).peer
        self.guard.check_topic(request, peer, self.principal_of(connection, request), topic, actions)

    def may(self, connection: Connection, topic: str, *actions: Action) -> bool:
        principal = self._clients.get(connection)
        return principal is not None and self.guard.may(
            principal, topic, actions, connection.session_as(Session).peer.ip
        )

    def user_of(self, connection: Connection, request: Received[Any]) -> str | None:
        return self.principal_of(connection, request).name

    def denied(self, connection: Connection, request: Received[Any], reason: str) -> AccessDeniedError:
        user = self.principal_of(connection, request).name
        return self.guard.refuse(request, connection.session_as(Session).peer, reason, user)


__all__ = ["OPEN", "Access", "AccessDeniedError", "GuardedAccess"]
