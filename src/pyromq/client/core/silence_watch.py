"""Silence watch: a broker that owes responses and says nothing is asked, not waited for.

    requests under way, nothing heard ─▶ a heartbeat without groups ─▶ answered: it holds pulls, all is well
      for ``probe_ms``, or one timed out         └ no answer in time ─▶ the connection is dropped, the broker is silent

A broker may hold a pull for 15 s, so a consumer cannot tell a quiet queue from a master that hangs, or whose network is
cut. When the connection is dropped, its pulls and sends fail, and are tried again. A silent broker has to answer a
heartbeat on the next connection before that is used: the machine of one that hangs accepts connections all the same.
Meanwhile routes are asked for (``master_watch``), and who waits goes to the next master as soon as there is one.

Nothing is timed while nobody waits: ``expect`` is called by those who do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from pyromq.client.core.brokers import Brokers
from pyromq.client.core.tasks import TaskOwner
from pyromq.clock import Clock
from pyromq.errors import ClientClosedError, ConnectFailedError, TooManyRequestsError, TransportError
from pyromq.net import Connection, Link

logger = logging.getLogger(__name__)

Probe = Callable[[Connection, int], Awaitable[None]]
"""Asks a broker for a sign of life within so many milliseconds. Raises TransportError."""

_LOOK_MS_MIN: Final = 10  # between two looks


class SilenceWatch:
    """Watch of one client over silent brokers; ``on_silent()`` is called when one is found."""

    def __init__(
        self,
        brokers: Brokers,
        probe: Probe,
        on_silent: Callable[[], None],
        clock: Clock,
        tasks: TaskOwner,
        *,
        probe_ms: int,
    ) -> None:
        self._brokers = brokers
        self._probe = probe
        self._on_silent = on_silent
        self._clock = clock
        self._tasks = tasks
        self._probe_ms = probe_ms
        self._since_ms: dict[Connection, int] = {}  # those that owe a response, and since when they are silent
        self._asked: set[Connection] = set()  # a probe is under way
        self._silent: set[str] = set()  # addresses of brokers that did not answer a probe
        self._timer: asyncio.TimerHandle | None = None
        self.is_watching = not probe_ms  # ``expect`` would do nothing

    def is_silent(self, address: str) -> bool:
        return address in self._silent

    def expect(self) -> None:
        """Watch the connections for as long as requests are under way."""
        if not self.is_watching:
            self.is_watching = True
            self._arm(self._probe_ms)

    def timed_out(self, link: Link) -> None:
        """A request was not answered in time: find out whether its broker is there."""
        if (connection := link.ready) is not None and self._probe_ms:
            self._ask(link, connection)

    async def admit(self, address: str, connection: Connection) -> None:
        """A new connection to a broker: one that was silent has to answer first. Raises ConnectFailedError."""
        if address not in self._silent:
            return
        try:
            await self._probe(connection, self._probe_ms)
        except TransportError as error:
            connection.abort("the broker accepts connections and answers nothing")
            raise ConnectFailedError(f"{address} accepts connections and answers nothing: {error}") from error
        self._silent.discard(address)
        logger.info("broker answers again: address=%s", address)

    def close(self) -> None:
        self.is_watching = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- looking ---

    def _arm(self, in_ms: int) -> None:
        self._timer = asyncio.get_running_loop().call_later(max(in_ms, _LOOK_MS_MIN) / 1000, self._look)

    def _look(self) -> None:
        """Ask the brokers that owe a response and were silent for too long; look again when the next one would be."""
        self._timer = None
        now_ms, before, self._since_ms = self._clock.monotonic_ms(), self._since_ms, {}
        for link in self._brokers.ready_links():
            if (connection := link.ready) is None or not connection.in_flight:
                continue  # silent because nothing was asked
            since_ms = before.get(connection, 0)
            if not since_ms and connection.unheard_ms <= now_ms:
                since_ms = connection.unheard_ms  # before that it owed nothing, or was heard of
            since_ms = max(since_ms, connection.heard_ms)
            if since_ms + self._probe_ms <= now_ms:
                since_ms = now_ms
                self._ask(link, connection)
            self._since_ms[connection] = since_ms
        if self._since_ms:
            self._arm(min(self._since_ms.values()) + self._probe_ms - now_ms)
        else:
            self.is_watching = False

    def _ask(self, link: Link, connection: Connection) -> None:
        if connection not in self._asked:
            self._asked.add(connection)
            try:
                self._tasks.start(self._require_answer(str(link.address), connection), name="probe")
            except ClientClosedError:
                self._asked.discard(connection)

    async def _require_answer(self, address: str, connection: Connection) -> None:
        before = connection.bytes_in
        try:
            await self._probe(connection, self._probe_ms)
        except TooManyRequestsError:
            pass  # it was not asked; the next request that is late has it asked again
        except TransportError as error:
            if connection.bytes_in == before:  # also when the connection was dropped meanwhile, as half open
                logger.warning("broker is silent, its connection is dropped: address=%s error=%s", address, error)
                self._silent.add(address)
                if connection.is_open:
                    connection.abort(f"silent: no answer to a heartbeat within {self._probe_ms} ms")
                self._on_silent()
        finally:
            self._asked.discard(connection)
