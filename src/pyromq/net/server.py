"""Listening: sockets are accepted, greeted (PROXY protocol, TLS), counted, and handed to a connection each.

Greeting looks at the first bytes while they are still in the socket, so that a TLS engine gets its handshake whole: the
same code works on every event loop. It also means that a connection exists for the handler once its peer has spoken.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Sequence
from typing import Final, Self

from pyromq.clock import Clock
from pyromq.errors import ConfigError
from pyromq.net.address import Address
from pyromq.net.connection import Connection
from pyromq.net.errors import PreambleError
from pyromq.net.handler import Handler
from pyromq.net.idle import IdleWatch
from pyromq.net.preamble import PEEK_BYTES, Preamble
from pyromq.net.settings import DEFAULT_SETTINGS, ConnectionSettings, TlsMode

logger = logging.getLogger(__name__)

BACKLOG: Final = 1024
HANDSHAKE_S: Final = 10.0
ACCEPT_PAUSE_S: Final = 0.1  # after accept() failed, out of descriptors perhaps


class Server:
    """``async with Server(handler, [Address("127.0.0.1", 0)], clock=clock) as server: …``: listens inside the block.

    ``handler`` serves every address; ``connection.local`` tells which one a peer came to. ``proxy_protocol`` lets peers
    say who they are, so turn it on only behind a proxy that nobody can get around.
    """

    def __init__(
        self,
        handler: Handler,
        listen: Sequence[Address],
        *,
        clock: Clock,
        settings: ConnectionSettings = DEFAULT_SETTINGS,
        connections_max: int = 10_000,
        tls_mode: TlsMode = TlsMode.DISABLED,
        tls_context: ssl.SSLContext | None = None,
        proxy_protocol: bool = False,
    ) -> None:
        if tls_mode is not TlsMode.DISABLED and tls_context is None:
            raise ConfigError(f"TLS mode {tls_mode.value} needs a certificate")
        self._handler, self._listen, self._clock, self._settings = handler, list(listen), clock, settings
        self._connections_max = connections_max
        self._tls_mode, self._tls_context, self._proxy_protocol = tls_mode, tls_context, proxy_protocol
        self._watch = IdleWatch(clock, settings.idle_ms)
        self._listeners: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._greeting: set[asyncio.Task[None]] = set()
        self._is_full = False

    @property
    def addresses(self) -> list[Address]:
        """Where it listens, in the order of ``listen``, with the ports that the system chose."""
        return [Address(*listener.getsockname()[:2]) for listener in self._listeners]

    @property
    def connections(self) -> frozenset[Connection]:
        return frozenset(self._watch.connections)

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
        """Listens. Raises ConfigError if an address cannot be had."""
        try:
            for address in self._listen:
                self._listeners.append(await _bind(address))
        except ConfigError:
            self._close_listeners()
            raise
        loop = asyncio.get_running_loop()
        self._accepting = [loop.create_task(self._accept(listener)) for listener in self._listeners]
        logger.info("listening: addresses=%s", ",".join(map(str, self.addresses)))

    async def stop(self, *, grace_ms: int = 5_000) -> None:
        """Accepts no more, sends what is queued, closes; what is unsent after the grace time is dropped."""
        tasks = [*self._accepting, *self._greeting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._accepting.clear()
        self._close_listeners()
        connections = self.connections
        for connection in connections:
            connection.close("the server stops")
        waiting = [asyncio.ensure_future(connection.wait_closed()) for connection in connections]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=grace_ms / 1000)
            for connection in self.connections:
                connection.abort("the server stops")
            if late:
                await asyncio.wait(late)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    # --- a new connection ------------------------------------------------------------------------------------------

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer_socket, name = await loop.sock_accept(listener)
            except OSError as error:
                logger.error("accept failed: address=%s error=%s", listener.getsockname(), error)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            peer = Address(*name[:2])
            if self._refuses(peer):
                peer_socket.close()
                continue
            task = loop.create_task(self._greet(peer_socket, peer))
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)

    def _refuses(self, peer: Address) -> bool:
        """Above the limit; the first refusal in a row is worth a warning, a flood of them is not."""
        was_full, self._is_full = self._is_full, self._count() >= self._connections_max
        if self._is_full:
            level = logging.DEBUG if was_full else logging.WARNING
            logger.log(level, "connection refused, limit reached: peer=%s max=%d", peer, self._connections_max)
        return self._is_full

    def _count(self) -> int:
        return len(self._watch.connections) + len(self._greeting)

    async def _greet(self, peer_socket: socket.socket, peer: Address) -> None:
        is_handed_over = False
        try:
            peer_socket.setblocking(False)
            async with asyncio.timeout(self._settings.idle_ms / 1000 or None):
                preamble = await _read_preamble(peer_socket, Preamble(proxy_protocol=self._proxy_protocol))
            if preamble is None or not self._admits(preamble, peer):
                return
            is_handed_over = True
            await self._hand_over(peer_socket, preamble.source or peer, is_tls=preamble.is_tls)
        except PreambleError as error:
            logger.warning("connection closed, bad preamble: peer=%s error=%s", peer, error)
        except TimeoutError:
            logger.info("connection closed, it never spoke: peer=%s", peer)
        except (OSError, ssl.SSLError) as error:
            logger.warning("connection failed while it began: peer=%s error=%s", peer, error)
        finally:
            if not is_handed_over:
                peer_socket.close()

    def _admits(self, preamble: Preamble, peer: Address) -> bool:
        if preamble.is_tls and self._tls_mode is TlsMode.DISABLED:
            logger.warning("connection closed, TLS is disabled here: peer=%s", preamble.source or peer)
            return False
        if not preamble.is_tls and self._tls_mode is TlsMode.ENFORCING:
            logger.warning("connection closed, TLS is required here: peer=%s", preamble.source or peer)
            return False
        return True

    async def _hand_over(self, peer_socket: socket.socket, peer: Address, *, is_tls: bool) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: Connection(self._handler, self._clock, self._settings, self._watch, peer, is_server=True),
            peer_socket,
            ssl=self._tls_context if is_tls else None,
            ssl_handshake_timeout=HANDSHAKE_S if is_tls else None,
        )


async def _read_preamble(peer_socket: socket.socket, preamble: Preamble) -> Preamble | None:
    """None if the peer left without a word."""
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
