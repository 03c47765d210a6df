"""The send lane of one HTTP/2 connection: plain sends by gRPC, from bytes of a read to staged records in one call.

    bytes ─▶ core: HTTP/2, HPACK, SendMessage, records ─▶ staged by ``SendLane`` ─▶ group commit ─▶ responses, here

It only narrows, as ``SendLane`` does: it takes what ``Sending`` would have stored in the same way. It knows a client,
the claim that was verified, and a topic, after ``Sending`` has stored a message of that client there; any change of
topics, users or roles empties it. Responses come as those of the remoting protocol, numbered by streams.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.session import Session
from pyromq.broker.grpc.clients import GrpcClient
from pyromq.broker.grpc.ground import FrontGround
from pyromq.broker.sending.send_lane import SendLane
from pyromq.compiled_core import Core
from pyromq.model.topic import TopicConfig
from pyromq.net.http2 import GrpcCall, Http2Connection
from pyromq.net.http2.call import RESPONSE_HEAD, TRAILERS_OK
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.grpc.definitions import Resource
from pyromq.wire.grpc.hot import STATUS_OK
from pyromq.wire.grpc.services import SERVICE
from pyromq.wire.http2.requests import HEADER_LIST_BYTES_MAX
from pyromq.wire.received import decode_received

if TYPE_CHECKING:
    from pyromq.broker.grpc.sending import Sending

CLIENTS_MAX: Final = 16  # of one connection
_PATH: Final = f"{SERVICE}SendMessage".encode()
_TEXTS: Final = (_PATH, RESPONSE_HEAD, TRAILERS_OK, STATUS_OK)

Learn = Callable[[], None]
"""To be called when the send has been stored."""


class SendCallLane:
    """Takes calls, and answers them when they are stored; group commit knows it as where they came from."""

    def __init__(self, core: Core, ground: FrontGround, sending: Sending, connection: Http2Connection) -> None:
        self.tables = core.Http2Lane(HEADER_LIST_BYTES_MAX, _TEXTS)
        self._ground = ground
        self._sending = sending
        self._connection = connection
        self._clients: list[GrpcClient] = []  # by their numbers in the core
        self._token: tuple[object, ...] = ()

    @property
    def known(self) -> int:
        """How many clients it knows."""
        return len(self._clients)

    @property
    def bounds(self) -> tuple[int, int, int]:
        return self._connection.lane_bounds

    # --- learning ---

    def candidate(self, call: GrpcCall, client: GrpcClient, resource: Resource, config: TopicConfig) -> Learn | None:
        """A plain send of this client to this topic is under way."""
        lane = self._send_lane()
        if lane is None or not lane.serves(client.caller):
            return None
        claim = None
        if isinstance(self._ground.access, GuardedAccess):
            claim = (call.fields.get(b"authorization", b""), call.fields.get(b"x-mq-date-time", b""))
        return partial(self._admit, lane.token(), call.fields[b"x-mq-client-id"], client, claim, resource, config)

    def _admit(
        self,
        token: tuple[object, ...],
        client_id: bytes,
        client: GrpcClient,
        claim: tuple[bytes, bytes] | None,
        resource: Resource,
        config: TopicConfig,
    ) -> None:
        lane = self._send_lane()
        if lane is None or not _is_same(lane.token(), token):
            return
        others = any(each.client_id == client.client_id and each is not client for each in self._clients)
        if others or not _is_same(token, self._token) or len(self._clients) >= CLIENTS_MAX:
            self._forget()
        self._token = token
        number = self.tables.admit(
            client_id,
            client.namespace.encode(),
            client.caller.session_as(Session).born_host,
            claim,
            ((resource.resource_namespace or client.namespace).encode(), resource.name.encode()),
            (config.topic_name.encode(), config.write_queue_nums),
        )
        if number == len(self._clients):
            self._clients.append(client)

    def _forget(self) -> None:
        self.tables.forget()
        self._clients.clear()

    def _send_lane(self) -> SendLane | None:
        tenure = self._ground.current_tenure()
        return tenure.parts.handlers.sends.lane if tenure is not None else None

    # --- taking ---

    def take(self, data: bytes, at: int) -> int:
        """Stage plain sends from there on, and say where the rest begins."""
        if not self._clients:
            return at
        lane = self._send_lane()
        callers = [client.caller for client in self._clients]
        if lane is None or not _is_same(lane.token(), self._token) or not all(each.is_open for each in callers):
            self._forget()
            return at
        clock, sending = self._ground.clock, self._sending
        while lane.may_take_of(callers):
            taken = lane.take_calls(self, data, at, sending.turn, clock.now_ms())
            if taken is None:
                break
            number, at, last_id, data_bytes, sends = taken
            client = self._clients[number]
            client.seen_ms = clock.monotonic_ms()
            client.caller.frames_in += sends[1]
            sending.turn += sends[1]
            self._connection.taken(sends[1], last_id, data_bytes)
        return at

    # --- answering: as a connection of group commit ---

    @property
    def remote_text(self) -> str:
        return self._connection.remote_text

    def send_now(self, frames: bytes, count: int = 1) -> None:
        if not self._connection.answer_taken(frames):
            self._answer_each(frames)

    def queue(self, frames: bytes, count: int = 1) -> None:
        self.send_now(frames, count)

    def send(self, frame: bytes) -> None:
        self._answer_each(frame)

    def flush(self) -> None:
        """Everything has been written."""

    def abort(self, reason: str) -> None:
        self._connection.abort(reason)

    def _answer_each(self, frames: bytes) -> None:
        for frame in FrameDecoder().feed(frames):
            response = decode_received(frame)
            adopted = self._connection.adopt(response.correlation_id)
            if adopted is not None:
                call, message_id = adopted
                self._sending.answer_taken(call, message_id.decode(), response)


def _is_same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Tokens are compared by what they are made of, not by what that is equal to."""
    return len(one) == len(other) and all(mine is theirs for mine, theirs in zip(one, other, strict=True))
