"""Servers, connections and links over real sockets on loopback, on uvloop and on asyncio's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyromq.clock import SystemClock
from pyromq.errors import ConfigError, ConnectFailedError, ConnectionLostError, RequestTimeoutError, TransportError
from pyromq.net import (
    Address,
    Backoff,
    Connection,
    ConnectionSettings,
    Handler,
    Link,
    Server,
    TlsMode,
    TrustedProxies,
    open_connection,
)
from pyromq.net.link_state import Phase
from pyromq.net.preamble import SIGNATURE
from pyromq.net.tls import FollowedContext, ServerContext, ServerTls, TlsSettings
from pyromq.testing import ManualClock
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_request, encode_response, encode_response_head
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.headers.callback import CheckTransactionHeader
from pyromq.wire.received import Received, decode_received
from tests.integration.both_loops import Run
from tests.integration.certificates import Certificate, make_certificate

pytestmark = [pytest.mark.integration, pytest.mark.both_modes]

CLOCK = SystemClock()
ANY_PORT = Address("127.0.0.1", 0)
CODE = int(RequestCode.GET_BROKER_CLUSTER_INFO)  # has no ext fields
SILENT = int(RequestCode.GET_BROKER_RUNTIME_INFO)  # our test server never answers it
LARGE = int(RequestCode.GET_BROKER_CONFIG)  # … and answers this one with 1 MiB
ANY_PROXY = TrustedProxies(["0.0.0.0/0"])
FAST_BACKOFF = Backoff(first_ms=2, ceiling_ms=10)


class Answering(Handler):
    """Answers with the body that came; writes down what happened and can be waited for."""

    def __init__(self) -> None:
        self.connected: asyncio.Queue[Connection] = asyncio.Queue()
        self.reasons: asyncio.Queue[str] = asyncio.Queue()
        self.congestions = 0
        self.drains = 0
        self.requests = 0
        self.heard: asyncio.Queue[Received[Any]] = asyncio.Queue()

    def on_connected(self, connection: Connection) -> None:
        self.connected.put_nowait(connection)

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        self.requests += len(requests)
        for request in requests:
            self.heard.put_nowait(request)
            if request.code == LARGE:
                body = memoryview(bytes(1 << 20))
                head = encode_response_head(0, request.correlation_id, body_size=len(body))
                connection.send_parts(head, [body[: 1 << 19], body[1 << 19 :]])
            elif request.code != SILENT and not request.is_oneway:
                connection.send(encode_response(0, request.correlation_id, body=request.body))

    def on_congested(self, connection: Connection) -> None:
        self.congestions += 1

    def on_drained(self, connection: Connection) -> None:
        self.drains += 1

    def on_disconnected(self, connection: Connection, reason: str) -> None:
        self.reasons.put_nowait(reason)


connect = partial(open_connection, clock=CLOCK)


@contextlib.asynccontextmanager
async def serving(handler: Handler | None = None, **options: Any) -> AsyncIterator[tuple[Server, Address, Any]]:
    handler = handler or Answering()
    async with Server(handler, [ANY_PORT], **{"clock": CLOCK, **options}) as server:
        yield server, server.addresses[0], handler


@contextlib.asynccontextmanager
async def raw(address: Address) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A peer that is not ours."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def responses_from(reader: asyncio.StreamReader, count: int) -> list[Received[Any]]:
    decoder, found = FrameDecoder(), []
    while len(found) < count:
        data = await reader.read(65_536)
        assert data, f"the server closed after {len(found)} answers"
        found += [decode_received(frame) for frame in decoder.feed(data)]
    return found


async def ends(reader: asyncio.StreamReader) -> bool:
    """The server closes without another byte."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


# --- requests and answers ------------------------------------------------------------------------------------------


class Shuffling(Answering):
    """Keeps requests for a while and answers them in any order."""

    def __init__(self, total: int, seed: int) -> None:
        super().__init__()
        self._total, self._rng, self._kept = total, Random(seed), list[tuple[Connection, Received[Any]]]()

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        self.requests += len(requests)
        self._kept += [(connection, request) for request in requests]
        if len(self._kept) < 1_000 and self.requests < self._total:
            return
        self._rng.shuffle(self._kept)
        for asker, request in self._kept:
            asker.send(encode_response(0, request.correlation_id, body=request.body))
        self._kept.clear()


