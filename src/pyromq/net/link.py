"""Link: a lasting relation to one address. It connects on demand, with one connection for all callers.

Nothing happens in the background: a link that is not used stays down. While it backs off, calls fail at once, so that
the caller may go to another server, or wait if the caller asks for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, Self

from pyromq.clock import Clock
from pyromq.errors import ClientClosedError, ConnectFailedError
from pyromq.net.address import Address
from pyromq.net.backoff import DEFAULT_BACKOFF, Backoff
from pyromq.net.connection import Connection
from pyromq.net.link_state import LinkState, LinkStep, Phase
from pyromq.wire.command import Ext
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

CLOSE_MS: Final = 2_000  # for what is unsent, and for the farewell of TLS

Outcome = Connection | ConnectFailedError | ClientClosedError


class Link:
    """``Link(address, connect=partial(open_connection, address, clock=clock), …)``; close it, or use ``async with``.

    ``connect`` opens a connection within a bounded time or raises ConnectFailedError.
    """

    def __init__(
        self,
        address: Address,
        *,
        connect: Callable[[], Awaitable[Connection]],
        clock: Clock,
        rng: Random,
        backoff: Backoff = DEFAULT_BACKOFF,
    ) -> None:
        self.address = address
        self._connect = connect
        self._clock = clock
        self._state = LinkState(backoff, rng)
        self._connection: Connection | None = None
        self._outcome: asyncio.Future[Outcome] | None = None  # of the attempt under way
        self._attempt: asyncio.Task[None] | None = None
        self._last_failure = ""
        self._gone = ""  # why there is nobody to connect to any more, though whoever asks lives on

    @property
    def phase(self) -> Phase:
        return self._state.phase

    @property
    def ready(self) -> Connection | None:
        """The connection if there is one, without waiting: the fast way for senders of many requests."""
        connection = self._connection
        return connection if connection is not None and connection.is_open else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self, *, gone: str = "") -> None:
        """Final: an attempt under way is given up, and callers that wait for it get ClientClosedError.

        ``gone`` says why the peer alone is of no use any more: they get ConnectFailedError, and may ask another one. A
        peer that does not take what is unsent is not waited for.
        """
        self._gone = gone
        self._state.closed()
        self._settle(self._closed())
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.gather(self._attempt, return_exceptions=True)
        if self._connection is not None:
            connection = self._connection
            connection.close()
            try:
                async with asyncio.timeout(CLOSE_MS / 1000):
                    await connection.wait_closed()
            except TimeoutError:
                connection.abort("the link was closed")
                await connection.wait_closed()

    async def request(self, code: int, header: Ext = None, body: bytes = b"", *, timeout_ms: int) -> Received[Any]:
        """``Connection.request`` on whatever connection there is; connecting counts towards the timeout.

        Raises ConnectFailedError and ClientClosedError in addition.
        """
        connection = self.ready
        if connection is None:
            started_ms = self._clock.monotonic_ms()
            connection = await self.connection(timeout_ms=timeout_ms)
            timeout_ms -= self._clock.monotonic_ms() - started_ms
        return await connection.request(code, header, body, timeout_ms=timeout_ms)

    async def connection(self, *, timeout_ms: int, wait: bool = False) -> Connection:
        """An open connection. ``wait``: while backing off, wait and try again rather than raise.

        Raises ConnectFailedError, also when the time is up, and ClientClosedError.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._connection_at_last() if wait else await self._connection_now()
        except TimeoutError as error:
            after = f" after {self._last_failure}" if self._last_failure else ""
            raise self._failure(f"no connection to {self.address} within {timeout_ms} ms{after}") from error

    async def _connection_at_last(self) -> Connection:
        while True:
            try:
                return await self._connection_now()
            except ConnectFailedError:
                if self._gone:
                    raise
                await asyncio.sleep(max(1, self._state.retry_at_ms - self._clock.monotonic_ms()) / 1000)

    async def _connection_now(self) -> Connection:
        match self._state.wanted(self._clock.monotonic_ms()):
            case LinkStep.USE:
                return await self._usable()
            case LinkStep.WAIT:
                retry_ms = self._state.retry_at_ms - self._clock.monotonic_ms()
                raise self._failure(f"{self._last_failure}; next attempt in {retry_ms} ms")
            case LinkStep.REFUSE:
                raise self._closed()
            case LinkStep.CONNECT:
                self._outcome = asyncio.get_running_loop().create_future()
                self._attempt = asyncio.get_running_loop().create_task(self._try())
        assert self._outcome is not None
        outcome = await asyncio.shield(self._outcome)
        if isinstance(outcome, ConnectFailedError):
            raise self._failure(str(outcome)) from outcome
        if isinstance(outcome, ClientClosedError):
            raise ClientClosedError(str(outcome))
        return outcome

    async def _usable(self) -> Connection:
        connection = self._connection
        assert connection is not None
        if connection.is_open:
            return connection
        await connection.wait_closed()  # it is about to end
        return await self._connection_now()

    async def _try(self) -> None:
        try:
            connection = await self._connect()
        except ConnectFailedError as error:
            self._on_failed(error)
            return
        except Exception as error:  # a defect of the connect function must not leave callers waiting
            logger.exception("link broken by its connect function: peer=%s", self.address)
            self._on_failed(self._failure(f"no connection to {self.address}: {error!r}"))
            return
        if not self._state.connected():
            connection.abort("the link was closed")
            return
        logger.debug("link up: peer=%s", self.address)
        self._connection = connection
        connection.call_when_closed(self._on_lost)
        self._settle(connection)

    def _on_failed(self, error: ConnectFailedError) -> None:
        self._last_failure = str(error)
        self._state.failed(self._clock.monotonic_ms())
        logger.info("link down: peer=%s failures=%d error=%s", self.address, self._state.failures, error)
        self._settle(error)

    def _settle(self, outcome: Outcome) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(outcome)

    def _on_lost(self, connection: Connection) -> None:
        self._connection = None
        self._last_failure = f"the connection to {self.address} ended: {connection.close_reason}"
        self._state.lost(self._clock.monotonic_ms(), was_heard=connection.bytes_in > 0)

    def _closed(self) -> ConnectFailedError | ClientClosedError:
        if self._gone:
            return self._failure(f"{self.address} {self._gone}")
        return ClientClosedError(f"the link to {self.address} was closed")

    def _failure(self, text: str) -> ConnectFailedError:
        return ConnectFailedError(text, peer=str(self.address))
