"""Load by gRPC: calls on connections of our own making, so that the client costs little and says what clients say.

Calls are written in advance, with the headers of a client of RocketMQ 5 (an id of its own for each call, names and
values in HPACK's dynamic table, as Netty and Go have it); then so many are kept outstanding on each connection.
"""

from __future__ import annotations

import itertools
import selectors
import socket
import uuid
from collections.abc import Callable, Iterable, Iterator

import hpack

from pyromq.wire.grpc.definitions import Digest, GrpcMessage, ProtoTime, Resource, SystemProperties
from pyromq.wire.grpc.framing import with_prefix
from pyromq.wire.grpc.services import SERVICE, SendMessageRequest
from pyromq.wire.http2 import frames

_READ_BYTES = 1 << 18
_WINDOW = (1 << 31) - 1


def send_request(number: int, topic: str, body: bytes) -> bytes:
    """A SendMessage as the official clients write it: tag, key, digest and hosts are there."""
    system = SystemProperties(
        tag="a",
        keys=[f"key-{number}"],
        message_id=f"01{number:032X}",
        body_digest=Digest(kind=1, checksum="7A3C1F00"),
        body_encoding=1,
        message_type=1,
        born_timestamp=ProtoTime(seconds=1_790_000_000, nanos=5_000_000),
        born_host="producer-1.example",
    )
    message = GrpcMessage(topic=Resource(name=topic), system_properties=system, body=body)
    return SendMessageRequest(messages=[message]).encode()


class GrpcLoad:
    """One connection: ``write`` makes a call, ``read`` says how many are over since it was asked last."""

    def __init__(self, port: int, client_id: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._encoder = hpack.Encoder()
        self._frames = frames.Http2FrameDecoder()
        self._next_id = 1
        self._fields = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":authority", f"127.0.0.1:{port}".encode()),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            (b"user-agent", b"grpc-java-netty/1.68.0"),
            (b"grpc-accept-encoding", b"gzip"),
            (b"x-mq-client-id", client_id.encode()),
            (b"x-mq-language", b"JAVA"),
            (b"x-mq-protocol", b"v2"),
            (b"x-mq-client-version", b"5.2.0"),
            (b"x-mq-date-time", b"20261117T101112Z"),
            (b"x-mq-namespace", b""),
        ]
        settings = frames.encode_settings([(frames.Http2Setting.INITIAL_WINDOW_SIZE, _WINDOW)])
        self.socket.sendall(frames.PREFACE + settings)
        self.socket.sendall(frames.encode_window_update(0, _WINDOW - frames.WINDOW_DEFAULT))

    def call(self, name: str, request: bytes, *, ends: bool = True) -> bytes:
        """The bytes of the next call, or of a stream's beginning; to be sent in the order in which they were made."""
        return self.with_request(self.begin(name, has_timeout=ends), request, ends=ends)

    def begin(self, name: str, *, has_timeout: bool = True) -> tuple[int, bytes]:
        """Stream and HEADERS of the next call; to be sent in the order in which they were made."""
        stream_id, self._next_id = self._next_id, self._next_id + 2
        fields = [*self._fields, (b":path", f"{SERVICE}{name}".encode()), (b"x-mq-request-id", _request_id())]
        if has_timeout:
            fields.append((b"grpc-timeout", b"30S" if name == "ReceiveMessage" else b"3S"))
        fields.sort(key=lambda field: not field[0].startswith(b":"))
        block = self._encoder.encode(fields, huffman=False)
        return stream_id, frames.encode_frame(frames.HEADERS, frames.END_HEADERS, stream_id, block)

    @staticmethod
    def with_request(begun: tuple[int, bytes], request: bytes, *, ends: bool = True) -> bytes:
        """A call that was begun, with its request."""
        stream_id, head = begun
        flags = frames.END_STREAM if ends else 0
        return head + frames.encode_frame(frames.DATA, flags, stream_id, with_prefix(request))

    def read(self) -> tuple[int, list[bytes]]:
        """How many calls have ended, and the DATA that came."""
        ended, data = 0, []
        chunk = self.socket.recv(_READ_BYTES)
        assert chunk, "the server has closed the connection"
        for kind, flags, _, payload in self._frames.feed(chunk):
            assert kind not in (frames.GOAWAY, frames.RST_STREAM), payload
            if kind == frames.DATA:
                data.append(payload)
            elif kind == frames.HEADERS and flags & frames.END_STREAM:
                ended += 1
            elif kind == frames.PING and not flags & frames.ACK:
                self.socket.sendall(frames.encode_frame(frames.PING, frames.ACK, 0, payload))
        return ended, data

    def close(self) -> None:
        self.socket.close()


def _request_id() -> bytes:
    return str(uuid.uuid4()).encode()


def keep_outstanding(
    loads: list[GrpcLoad], calls: list[Iterator[bytes]], outstanding: int, check: Callable[[bytes], None] | None = None
) -> int:
    """Make these calls, so many at once on each connection; how many there were."""
    selector = selectors.DefaultSelector()
    made = done = 0
    for load, own in zip(loads, calls, strict=True):
        selector.register(load.socket, selectors.EVENT_READ, (load, own))
        made += _write(load, own, outstanding)
    while done < made:
        for key, _ in selector.select(30):
            load, own = key.data
            ended, data = load.read()
            done += ended
            made += _write(load, own, ended)
            for each in data if check else ():
                check(each)  # type: ignore[misc]
    return done


def _write(load: GrpcLoad, calls: Iterable[bytes], count: int) -> int:
    some = list(itertools.islice(calls, count))
    if some:
        load.socket.sendall(b"".join(some))
    return len(some)