def test_ten_thousand_pipelined_requests_are_answered_in_any_order(run: Run) -> None:
    seed = Random().randrange(1 << 32)
    print(f"seed={seed}")

    async def scenario() -> None:
        async with serving(Shuffling(10_000, seed)) as (_, address, _):
            connection = await connect(address)
            responses = [connection.request_nowait(CODE, body=b"%d" % n, timeout_ms=10_000) for n in range(10_000)]
            assert [response.body for response in await asyncio.gather(*responses)] == [
                b"%d" % n for n in range(10_000)
            ]
            assert (connection.frames_out, connection.frames_in, connection.in_flight) == (10_000, 10_000, 0)
            connection.close()

    run(scenario())


def test_any_cut_of_the_stream_gives_the_same_answers(run: Run) -> None:
    seed = Random().randrange(1 << 32)
    print(f"seed={seed}")

    async def scenario() -> None:
        rng = Random(seed)
        stream = b"".join(encode_request(CODE, n, body=rng.randbytes(rng.randrange(2_000))) for n in range(1, 301))
        async with serving() as (_, address, handler), raw(address) as (reader, writer):
            at = 0
            while at < len(stream):
                size = rng.choice((1, 3, 7, 100, 1_448, 60_000))
                writer.write(stream[at : at + size])
                at += size
                await writer.drain()
                await asyncio.sleep(0)
            responses = await responses_from(reader, 300)
            assert [response.correlation_id for response in responses] == list(range(1, 301))
            assert handler.requests == 300

    run(scenario())


