"""The lane of one HTTP/2 connection: plain sends, acknowledgements and receives by gRPC, from the bytes of a read.

    bytes ─▶ core: HTTP/2, HPACK ─┬─▶ SendMessage, records ─▶ staged by ``SendLane`` ─▶ group commit ─▶ responses, here
                                  ├─▶ AckMessage: those of a group and topic together ─▶ ``Settling``
                                  └─▶ ReceiveMessage ─▶ ``Receiving``

It only narrows. It takes sends that ``Sending`` would have stored in the same way, and brings the others to the
functions that their calls would have reached, so that rights and roles are looked at there. It knows a client, the
claim that was verified, a topic, or a group and a topic, after a call of that client was served; any change of topics,
users or roles empties it. Responses to sends come as those of the remoting protocol, numbered by streams.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import is_
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
from pyromq.wire.record_layout import HOST_V4_BYTES

if TYPE_CHECKING:
    from pyromq.broker.grpc.receiving import Receiving
    from pyromq.broker.grpc.sending import Sending
    from pyromq.broker.grpc.settling import Settling

CLIENTS_MAX: Final = 16  # of one connection
_PATHS: Final = tuple(f"{SERVICE}{name}".encode() for name in ("SendMessage", "AckMessage", "ReceiveMessage"))
_NO_HOST: Final = bytes(HOST_V4_BYTES)

Learn = Callable[[], None]
"""To be called when the send has been stored, or the acknowledgements are safe."""

Claim = tuple[bytes, bytes] | None
"""What a call said of its sender, when that was verified."""


class GrpcCallLane:
    """Takes calls, and answers them when they are safe; group commit knows it as where sends came from."""

    def __init__(
        self,
        core: Core,
        ground: FrontGround,
        connection: Http2Connection,
        sending: Sending,
        settling: Settling,
        receiving: Receiving,
    ) -> None:
        texts = (RESPONSE_HEAD, TRAILERS_OK, STATUS_OK, ground.settings.name.encode())
        self.tables = core.Http2Lane(HEADER_LIST_BYTES_MAX, _PATHS, texts)
        self._core = core
        self._ground = ground
        self._connection = connection
        self._sending = sending
        self._settling = settling
        self._receiving = receiving
        self._clients: list[GrpcClient] = []  # by their numbers in the core
        self._pairs: dict[tuple[int, int], tuple[str, str]] = {}  # groups and topics, by numbers of client and pair
        self._token: tuple[object, ...] = ()
        self._consumes = False  # what was taken last was an acknowledgement or a receive: so will be the next

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
        topic = (
            ((resource.resource_namespace or client.namespace).encode(), resource.name.encode()),
            (config.topic_name.encode(), config.write_queue_nums),
        )
        return partial(
            self._admit_sends, lane.token(), call.fields[b"x-mq-client-id"], client, self._claim(call), topic
        )

    def _admit_sends(
        self,
        token: tuple[object, ...],
        client_id: bytes,
        client: GrpcClient,
        claim: Claim,
        topic: tuple[tuple[bytes, bytes], tuple[bytes, int]],
    ) -> None:
        if self._may_admit(token, client):
            self._known_client(client, self.tables.admit(client_id, *_facts(client), claim, topic, None)[0])

    def candidate_acks(
        self, call: GrpcCall, client: GrpcClient, encoded: tuple[bytes, bytes], names: tuple[str, str]
    ) -> Learn | None:
        """Plain acknowledgements of this client are under way; group and topic as they came, and their names."""
        lane = self._send_lane()
        if lane is None:
            return None
        known = (lane.token(), call.fields[b"x-mq-client-id"], client, self._claim(call))
        return partial(self._admit_acks, *known, encoded, names)

    def _admit_acks(
        self,
        token: tuple[object, ...],
        client_id: bytes,
        client: GrpcClient,
        claim: Claim,
        encoded: tuple[bytes, bytes],
        names: tuple[str, str],
    ) -> None:
        if self._may_admit(token, client):
            number, pair = self.tables.admit(client_id, *_facts(client), claim, None, encoded)
            self._known_client(client, number)
            self._pairs[number, pair] = names

    def _claim(self, call: GrpcCall) -> Claim:
        if not isinstance(self._ground.access, GuardedAccess):
            return None
        return call.fields.get(b"authorization", b""), call.fields.get(b"x-mq-date-time", b"")

    def _may_admit(self, token: tuple[object, ...], client: GrpcClient) -> bool:
        """Whether what was decided under this token still holds; what does not is forgotten."""
        lane = self._send_lane()
        if lane is None or not _is_same(lane.token(), token):
            return False
        others = any(each.client_id == client.client_id and each is not client for each in self._clients)
        if others or not _is_same(token, self._token) or len(self._clients) >= CLIENTS_MAX:
            self._forget()
        self._token = token
        return True

    def _known_client(self, client: GrpcClient, number: int) -> None:
        if number == len(self._clients):
            self._clients.append(client)

    def _forget(self) -> None:
        self.tables.forget()
        self._clients.clear()
        self._pairs.clear()

    def _send_lane(self) -> SendLane | None:
        tenure = self._ground.current_tenure()
        return tenure.parts.handlers.sends.lane if tenure is not None else None

    # --- taking ---

    def take(self, data: bytes, at: int) -> int:
        """Take plain calls from there on, and say where the rest begins."""
        if not self._clients:
            return at
        lane = self._send_lane()
        callers = [client.caller for client in self._clients]
        if lane is None or not _is_same(lane.token(), self._token) or not all(each.is_open for each in callers):
            self._forget()
            return at
        receives = self._connection.limits.calls_per_turn
        while True:
            before = at
            if not self._consumes and lane.may_take_of(callers):
                at = self._take_sends(lane, data, at)
            if receives and at < len(data):
                at, is_receive = self._take_consuming(data, at)
                receives -= is_receive
            if at == len(data) or (at == before and not self._consumes):
                return at
            self._consumes = self._consumes and at > before  # else sends are looked for, too

    def _take_sends(self, lane: SendLane, data: bytes, at: int) -> int:
        clock, sending = self._ground.clock, self._sending
        taken = lane.take_calls(self, data, at, sending.turn, clock.now_ms())
        if taken is None:
            return at
        number, at, last_id, data_bytes, sends = taken
        client = self._clients[number]
        client.seen_ms = clock.monotonic_ms()
        client.caller.frames_in += sends[1]
        sending.turn += sends[1]
        self._connection.taken(sends[1], last_id, data_bytes)
        return at

    def _take_consuming(self, data: bytes, at: int) -> tuple[int, bool]:
        """Take acknowledgements or one receive; where the rest begins, and whether it was a receive."""
        with_texts = any(len(client.renewals) for client in self._clients)
        taken = self._core.take_consuming(self.tables, data, at, self.bounds, with_texts)
        if taken is None:
            return at, False
        number, at, last_id, data_bytes, acks, receive = taken
        client, self._consumes = self._clients[number], True
        client.seen_ms = self._ground.clock.monotonic_ms()
        if acks is not None:
            pair, receipts, texts, calls = acks
            self._connection.taken(len(calls), last_id, data_bytes)
            self._settling.ack_taken(self._connection, client, self._pairs[number, pair], receipts, texts, calls)
        elif receive is not None:
            self._connection.taken(1, last_id, data_bytes)
            self._receiving.receive_taken(self._connection, client, *receive)
        return at, receive is not None

    # --- answering sends: as a connection of group commit ---

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


def _facts(client: GrpcClient) -> tuple[bytes, bytes]:
    """Namespace and host as the core knows them; sends of hosts with IPv6 addresses are not the lane's."""
    host = client.caller.session_as(Session).born_host
    return client.namespace.encode(), host if len(host) == HOST_V4_BYTES else _NO_HOST


def _is_same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Tokens are compared by what they are made of, not by what that is equal to."""
    return len(one) == len(other) and all(map(is_, one, other))
