"""Listening: sockets are accepted, greeted (PROXY protocol, TLS), counted, and handed to a connection each.

Greeting looks at the first bytes while they are still in the socket, so that a TLS engine gets its handshake whole: the
same code works on every event loop. It also means that a connection exists for the handler once its peer has spoken.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Final, Generic, Self, TypeVar

from pyromq.clock import Clock
from pyromq.errors import ConfigError
from pyromq.net.address import Address
from pyromq.net.connection import Connection
from pyromq.net.exposure import NO_MATTER, Exposure
from pyromq.net.half_read import HalfReadFrames
from pyromq.net.handler import Handler
from pyromq.net.handshakes import HANDSHAKE_S, Handshakes
from pyromq.net.idle import IdleWatch, Watched
from pyromq.net.preamble import PEEK_BYTES, Preamble, PreambleError
from pyromq.net.proxies import NO_PROXIES, TrustedProxies
from pyromq.net.settings import DEFAULT_SETTINGS, ConnectionSettings, TlsMode
from pyromq.net.stalls import StallWatch
from pyromq.net.tls import ServerContext

logger = logging.getLogger(__name__)

BACKLOG: Final = 1024
_ABORT_S: Final = 1.0  # an aborted connection ends in the next loop iteration
_PART_S: Final = 0.25  # for requests of all connections that came before these are closed
_PART_LOOK_S: Final = 0.001  # between two looks at them
ACCEPT_PAUSE_S: Final = 0.1  # after accept() failed, out of descriptors perhaps


C = TypeVar("C", bound=Watched)


class ServerListener(ABC, Generic[C]):
    """Accepts, greets and counts connections of one protocol; ``_connection`` makes them.

    ``proxies`` may say in a PROXY protocol header for whom they speak.
    """

    def __init__(
        self,
        listen: Sequence[Address],
        *,
        clock: Clock,
        settings: ConnectionSettings = DEFAULT_SETTINGS,
        connections_max: int = 10_000,
        tls: ServerContext | None = None,
        proxies: TrustedProxies = NO_PROXIES,
        exposure: Exposure = NO_MATTER,
    ) -> None:
        self._listen = list(listen)
        self._clock = clock
        self._settings = settings
        self._connections_max = connections_max
        self._tls = tls or ServerContext()
        self._proxies = proxies
        self._exposure = exposure
        self.stalls = StallWatch()  # of the loop, by requests that came here
        self.half_read = HalfReadFrames(settings.half_read_bytes_max)
        self._watch: IdleWatch[C] = IdleWatch(clock, settings.idle_ms)
        self._handshakes = Handshakes(clock)
        self._listeners: list[socket.socket] = []
        self.addresses: list[Address] = []  # where it listens, in the order of ``listen``, with the ports chosen
        self._greeting: set[asyncio.Task[bool]] = set()  # sockets whose first bytes are awaited
        self._handing_over: set[asyncio.Task[bool]] = set()  # of those, the ones whose transport is being made
        self._is_full = False  # the last peer was refused: connections_max is reached

    @property
    def connections(self) -> frozenset[C]:
        return frozenset(self._watch.connections)

    @property
    def connection_count(self) -> int:
        return len(self._watch.connections)

    def close_idle(self) -> None:
        """Closes connections that have been silent for too long; happens by itself from time to time."""
        self._watch.sweep()

    # --- life ------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens. Raises ConfigError for an address that cannot be bound, or that ``exposure`` does not allow."""
        try:
            for address in self._listen:
                self._listeners.append(await _bind(address))
        except ConfigError:
            self._close_listeners()
            raise
        self.addresses = [Address(*listener.getsockname()[:2]) for listener in self._listeners]
        try:
            self._exposure.check(self.addresses, self._tls)
        except ConfigError:
            self._close_listeners()
            raise
        for listener in self._listeners:
            self._accept_from(listener)
        logger.info("listening: addresses=%s", ",".join(map(str, self.addresses)))

    async def stop(self, *, grace_ms: int = 5_000) -> None:
        """Accepts no more, sends what is queued, closes; what is unsent after the grace time is dropped."""
        self._close_listeners()
        self._handshakes.close()
        beginning = self._greeting - self._handing_over
        for task in beginning:
            task.cancel()
        await asyncio.gather(*beginning, return_exceptions=True)
        if self._handing_over:  # a transport that is cancelled while it is made never says that it is lost
            await asyncio.wait(self._handing_over, timeout=grace_ms / 1000)
        connections = self.connections
        for connection in connections:
            connection.close("the server stops")
        waiting = [asyncio.ensure_future(connection.wait_closed()) for connection in connections]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=grace_ms / 1000)
            for connection in self.connections:
                connection.abort("the server stops")
            if late:
                await asyncio.wait(late, timeout=_ABORT_S)
            for waiter in waiting:
                waiter.cancel()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        self._listeners.clear()
        self.addresses = []

    # --- a new connection ------------------------------------------------------------------------------------------

    def _accept_from(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        """Without a task, which could be cancelled between the arrival of a connection and its registration here."""
        loop = asyncio.get_running_loop()
        try:
            peer_socket, name = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            logger.error("accept failed: address=%s error=%s", listener.getsockname(), error)
            loop.remove_reader(listener)
            loop.call_later(ACCEPT_PAUSE_S, self._accept_from, listener)
            return
        peer = Address(*name[:2])
        if self._refuses(peer):
            peer_socket.close()
            return
        task = loop.create_task(self._greet(peer_socket, peer))
        self._greeting.add(task)
        task.add_done_callback(partial(self._greeted, peer_socket))

    def _greeted(self, peer_socket: socket.socket, task: asyncio.Task[bool]) -> None:
        """Also when the task was cancelled before its first step."""
        self._greeting.discard(task)
        self._handing_over.discard(task)
        if task.cancelled() or task.exception() is not None or not task.result():
            peer_socket.close()

    def _refuses(self, peer: Address) -> bool:
        """Above the limit; the first refusal in a row is worth a warning, a flood of them is not."""
        was_full, self._is_full = self._is_full, self._count() >= self._connections_max
        if self._is_full:
            level = logging.DEBUG if was_full else logging.WARNING
            logger.log(level, "connection refused, limit reached: peer=%s max=%d", peer, self._connections_max)
        return self._is_full

    def _count(self) -> int:
        return len(self._watch.connections) + len(self._greeting)

    async def _greet(self, peer_socket: socket.socket, peer: Address) -> bool:
        """Whether a connection owns the socket now."""
        try:
            peer_socket.setblocking(False)
            async with asyncio.timeout(self._settings.idle_ms / 1000 or None):
                preamble = await _read_preamble(peer_socket, Preamble(proxy_protocol=peer.host in self._proxies))
            if preamble is None or not self._admits(preamble, peer):
                return False
            if preamble.is_tls:
                async with self._handshakes.turn(peer_socket):
                    await self._hand_over(peer_socket, preamble.source or peer, self._tls.current())
            else:
                await self._hand_over(peer_socket, preamble.source or peer)
            return True
        except PreambleError as error:
            logger.warning("connection closed, bad preamble: peer=%s error=%s", peer, error)
        except TimeoutError:
            logger.info("connection closed, peer sent nothing: peer=%s", peer)
        except (OSError, ssl.SSLError) as error:
            self._handshakes.failed(peer, error)
        return False

    def _admits(self, preamble: Preamble, peer: Address) -> bool:
        if preamble.is_tls and self._tls.mode is TlsMode.DISABLED:
            logger.warning("connection closed, TLS is disabled here: peer=%s", preamble.source or peer)
            return False
        if not preamble.is_tls and self._tls.mode is TlsMode.ENFORCING:
            logger.warning("connection closed, TLS is required here: peer=%s", preamble.source or peer)
            return False
        return True

    async def _hand_over(
        self, peer_socket: socket.socket, peer: Address, context: ssl.SSLContext | None = None
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handing_over.add(task)
        await asyncio.get_running_loop().connect_accepted_socket(
            partial(self._connection, peer),
            peer_socket,
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE_S if context else None,
        )

    @abstractmethod
    def _connection(self, peer: Address) -> asyncio.BaseProtocol:
        """Make a protocol that adds itself to the watch once it is connected."""


class Server(ServerListener[Connection]):
    """``async with Server(handler, [Address("127.0.0.1", 0)], clock=clock) as server: …``: listens inside the block.

    ``handler`` serves every address; ``connection.local`` says which one a peer came to.
    """

    connection_type: type[Connection] = Connection

    def __init__(
        self,
        handler: Handler,
        listen: Sequence[Address],
        *,
        clock: Clock,
        settings: ConnectionSettings = DEFAULT_SETTINGS,
        connections_max: int = 10_000,
        tls: ServerContext | None = None,
        proxies: TrustedProxies = NO_PROXIES,
        exposure: Exposure = NO_MATTER,
    ) -> None:
        super().__init__(
            listen,
            clock=clock,
            settings=settings,
            connections_max=connections_max,
            tls=tls,
            proxies=proxies,
            exposure=exposure,
        )
        self._handler = handler

    async def part(self, reason: str) -> None:
        """Close every connection once all that its peer has sent is served.

        Who gets no response to a request cannot know whether it was carried out. Peers that send on and on, or never
        read, are closed after a moment, which is the same for all of them however busy the loop is.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + _PART_S
        while late := [each for each in self.connections if each.is_open]:
            is_over = loop.time() >= until_s
            for connection in late:
                if is_over or not connection.has_unserved:
                    connection.close(reason)
            if is_over or not any(each.is_open for each in late):
                return
            await asyncio.sleep(_PART_LOOK_S)

    def _connection(self, peer: Address) -> Connection:
        return self.connection_type(
            self._handler,
            self._clock,
            self._settings,
            self._watch,
            peer,
            is_server=True,
            half_read=self.half_read,
            stalls=self.stalls,
        )


async def _read_preamble(peer_socket: socket.socket, preamble: Preamble) -> Preamble | None:
    """None if the peer closed the connection before it sent a byte."""
    while not preamble.is_done:
        peeked = await _peek(peer_socket)
        if not peeked:
            return None
        peer_socket.recv(preamble.take(peeked))
    return preamble


async def _peek(peer_socket: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    while True:
        try:
            return peer_socket.recv(PEEK_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            readable = loop.create_future()
            loop.add_reader(peer_socket, _wake, readable)
            try:
                await readable
            finally:
                loop.remove_reader(peer_socket)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def _bind(address: Address) -> socket.socket:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, name = found[0]
        listener = socket.create_server(name[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigError(f"cannot listen on {address}: {error}") from error
    listener.setblocking(False)
    return listener
