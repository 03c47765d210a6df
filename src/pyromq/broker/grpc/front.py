"""The gRPC front door of a broker: the table of RPCs, the port, and what is done every few seconds."""

from __future__ import annotations

import asyncio
import errno
import logging
from pathlib import Path
from typing import Any, Final

from pyromq.broker.base.identity import advertised_host
from pyromq.broker.grpc.call_lane import GrpcCallLane
from pyromq.broker.grpc.certificate import grpc_tls
from pyromq.broker.grpc.clients import GrpcClients
from pyromq.broker.grpc.ground import FrontGround
from pyromq.broker.grpc.positions import Positions, failed_offset, failed_pull
from pyromq.broker.grpc.receiving import Receiving
from pyromq.broker.grpc.routing import Routing
from pyromq.broker.grpc.rpc import Answer, Failure, Rpc, plain_failure
from pyromq.broker.grpc.sending import Sending
from pyromq.broker.grpc.settling import Settling
from pyromq.broker.grpc.statuses import StatusError
from pyromq.broker.grpc.telemetry import Telemetry
from pyromq.compiled_core import core
from pyromq.errors import ConfigError
from pyromq.net.address import Address
from pyromq.net.http2 import CallLane, CallMethod, Http2Connection, Http2Server
from pyromq.net.proxies import TrustedProxies
from pyromq.net.settings import ConnectionSettings
from pyromq.net.tls import ServerContext
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import Status
from pyromq.wire.grpc.protobuf import Proto
from pyromq.wire.grpc.services import (
    SERVICE,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    EndTransactionRequest,
    ForwardToDeadLetterRequest,
    GetOffsetRequest,
    HeartbeatRequest,
    PullMessageRequest,
    QueryAssignmentRequest,
    QueryOffsetRequest,
    QueryRouteRequest,
    RecallMessageRequest,
    StatusResponse,
    SyncLiteSubscriptionRequest,
    TerminationRequest,
    UpdateOffsetRequest,
)

logger = logging.getLogger(__name__)

TICK_S: Final = 5.0


class GrpcFront:
    """Serves from ``start`` to ``stop``."""

    def __init__(self, ground: FrontGround) -> None:
        self._ground = ground
        self.clients = GrpcClients(ground)
        self._settling = Settling(ground, self.clients)
        self._receiving = Receiving(ground, self.clients, self._settling)
        self._sending = Sending(ground, self.clients)
        self.telemetry = Telemetry(ground, self.clients, self._settling)
        self._methods = {f"{SERVICE}{name}".encode(): method for name, method in self._table().items()}
        self._server: Http2Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    def _table(self) -> dict[str, CallMethod]:
        routing, positions = Routing(self._ground), Positions(self._ground, self.clients)
        settling, sending, telemetry = self._settling, self._sending, self.telemetry
        return {
            "QueryRoute": self._rpc(QueryRouteRequest, routing.route),
            "QueryAssignment": self._rpc(QueryAssignmentRequest, routing.assignment),
            "Heartbeat": self._rpc(HeartbeatRequest, telemetry.heartbeat),
            "Telemetry": CallMethod(telemetry.command, is_stream=True),
            "NotifyClientTermination": self._rpc(TerminationRequest, telemetry.terminate),
            "SendMessage": CallMethod(sending.send),
            "EndTransaction": self._rpc(EndTransactionRequest, sending.end_transaction),
            "RecallMessage": self._rpc(RecallMessageRequest, sending.recall),
            "ReceiveMessage": CallMethod(self._receiving.receive),
            "AckMessage": CallMethod(settling.ack),
            "ChangeInvisibleDuration": self._rpc(ChangeInvisibleDurationRequest, settling.change, _unchanged),
            "ForwardMessageToDeadLetterQueue": self._rpc(ForwardToDeadLetterRequest, settling.forward),
            "PullMessage": self._rpc(PullMessageRequest, positions.pull, failed_pull),
            "GetOffset": self._rpc(GetOffsetRequest, positions.get, failed_offset),
            "UpdateOffset": self._rpc(UpdateOffsetRequest, positions.update),
            "QueryOffset": self._rpc(QueryOffsetRequest, positions.query, failed_offset),
            "SyncLiteSubscription": self._rpc(SyncLiteSubscriptionRequest, _no_lite_topics),
        }

    def _rpc(self, kind: type[Proto], answer: Answer | Any, failure: Failure = plain_failure) -> CallMethod:
        return Rpc(self.clients, kind, answer, failure).method

    # --- calls ---

    def lane(self, connection: Http2Connection) -> CallLane | None:
        if core is None:
            return None
        return GrpcCallLane(core, self._ground, connection, self._sending, self._settling, self._receiving)

    def method(self, path: bytes) -> CallMethod | None:
        return self._methods.get(path)

    def on_read(self) -> None:
        """Have what the calls of one read asked for served together, in this loop iteration."""
        self._ground.hand_over()

    def on_disconnected(self, connection: Http2Connection) -> None:
        self.clients.disconnected(connection)

    # --- life ---

    @property
    def address(self) -> Address | None:
        """Where it listens; None when it does not."""
        return self._server.addresses[0] if self._server is not None and self._server.addresses else None

    @property
    def connection_count(self) -> int:
        return self._server.connection_count if self._server is not None else 0

    async def start(self, folder: Path) -> None:
        """Listen. Where the usual port is taken another one is picked; raises ConfigError."""
        settings, clock = self._ground.settings, self._ground.clock
        port = settings.grpc.port_beside(settings.port)
        if port is None:
            return
        tls = grpc_tls(settings.listener.tls, folder, advertised_host(settings), clock)
        server = self._new_server(port, tls)
        try:
            await server.start()
        except ConfigError as error:
            if settings.grpc.port is not None or not _is_taken(error):
                raise
            logger.warning("gRPC has another port than usual: port=%d is taken", port)
            server = self._new_server(0, tls)
            await server.start()
        self._server = server
        self._ground.address = Address(advertised_host(settings), server.addresses[0].port)
        self._arm()

    def _new_server(self, port: int, tls: ServerContext) -> Http2Server:
        settings = self._ground.settings
        listener = settings.listener
        return Http2Server(
            self,
            [Address(settings.host, port)],
            clock=self._ground.clock,
            settings=ConnectionSettings(idle_ms=listener.idle_ms, half_read_bytes_max=listener.half_read_bytes_max),
            connections_max=listener.connections_max,
            tls=tls,
            proxies=TrustedProxies(listener.trusted_proxies),
            exposure=listener.exposure,
        )

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self.telemetry.reconnect("the broker stops")
            for client in self.clients:
                self.clients.remove(client, "the broker stops")
            await self._server.stop()
            self._server = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self.look_around()
        self._arm()

    def look_around(self) -> None:
        """Renew what push consumers work on; forget clients that are gone."""
        for client in self.clients:
            self._settling.renew(client)
        for client in self.clients.gone():
            logger.info("gRPC client is gone: id=%s", client.client_id[:200])
            self.telemetry.dismiss(client, "the client is gone")


def _is_taken(error: ConfigError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE


def _unchanged(request: Any, status: Status) -> list[Proto]:
    """Clients that try again need a handle, the old one."""
    return [ChangeInvisibleDurationResponse(status=status, receipt_handle=request.receipt_handle)]


async def _no_lite_topics(client: object, request: object, call: object) -> StatusResponse:
    text = "lite topics are not served; use a topic and a consumer group of its own"
    raise StatusError(StatusCode.NOT_IMPLEMENTED, text)