def test_a_frame_of_almost_16_mib_goes_both_ways(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as (_, address, _):
            connection = await connect(address)
            body = Random(7).randbytes((1 << 24) - 1_000)
            response = await connection.request(CODE, body=body, timeout_ms=10_000)
            assert response.body == body
            connection.close()

    run(scenario())


def test_a_server_asks_its_client(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as (_, address, handler):
            client_handler = Answering()
            connection = await connect(address, handler=client_handler)
            await connection.request(CODE, timeout_ms=30_000)
            peer = await handler.connected.get()
            header = CheckTransactionHeader(tran_state_table_offset=1, commit_log_offset=2)
            responses = await asyncio.gather(
                *(peer.request(CODE, body=b"%d" % n, timeout_ms=30_000) for n in range(100)),
                *(connection.request(CODE, body=b"%d" % n, timeout_ms=30_000) for n in range(100)),
            )
            assert [response.body for response in responses] == [b"%d" % n for n in range(100)] * 2
            peer.request_oneway(RequestCode.CHECK_TRANSACTION_STATE, header)
            while (request := await client_handler.heard.get()).code == CODE:
                pass
            assert request.is_oneway
            assert request.header == header
            connection.close()

    run(scenario())


def test_a_client_without_a_handler_says_what_it_does_not_support(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as (_, address, handler):
            connection = await connect(address)
            await connection.request(CODE, timeout_ms=30_000)
            response = await (await handler.connected.get()).request(CODE, timeout_ms=30_000)
            assert response.code == 3
            connection.close()

    run(scenario())


def test_a_oneway_request_arrives_and_is_not_answered(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as (_, address, handler):
            connection = await connect(address)
            connection.request_oneway(CODE, body=b"news")
            assert (await handler.heard.get()).body == b"news"
            await connection.request(CODE, timeout_ms=30_000)
            assert connection.frames_in == 1
            connection.close()

    run(scenario())


def test_a_request_that_is_not_answered_times_out_and_the_connection_lives(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as (_, address, _):
            connection = await connect(address)
            late = [connection.request_nowait(SILENT, timeout_ms=ms) for ms in (60, 20, 40)]
            results = await asyncio.gather(*late, return_exceptions=True)
            assert [type(result) for result in results] == [RequestTimeoutError] * 3
            assert (await connection.request(CODE, body=b"still here", timeout_ms=30_000)).body == b"still here"
            connection.close()

    run(scenario())


def test_a_peer_that_hangs_up_fails_what_was_asked(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as (_, address, handler):
            connection = await connect(address)
            response = connection.request_nowait(SILENT, timeout_ms=30_000)
            (await handler.connected.get()).abort("test")
            with pytest.raises(ConnectionLostError) as caught:
                await response
            assert caught.value.peer == str(address)
            assert not connection.is_open

    run(scenario())


# --- peers that misbehave ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [b"\x7f\xff\xff\xff\0\0\0\1", b"\0\0\0\6\0\0\0\2{]", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 64]
)
def test_a_malformed_frame_closes_its_own_connection_only(
    run: Run, bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving() as (_, address, handler), raw(address) as (reader, writer):
            connection = await connect(address)
            await connection.request(CODE, timeout_ms=30_000)
            writer.write(encode_request(CODE, 1) + bad)
            (response,) = await responses_from(reader, 1)
            assert response.correlation_id == 1
            assert await ends(reader)
            assert (await handler.reasons.get()).startswith("protocol error")
            await connection.request(CODE, timeout_ms=30_000)
            connection.close()

    with caplog.at_level(logging.WARNING, "pyromq.net"):
        run(scenario())
    assert len(caplog.records) == 1
    assert "127.0.0.1:" in caplog.text


def test_a_client_that_stops_reading_is_cut_off_while_others_go_on(run: Run) -> None:
    settings = ConnectionSettings(unsent_bytes_max=8 << 20)

    async def scenario() -> None:
        async with serving(settings=settings) as (server, address, handler):
            with socket.create_connection(address) as deaf:
                deaf.sendall(b"".join(encode_request(LARGE, n) for n in range(1, 31)))
                connection = await connect(address)
                assert "does not read" in await handler.reasons.get()
                await asyncio.gather(*(connection.request(CODE, timeout_ms=30_000) for _ in range(100)))
                assert len(server.connections) == 1
                connection.close()

    run(scenario())


def test_a_slow_reader_gets_everything_and_is_not_read_from_meanwhile(run: Run) -> None:
    settings = ConnectionSettings(unsent_bytes_high=1 << 20)
    total = 24

    async def scenario() -> None:
        async with serving(settings=settings) as (_, address, handler), raw(address) as (reader, writer):
            for number in range(1, total + 1):  # one by one, so that the server can stop in between
                writer.write(encode_request(LARGE, number))
                await handler.heard.get() if handler.congestions == 0 else await asyncio.sleep(0)
            assert handler.congestions > 0
            assert handler.requests < total, "the server went on reading"
            responses = await responses_from(reader, total)
            assert [len(response.body) for response in responses] == [1 << 20] * total
            assert handler.drains > 0

    run(scenario())


def test_two_sides_that_send_much_do_not_wait_for_each_other_forever(run: Run) -> None:
    settings = ConnectionSettings(unsent_bytes_high=256 << 10)

    async def scenario() -> None:
        async with serving(settings=settings) as (_, address, _):
            connection = await connect(address, settings=settings)
            body = bytes(1 << 20)
            responses = [connection.request_nowait(CODE, body=body, timeout_ms=14_000) for _ in range(32)]
            assert connection.is_congested or connection.unsent_bytes
            assert all(len(response.body) == len(body) for response in await asyncio.gather(*responses))
            connection.close()

    run(scenario())


def test_above_the_connection_limit_newcomers_are_closed(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with serving(connections_max=2) as (_, address, handler):
            first, second = await connect(address), await connect(address)
            for connection in (first, second):
                await connection.request(CODE, timeout_ms=30_000)
            for _ in range(3):
                async with raw(address) as (reader, _):
                    assert await ends(reader)
            first.close()
            await handler.reasons.get()
            third = await connect(address)
            await third.request(CODE, timeout_ms=30_000)
            second.close()
            third.close()

    with caplog.at_level(logging.WARNING, "pyromq.net"):
        run(scenario())
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["connection refused, limit reached"]


# --- silence -------------------------------------------------------------------------------------------------------


def test_a_silent_connection_is_closed_by_the_servers_timer(run: Run) -> None:
    async def scenario() -> None:
        async with serving(settings=ConnectionSettings(idle_ms=100)) as (_, address, handler):
            connection = await connect(address)
            await connection.request(CODE, timeout_ms=30_000)
            assert await handler.reasons.get() == "silent for 100 ms"
            await connection.wait_closed()
            async with raw(address) as (reader, _):  # never says a word
                assert await ends(reader)

    run(scenario())


def test_a_silent_connection_is_closed_by_the_clients_timer(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as (_, address, _):
            connection = await connect(address, settings=ConnectionSettings(idle_ms=100))
            await connection.wait_closed()
            assert connection.close_reason == "silent for 100 ms"

    run(scenario())


def test_silence_is_measured_with_the_clock_that_was_handed_in(run: Run) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with serving(clock=clock) as (server, address, _):
            quiet, busy = await connect(address), await connect(address)
            for connection in (quiet, busy):
                await connection.request(CODE, timeout_ms=30_000)
            server.close_idle()
            for _ in range(2):
                clock.advance_ms(60_000)
                await busy.request(CODE, timeout_ms=30_000)
                server.close_idle()
            await quiet.wait_closed()
            assert busy.is_open
            busy.close()

    run(scenario())


# --- servers -------------------------------------------------------------------------------------------------------


def test_one_server_listens_on_several_ports(run: Run) -> None:
    async def scenario() -> None:
        handler = Answering()
        async with Server(handler, [ANY_PORT, ANY_PORT], clock=CLOCK) as server:
            main, vip = server.addresses
            for address in (main, vip):
                connection = await connect(address)
                await connection.request(CODE, timeout_ms=30_000)
                peer = await handler.connected.get()
                assert peer.local == address
                assert peer.remote == connection.local
                assert peer.remote_text == f"127.0.0.1:{connection.local.port}"
                connection.close()

    run(scenario())


def test_a_port_that_is_taken_is_a_clear_error(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as (_, address, handler):
            with pytest.raises(ConfigError, match=f"cannot listen on {address}"):
                await Server(handler, [ANY_PORT, address], clock=CLOCK).start()

    run(scenario())


async def test_a_socket_that_the_system_connects_to_itself_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no server listens at a port that the system hands out, it may hand out that one, and TCP agrees."""
    loop = asyncio.get_running_loop()
    create_connection = loop.create_connection
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]

    async def from_the_same_port(*arguments: Any, **named: Any) -> Any:
        return await create_connection(*arguments, **named, local_addr=("127.0.0.1", port))

    monkeypatch.setattr(loop, "create_connection", from_the_same_port)
    with pytest.raises(ConnectFailedError, match="no server listens there"):
        await connect(Address("127.0.0.1", port))
    async with asyncio.timeout(30):
        while True:
            try:
                socket.create_server(("127.0.0.1", port)).close()
                break
            except OSError:  # the connection is aborted in the next loop iteration
                await asyncio.sleep(0)


def test_a_server_that_stops_sends_what_it_has_first(run: Run) -> None:
    async def scenario() -> None:
        handler = Answering()
        server = Server(handler, [ANY_PORT], clock=CLOCK)
        await server.start()
        address = server.addresses[0]
        connection = await connect(address)
        responses = [connection.request_nowait(LARGE, timeout_ms=10_000) for _ in range(8)]
        for _ in responses:
            await handler.heard.get()
        await server.stop()
        assert [len((await response).body) for response in responses] == [1 << 20] * 8
        await connection.wait_closed()
        with pytest.raises(ConnectFailedError, match=str(address)):
            await connect(address)
        assert server.connections == frozenset()

    run(scenario())


def test_a_server_that_stops_does_not_wait_for_a_peer_that_does_not_read(run: Run) -> None:
    async def scenario() -> None:
        handler = Answering()
        server = Server(handler, [ANY_PORT], clock=CLOCK)
        await server.start()
        with socket.create_connection(server.addresses[0]) as deaf:
            deaf.sendall(b"".join(encode_request(LARGE, n) for n in range(1, 31)))
            await handler.heard.get()
            await server.stop(grace_ms=50)
        assert await handler.reasons.get() == "the server stops"

    run(scenario())


# --- PROXY protocol ------------------------------------------------------------------------------------------------

PROXY_HEADERS = {
    "v1": (b"PROXY TCP4 192.0.2.1 198.51.100.2 54321 10911\r\n", "192.0.2.1:54321"),
    "v1, IPv6": (b"PROXY TCP6 2001:db8::7 ::1 54321 10911\r\n", "[2001:db8::7]:54321"),
    "v2": (
        SIGNATURE
        + struct.pack(">BBH", 0x21, 0x11, 19)
        + bytes((192, 0, 2, 1, 198, 51, 100, 2))
        + struct.pack(">HH", 54321, 10911)
        + b"\x04\0\4noop",
        "192.0.2.1:54321",
    ),
}


@pytest.mark.parametrize("kind", PROXY_HEADERS)
@pytest.mark.parametrize("piecewise", [False, True], ids=["in one piece", "byte by byte"])
def test_the_peer_is_whom_the_proxy_names(run: Run, kind: str, piecewise: bool) -> None:
    header, name = PROXY_HEADERS[kind]

    async def scenario() -> None:
        async with serving(proxies=ANY_PROXY) as (_, address, handler), raw(address) as (reader, writer):
            data = header + encode_request(CODE, 1, body=b"x")
            for size in [1] * len(data) if piecewise else [len(data)]:
                writer.write(data[:size])
                data = data[size:]
                await asyncio.sleep(0)
            (response,) = await responses_from(reader, 1)
            assert response.body == b"x"
            assert (await handler.connected.get()).remote_text == name

    run(scenario())


def test_a_peer_needs_no_proxy_header_where_one_is_allowed(run: Run) -> None:
    async def scenario() -> None:
        async with serving(proxies=ANY_PROXY) as (_, address, handler):
            connection = await connect(address)
            await connection.request(CODE, timeout_ms=30_000)
            assert (await handler.connected.get()).remote == connection.local
            connection.close()

    run(scenario())


def test_a_malformed_proxy_header_closes_the_connection(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with serving(proxies=ANY_PROXY) as (_, address, handler), raw(address) as (reader, writer):
            writer.write(b"PROXY TCP4 somewhere over the rainbow\r\n")
            assert await ends(reader)
            assert handler.connected.empty()

    with caplog.at_level(logging.WARNING, "pyromq.net"):
        run(scenario())
    assert "bad preamble: peer=127.0.0.1:" in caplog.text


# --- TLS -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "server")


@pytest.fixture
def server_tls(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


@pytest.fixture
def client_tls(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate.file)


async def speaks(address: Address, tls_context: ssl.SSLContext | None) -> bool:
    """Whether a client gets answers, a large one among them."""
    try:
        connection = await connect(address, tls_context=tls_context)
        sizes = [
            len(response.body)
            for response in await asyncio.gather(
                connection.request(CODE, body=b"abc", timeout_ms=30_000), connection.request(LARGE, timeout_ms=30_000)
            )
        ]
    except (ConnectFailedError, ConnectionLostError):
        return False
    connection.close()
    await connection.wait_closed()
    return sizes == [3, 1 << 20]


@pytest.mark.parametrize(
    ("mode", "plain", "encrypted"),
    [(TlsMode.DISABLED, True, False), (TlsMode.PERMISSIVE, True, True), (TlsMode.ENFORCING, False, True)],
)
def test_tls_modes(
    run: Run,
    mode: TlsMode,
    plain: bool,
    encrypted: bool,
    server_tls: ssl.SSLContext,
    client_tls: ssl.SSLContext,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with serving(tls=ServerContext(mode, server_tls)) as (_, address, _):
            assert await speaks(address, None) is plain
            assert await speaks(address, client_tls) is encrypted

    with caplog.at_level(logging.WARNING, "pyromq.net"):
        run(scenario())
    assert ("TLS is" in caplog.text) is (not plain or not encrypted)


def test_a_proxy_header_comes_before_tls(run: Run, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    async def scenario() -> None:
        options = {"tls": ServerContext(TlsMode.ENFORCING, server_tls), "proxies": ANY_PROXY}
        async with serving(**options) as (_, address, handler):
            loop = asyncio.get_running_loop()
            with socket.create_connection(address) as plain:
                plain.sendall(PROXY_HEADERS["v2"][0])
                plain.setblocking(False)
                reader, writer = await asyncio.open_connection(sock=plain, ssl=client_tls, server_hostname="localhost")
                writer.write(encode_request(CODE, 1, body=b"x"))
                (response,) = await responses_from(reader, 1)
                assert response.body == b"x"
                assert (await handler.connected.get()).remote_text == "192.0.2.1:54321"
                writer.transport.abort()
                assert loop.is_running()

    run(scenario())


def test_an_untrusted_certificate_fails_the_connection(run: Run, server_tls: ssl.SSLContext) -> None:
    async def scenario() -> None:
        async with serving(tls=ServerContext(TlsMode.PERMISSIVE, server_tls)) as (_, address, _):
            with pytest.raises(ConnectFailedError, match="certificate"):
                await connect(address, tls_context=ssl.create_default_context())

    run(scenario())


def test_a_broken_handshake_hurts_no_other_connection(
    run: Run, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async def scenario() -> None:
        async with serving(tls=ServerContext(TlsMode.PERMISSIVE, server_tls)) as (_, address, _):
            async with raw(address) as (reader, writer):
                writer.write(b"\x16" + b"not TLS at all" * 20)
                await reader.read()
            assert await speaks(address, client_tls)

    run(scenario())


def test_tls_without_a_certificate_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="enforcing"):
        ServerContext(TlsMode.ENFORCING)


# --- links ---------------------------------------------------------------------------------------------------------


def link_to(address: Address, **options: Any) -> Link:
    opening = partial(connect, address, **options)
    return Link(address, connect=opening, clock=CLOCK, rng=Random(7), backoff=FAST_BACKOFF)


def test_a_link_survives_restarts_of_its_server(run: Run) -> None:
    async def scenario() -> None:
        address = ANY_PORT
        link: Link | None = None
        for life in range(3):
            async with Server(Answering(), [address], clock=CLOCK) as server:
                address = server.addresses[0]
                link = link or link_to(address)
                await link.connection(timeout_ms=30_000, wait=True)
                responses = await asyncio.gather(
                    *(link.request(CODE, body=b"%d" % life, timeout_ms=30_000) for _ in "abc")
                )
                assert [response.body for response in responses] == [b"%d" % life] * 3
                assert len(server.connections) == 1
            connection = link.ready
            if connection is not None:
                await connection.wait_closed()
            with pytest.raises(ConnectFailedError, match=str(address)):
                await link.request(CODE, timeout_ms=30_000)
            assert link.phase is Phase.BACKING_OFF
        assert link is not None
        await link.close()

    run(scenario())


def test_a_patient_caller_outlasts_a_server_that_is_not_up_yet(run: Run) -> None:
    async def scenario() -> None:
        async with Server(Answering(), [ANY_PORT], clock=CLOCK) as server:
            address = server.addresses[0]
        async with link_to(address) as link:
            patient = asyncio.ensure_future(link.connection(timeout_ms=10_000, wait=True))
            with pytest.raises(ConnectFailedError):
                await link.connection(timeout_ms=30_000)
            async with Server(Answering(), [address], clock=CLOCK):
                assert (await patient).is_open

    run(scenario())


def test_a_reset_connection_is_replaced_at_the_next_request(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as (_, address, handler), link_to(address) as link:
            await link.request(CODE, timeout_ms=30_000)
            first = link.ready
            assert first is not None
            (await handler.connected.get()).abort("test")
            await first.wait_closed()
            await link.request(CODE, timeout_ms=30_000)
            assert link.ready is not first

    run(scenario())


def test_a_black_hole_ends_in_a_connect_timeout(run: Run) -> None:
    async def scenario() -> None:
        with socket.socket() as listener, contextlib.ExitStack() as fillers:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            address = Address(*listener.getsockname())
            for _ in range(4):  # a full queue of a listener drops what else comes: no answer
                filler = fillers.enter_context(socket.socket())
                filler.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    filler.connect(address)
            async with link_to(address, connect_timeout_ms=50) as link:
                wanting = [link.connection(timeout_ms=30_000) for _ in range(3)]
                for result in await asyncio.gather(*wanting, return_exceptions=True):
                    assert isinstance(result, ConnectFailedError)
                    assert "within 50 ms" in str(result)
                assert link.phase is Phase.BACKING_OFF

    run(scenario())


def test_closing_a_link_while_it_connects_is_prompt(run: Run) -> None:
    async def scenario() -> None:
        connecting = asyncio.Event()

        async def never() -> Connection:
            connecting.set()
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        link = Link(ANY_PORT, connect=never, clock=CLOCK, rng=Random(7))
        wanting = asyncio.ensure_future(link.connection(timeout_ms=60_000))
        await connecting.wait()
        await link.close()
        with pytest.raises(Exception, match="was closed"):
            await wanting

    run(scenario())


def test_a_half_open_connection_is_dropped_and_replaced(run: Run) -> None:
    settings = ConnectionSettings(half_open_ms=60)

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as mute:  # the kernel accepts, no program ever reads or answers
            async with link_to(Address(*mute.getsockname()), settings=settings) as link:
                with pytest.raises(RequestTimeoutError):
                    await link.request(CODE, timeout_ms=40)
                connection = link.ready
                while connection is not None and connection.is_open:  # on a busy machine the first wait may be enough
                    with pytest.raises(TransportError):
                        await connection.request(CODE, timeout_ms=40)
                if connection is not None:
                    await connection.wait_closed()
                assert link.ready is None
                assert (await link.connection(timeout_ms=30_000, wait=True)).is_open

    run(scenario())


@pytest.mark.parametrize("turns", range(12))
def test_a_server_stops_while_connections_are_being_made(run: Run, turns: int) -> None:
    """Wherever they are between accepted and open: none of them may keep it from stopping."""

    async def scenario() -> None:
        server = Server(Answering(), [ANY_PORT], clock=CLOCK)
        await server.start()
        sockets = [socket.create_connection(server.addresses[0]) for _ in range(20)]
        for each in sockets[::2]:
            each.sendall(b"\0")
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await server.stop(grace_ms=200)
        assert not server.connections
        for each in sockets:
            each.close()

    run(scenario())


def test_certificates_are_replaced_without_a_restart(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    first = make_certificate(tmp_path, "first")
    server_files = Certificate(tmp_path / "server.pem", tmp_path / "server-key.pem")

    def install(certificate: Certificate) -> None:
        server_files.file.write_bytes(certificate.file.read_bytes())
        server_files.key.write_bytes(certificate.key.read_bytes())

    async def scenario() -> None:
        install(first)
        files = ServerTls(mode=TlsMode.ENFORCING, certificate_file=server_files.file, key_file=server_files.key)
        trusts_first = TlsSettings(ca_file=first.file).context()
        async with serving(tls=FollowedContext(files, clock)) as (_, address, _):
            assert await speaks(address, trusts_first)
            server_files.key.write_text("not a key")
            clock.advance_ms(1_000)
            assert await speaks(address, trusts_first), "the last good ones stay"
            second = make_certificate(tmp_path, "second")
            install(second)
            assert not await speaks(address, TlsSettings(ca_file=second.file).context()), "not looked at yet"
            clock.advance_ms(1_000)
            assert await speaks(address, TlsSettings(ca_file=second.file).context())
            assert not await speaks(address, trusts_first)

    run(scenario())
    assert "certificates not replaced, those read before are still in use" in caplog.text


def test_a_connection_knows_the_name_in_the_certificate_of_its_peer(run: Run, tmp_path: Path) -> None:
    ours, theirs = make_certificate(tmp_path, "server"), make_certificate(tmp_path, "billing")

    async def scenario() -> None:
        files = ServerTls(mode=TlsMode.PERMISSIVE, certificate_file=ours.file, key_file=ours.key, ca_file=theirs.file)
        tls = TlsSettings(ca_file=ours.file, certificate_file=theirs.file, key_file=theirs.key).context()
        handler = Answering()
        async with serving(handler, tls=FollowedContext(files, CLOCK)) as (_, address, _):
            for context, name in ((tls, "billing"), (None, "")):
                connection = await connect(address, tls_context=context)
                await connection.request(CODE, timeout_ms=5_000)
                assert (await handler.connected.get()).peer_name == name
                connection.close()
                await connection.wait_closed()

    run(scenario())
