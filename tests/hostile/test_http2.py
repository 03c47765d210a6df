"""The attacks that HTTP/2 makes possible, by name, against the gRPC port of a real broker.

An attacker is cut off or held within a bound of memory; honest clients of both protocols are served meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from random import Random

import hpack
import pytest

from pyromq.aio import Admin, Message, Producer
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import (
    FilterExpression,
    GrpcMessage,
    MessageQueue,
    ProtoTime,
    Resource,
    SystemProperties,
)
from pyromq.wire.grpc.services import (
    PullMessageRequest,
    ReceiveMessageRequest,
    SendMessageRequest,
    SendMessageResponse,
)
from pyromq.wire.http2 import frames
from pyromq.wire.http2.frames import Http2Code
from tests.grpc.link import GrpcLink, open_link
from tests.grpc.raw import RawPeer
from tests.hostile.rig import Victim, beside_honest_client, count

pytestmark = pytest.mark.integration

CALM = Http2Code.ENHANCE_YOUR_CALM
TOPIC = Resource(name="attacked")
EVERYTHING = FilterExpression(kind=1, expression="*")
LARGE, LARGE_COUNT = Random(1).randbytes(500_000), 20  # compressing it would not help
POURED = 200  # calls at a time
WORD = (1).to_bytes(4, "big")
WIDEST = frames.encode_window_update(0, frames.WINDOW_MAX - frames.WINDOW_DEFAULT)

Attack = Callable[[Victim, int], Awaitable[None]]


def grpc_of(server: Victim) -> str:
    return server.addresses["grpc"]


# --- floods: each frame costs its sender nothing --------------------------------------------------------------------


def flood(frame: bytes, code: Http2Code | None = CALM, *, opens: bool = False) -> Attack:
    """The same frame again and again, until the connection is ended with that code; None: it need not be."""

    async def attack(server: Victim, tries: int) -> None:
        async with RawPeer(grpc_of(server)) as peer:
            await peer.send(peer.head(1, "SendMessage") if opens else b"")
            is_open = await peer.send(frame * tries)
            if code is not None or not is_open:
                ended = await peer.ended()
                assert ended in (code, None), f"ended with {ended}"

    return attack


async def pour(peer: RawPeer, calls: Iterator[bytes]) -> None:
    """Send many at a time until the server ends it; one by one, a busy machine is slower than what is allowed."""
    while sent := b"".join(islice(calls, POURED)):
        if not await peer.send(sent):
            return


async def rapid_reset(server: Victim, tries: int) -> None:
    """Calls that wait at the broker, each taken back at once (CVE-2023-44487)."""
    request = ReceiveMessageRequest(
        group=Resource(name="attackers"),
        message_queue=MessageQueue(topic=TOPIC),
        filter_expression=EVERYTHING,
        batch_size=1,
        invisible_duration=ProtoTime(seconds=10),
        long_polling_timeout=ProtoTime(seconds=20),
    )
    async with RawPeer(grpc_of(server)) as peer:
        await pour(
            peer,
            (
                peer.call(stream, "ReceiveMessage", request) + frames.encode_reset(stream, Http2Code.CANCEL)
                for stream in range(1, 2 * tries, 2)
            ),
        )
        assert await peer.ended() in (CALM, None)


async def resets_provoked(server: Victim, tries: int) -> None:
    """Streams that the server has to reset itself, by a window that grows by nothing (MadeYouReset, CVE-2025-8671)."""
    async with RawPeer(grpc_of(server)) as peer:
        nothing = (0).to_bytes(4, "big")
        await pour(
            peer,
            (
                peer.head(stream, "SendMessage") + frames.encode_frame(frames.WINDOW_UPDATE, 0, stream, nothing)
                for stream in range(1, 2 * tries, 2)
            ),
        )
        assert await peer.ended() in (CALM, None)


async def closed_streams(server: Victim, tries: int) -> None:
    """DATA for streams that are over: the first is answered with a reset, the rest is passed over."""
    async with RawPeer(grpc_of(server)) as peer:
        await peer.send(peer.head(1, "SendMessage", ended=True) + peer.head(3, "SendMessage", ended=True))
        late = frames.encode_frame(frames.DATA, 0, 1, b"late") + frames.encode_frame(frames.DATA, 0, 3, b"late")
        await peer.send(late * (tries // 2))
        await peer.look()
        resets = [stream for kind, _, stream, _ in peer.seen if kind == frames.RST_STREAM]
        assert len(resets) <= 2, "a frame that costs nothing is not answered"


# --- header lists ---------------------------------------------------------------------------------------------------


async def continuation_flood(server: Victim, tries: int) -> None:
    """A header block that never ends (CVE-2024-27316 and others)."""
    async with RawPeer(grpc_of(server)) as peer:
        block = hpack.Encoder().encode([("x-part", "y" * 900)])
        begun = frames.encode_frame(frames.HEADERS, 0, 1, block)
        await peer.send(begun + frames.encode_frame(frames.CONTINUATION, 0, 1, block) * tries)
        assert await peer.ended() in (CALM, None)


async def header_bomb(server: Victim, tries: int) -> None:
    """One long value in the table, named again by one byte each (CVE-2016-6581)."""
    async with RawPeer(grpc_of(server)) as peer:
        bomb = hpack.Encoder().encode([("x-bomb", "y" * 3_900)]) + b"\xbe" * tries
        await peer.send(frames.encode_frame(frames.HEADERS, frames.END_HEADERS, 1, bomb[: frames.FRAME_BYTES_MAX]))
        assert await peer.ended() in (CALM, Http2Code.COMPRESSION_ERROR, None)


async def lists_of_open_streams(server: Victim, tries: int) -> None:
    """Calls that never end, each with a header list as long as is allowed, which takes some bytes on the wire."""
    before_mb = server.rss_mb
    async with RawPeer(grpc_of(server)) as peer:
        more = {f"x-part-{number}": "y" * 3_000 for number in range(9)}
        for number in range(tries):
            if not await peer.send(peer.head(2 * number + 1, "SendMessage", **more)):
                break
        assert server.rss_mb - before_mb < LISTS_MB_MAX, "lists of calls that are not complete are counted"


# --- those who do not read ------------------------------------------------------------------------------------------


def _pulls(peer: RawPeer, tries: int) -> bytes:
    request = PullMessageRequest(
        group=Resource(name="attackers"),
        message_queue=MessageQueue(topic=TOPIC),
        batch_size=32,
        filter_expression=EVERYTHING,
    )
    return b"".join(peer.call(2 * number + 1, "PullMessage", request) for number in range(tries))


async def slow_reader(server: Victim, tries: int) -> None:
    """All windows are open, and nobody reads the socket."""
    async with RawPeer(grpc_of(server), initial_window_size=frames.WINDOW_MAX) as peer:
        peer.writer.write(WIDEST + _pulls(peer, tries))
        await asyncio.sleep(3)
        assert server.rss_mb < HELD_MB_MAX + BASE_MB, "what waits for one peer is bounded"


async def window_exhaustion(server: Victim, tries: int) -> None:
    """The socket is read, and no window is ever opened."""
    async with RawPeer(grpc_of(server), initial_window_size=0) as peer:
        await peer.send(_pulls(peer, tries))
        for _ in range(30):
            await peer.look()
            await asyncio.sleep(0.1)
        assert server.rss_mb < HELD_MB_MAX + BASE_MB, "what waits for one peer is bounded"


HELD_MB_MAX, BASE_MB = 160, 120  # 64 MB that wait, once more as they are made; a broker
LISTS_MB_MAX = 100


@dataclass(frozen=True)
class Named:
    """An attack, how often it is tried in the short and in the long run, and how much memory may stay."""

    attack: Attack
    short: int
    long: int
    growth_mb_max: int = 60


PING = frames.encode_frame(frames.PING, 0, 0, bytes(8))
ATTACKS = {
    "slow reader": Named(slow_reader, 200, 400, 160),
    "window exhaustion": Named(window_exhaustion, 200, 400, 160),
    "rapid reset": Named(rapid_reset, 5_000, 50_000),
    "resets provoked": Named(resets_provoked, 5_000, 50_000),
    "SETTINGS flood": Named(flood(frames.encode_settings(())), 20_000, 500_000),
    "PING flood": Named(flood(PING), 20_000, 500_000),
    "PING responses that nobody asked for": Named(
        flood(frames.encode_frame(frames.PING, frames.ACK, 0, bytes(8)), None), 20_000, 500_000
    ),
    "PRIORITY flood": Named(flood(frames.encode_frame(frames.PRIORITY, 0, 3, bytes(5))), 20_000, 500_000),
    "empty DATA flood": Named(flood(frames.encode_frame(frames.DATA, 0, 1, b""), opens=True), 20_000, 500_000),
    "frames of unknown types": Named(flood(frames.encode_frame(77, 0, 0, b"")), 20_000, 500_000),
    "WINDOW_UPDATE flood": Named(
        flood(frames.encode_frame(frames.WINDOW_UPDATE, 0, 0, WORD), None), 100_000, 1_000_000
    ),
    "GOAWAY flood": Named(flood(frames.encode_goaway(0, Http2Code.NO_ERROR), None), 20_000, 500_000),
    "CONTINUATION flood": Named(continuation_flood, 2_000, 100_000),
    "header bomb (HPACK)": Named(header_bomb, 12_000, 12_000),
    "header lists of open streams": Named(lists_of_open_streams, 4_500, 10_000),
    "DATA on closed streams": Named(closed_streams, 20_000, 500_000),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """One broker for all of them: what an attack leaves behind, the next one meets."""
    made = Victim(tmp_path_factory.mktemp("http2") / "victim")
    asyncio.run(made.start())
    try:
        asyncio.run(_prepare(made))
        yield made
    finally:
        asyncio.run(made.stop())


async def _prepare(server: Victim) -> None:
    async with Admin(server.nameserver) as admin:
        await admin.topics.create("attacked", queues=1)
        await admin.topics.create("honest-grpc", queues=1)
    async with Producer(server.nameserver, group="makers") as producer:
        for _ in range(LARGE_COUNT):
            await producer.send(Message("attacked", LARGE))


def _address(server: Victim) -> tuple[str, int]:
    host, port = grpc_of(server).rsplit(":", 1)
    return host, int(port)


async def _send(link: GrpcLink, topic: str, body: bytes) -> int:
    facts = SystemProperties(message_id="01" + "0" * 32, body_encoding=1, message_type=1)
    request = SendMessageRequest(messages=[GrpcMessage(topic=Resource(name=topic), body=body, system_properties=facts)])
    (response,) = await link.call("SendMessage", request, SendMessageResponse, timeout_s=60)
    status = response.entries[0].status if response.entries else response.status
    return status.code if status is not None else 0


@asynccontextmanager
async def beside_honest_calls(server: Victim) -> AsyncIterator[None]:
    """A client of gRPC sends on a connection of its own, and every send is confirmed."""
    link = await open_link(*_address(server), "honest")
    codes: list[int] = []

    async def work() -> None:
        while True:
            codes.append(await _send(link, "honest-grpc", b"honest"))
            await asyncio.sleep(0.01)

    task = asyncio.ensure_future(work())
    try:
        yield
        confirmed = len(codes)
        async with asyncio.timeout(60):
            while len(codes) < confirmed + 3 and not task.done():  # noqa: ASYNC110 - some more, now that it is over
                await asyncio.sleep(0.01)
        assert not task.done(), f"the honest client was cut off: {task.exception()!r}"
        assert set(codes) == {StatusCode.OK}, codes
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        link.close()


@pytest.mark.parametrize("name", ATTACKS, ids=lambda name: name.replace(" ", "-"))
async def test_attackers_are_held_or_cut_off_and_others_served(
    name: str, server: Victim, record_property: Callable[[str, object], None]
) -> None:
    named = ATTACKS[name]
    tries = count(named.short, named.long)
    async with beside_honest_client(server, f"HTTP/2: {name}", tries, record_property) as attack:
        async with beside_honest_calls(server):
            await named.attack(server, tries)
    assert attack.after_mb - attack.before_mb < named.growth_mb_max, attack
