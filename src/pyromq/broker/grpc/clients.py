"""Clients of the gRPC front door: who they are, what they said of themselves, and the caller that stands for each.

A client is known by its id, its user and its address, over any number of connections. It goes when it says so, when it
is silent for two minutes, or soon after its last connection was lost; then what is renewed for it is visible again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.session import Session
from pyromq.broker.dispatching.caller import Caller
from pyromq.broker.grpc.ground import FrontGround
from pyromq.broker.grpc.renewals import Renewals
from pyromq.broker.grpc.statuses import StatusError
from pyromq.errors import quoted
from pyromq.model.limits import CLIENT_ID_CHARACTERS_MAX
from pyromq.net.address import Address
from pyromq.net.http2 import GrpcCall, Http2Connection
from pyromq.security.errors import AccessDeniedError
from pyromq.security.identity import Peer, Principal
from pyromq.security.validators import SignedClaim
from pyromq.wire.grpc.authorization import AuthorizationError, parse_authorization
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import GrpcClientSettings
from pyromq.wire.message_id import Host
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

CLIENTS_MAX: Final = 100_000
SILENT_MS: Final = 120_000
LOST_MS: Final = 10_000  # after its last connection: a client that connects again in the meantime has lost nothing
_CHECKED_MAX: Final = 10_000
_CHECKED_BYTES_MAX: Final = 1_024  # official clients send some 200
_RECEIVERS_KEPT: Final = 64
_LANGUAGES: Final = {"GOLANG": "GO", "DOT_NET": "DOTNET", "C_SHARP": "DOTNET"}


class ClientKey(NamedTuple):
    user: str
    host: str
    client_id: str


class GrpcClient:
    """One client; ``caller`` stands for it among the members and producers of the broker."""

    def __init__(self, key: ClientKey, caller: Caller, namespace: str, version: str) -> None:
        self.key = key
        self.client_id = key.client_id
        self.caller = caller
        self.namespace = namespace
        self.version = version
        self.settings: GrpcClientSettings | None = None
        self.telemetry: GrpcCall | None = None  # the newest stream
        self.renewals = Renewals()
        self.receivers: list[Caller] = []  # callers of receives, at rest
        self.connections: set[Http2Connection] = set()
        self.seen_ms = 0
        self.on_request: Callable[[GrpcClient, Received[Any]], None] = lambda client, request: None

    @property
    def session(self) -> Session:
        return self.caller.session_as(Session)

    def close(self, reason: str) -> None:
        """It is no member of anything any more."""
        for receiver in self.receivers:
            receiver.close(reason)
        self.receivers.clear()
        self.caller.close(reason)


class GrpcClients:
    """All of them."""

    def __init__(self, ground: FrontGround) -> None:
        self._ground = ground
        self._clients: dict[ClientKey, GrpcClient] = {}
        self._by_connection: dict[Http2Connection, set[GrpcClient]] = {}
        self._checked: dict[tuple[object, ...], Principal] = {}  # by what a call said of itself, and the rules
        self.on_request: Callable[[GrpcClient, Received[Any]], None] = lambda client, request: None

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Any:
        return iter(list(self._clients.values()))

    def of(self, call: GrpcCall) -> GrpcClient:
        """Whose call it is. Raises StatusError, AccessDeniedError."""
        client_id = call.field(b"x-mq-client-id")
        if not client_id.strip():
            text = "the call has no x-mq-client-id; clients of RocketMQ 5 send one with every call"
            raise StatusError(StatusCode.CLIENT_ID_REQUIRED, text)
        if len(client_id) > CLIENT_ID_CHARACTERS_MAX:
            text = f"x-mq-client-id has {len(client_id)} characters, at most {CLIENT_ID_CHARACTERS_MAX} are allowed"
            raise StatusError(StatusCode.BAD_REQUEST, text)
        access = self._ground.access
        principal = self._principal(access, call) if isinstance(access, GuardedAccess) else None
        key = ClientKey(principal.name if principal else "", call.peer.host, client_id)
        client = self._clients.get(key)
        if client is None or not client.caller.is_open:
            client = self._new(key, call, principal)
        client.seen_ms = self._ground.clock.monotonic_ms()
        if call.connection not in client.connections:
            client.connections.add(call.connection)
            self._by_connection.setdefault(call.connection, set()).add(client)
        return client

    def _new(self, key: ClientKey, call: GrpcCall, principal: Principal | None) -> GrpcClient:
        if len(self._clients) >= CLIENTS_MAX:
            text = f"{CLIENTS_MAX} clients are connected by gRPC, which is all that this broker serves"
            raise StatusError(StatusCode.TOO_MANY_REQUESTS, text)
        session = _session(call, principal)
        caller = self._caller(call.peer, session, call.field(b"x-mq-language"))
        client = GrpcClient(key, caller, call.field(b"x-mq-namespace"), call.field(b"x-mq-client-version"))
        before = self._clients.get(key)
        if before is not None:  # its caller was closed with the role of the broker: it says who it is, once more
            client.telemetry = before.telemetry
            self.drop(before)
        self._clients[key] = client
        caller_request = self._asked
        caller.on_request = lambda request: caller_request(client, request)
        logger.debug("gRPC client: id=%s peer=%s user=%s", quoted(key.client_id), key.host, key.user)
        return client

    def _asked(self, client: GrpcClient, request: Received[Any]) -> None:
        self.on_request(client, request)

    def _caller(self, peer: Address, session: Session, language: str) -> Caller:
        caller = self._ground.dispatcher.new_caller(peer, session)
        caller.language = _LANGUAGES.get(language, language)
        return caller

    def receiver(self, client: GrpcClient) -> Caller:
        """A caller for one receive: closing it ends a wait, and nobody else's."""
        while client.receivers:
            caller = client.receivers.pop()
            if caller.is_open:
                return caller
        return self._caller(client.caller.remote, client.session, client.caller.language)

    def rest(self, client: GrpcClient, caller: Caller) -> None:
        """A receive is over; its caller serves the next one."""
        if len(client.receivers) < _RECEIVERS_KEPT and client.caller.is_open and not caller.calls:
            client.receivers.append(caller)
        else:
            caller.close("the receive is over")

    # --- who it is ---

    def _principal(self, access: GuardedAccess, call: GrpcCall) -> Principal:
        fields = call.fields
        signed, date_time = fields.get(b"authorization", b""), fields.get(b"x-mq-date-time", b"")
        peer = Peer(call.peer.host, call.connection.peer_name)
        key = (signed, date_time, peer, access.version)
        found = self._checked.get(key)
        if found is None:
            found = access.guard.verify_claim(_claim(signed, date_time, peer), peer)
            if len(signed) + len(date_time) <= _CHECKED_BYTES_MAX:
                if len(self._checked) >= _CHECKED_MAX:
                    self._checked.clear()
                self._checked[key] = found
        return found

    # --- going ---

    def disconnected(self, connection: Http2Connection) -> None:
        for client in self._by_connection.pop(connection, ()):
            client.connections.discard(connection)

    def gone(self) -> list[GrpcClient]:
        """Those that were silent for too long, or have no connection any more."""
        now_ms = self._ground.clock.monotonic_ms()
        return [
            client
            for client in self._clients.values()
            if now_ms - client.seen_ms > (SILENT_MS if client.connections else LOST_MS)
        ]

    def drop(self, client: GrpcClient) -> None:
        """The next call of the same client makes another one."""
        if self._clients.get(client.key) is client:
            del self._clients[client.key]
        for connection in client.connections:  # which may live much longer
            self._by_connection.get(connection, set()).discard(client)
        client.connections.clear()

    def remove(self, client: GrpcClient, reason: str) -> None:
        self.drop(client)
        client.close(reason)


def _session(call: GrpcCall, principal: Principal | None) -> Session:
    host = Host(ip_address(call.peer.host.partition("%")[0]).packed, call.peer.port).encode()
    return Session(host, Peer(call.peer.host, call.connection.peer_name), principal)


def _claim(signed: bytes, date_time: bytes, peer: Peer) -> SignedClaim:
    """Read the signed claim of a call. Raises AccessDeniedError."""
    if not signed:
        return SignedClaim("", "", b"", b"", peer.ip)
    if not date_time:
        raise AccessDeniedError("the call has no x-mq-date-time, which its signature is made over.")
    try:
        user, signature = parse_authorization(signed.decode("utf-8", "replace"))
    except AuthorizationError as error:
        raise AccessDeniedError(f"{error}.") from error
    return SignedClaim(user, signature, date_time, b"", peer.ip)
