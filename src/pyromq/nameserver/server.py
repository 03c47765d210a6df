"""A name server on the network: connections, requests and the clock brought together.

Name servers do not know of each other: every broker registers with all of them, clients ask any.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, Self

from pyromq.clock import Clock, SystemClock
from pyromq.metrics.health import HealthReport, Startup
from pyromq.metrics.process_table import KNOWN_BROKERS, KNOWN_TOPICS
from pyromq.metrics.samples import Family, ServerSamples
from pyromq.nameserver.auditing import open_log
from pyromq.nameserver.guarding import GuardedService
from pyromq.nameserver.kv_config import KvConfig
from pyromq.nameserver.kv_file import KvFile
from pyromq.nameserver.route_table import RouteTable
from pyromq.nameserver.service import LaterFrame, NameServerService
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import Address, Connection, Handler, Server
from pyromq.net.measuring import server_families
from pyromq.net.turns import Turns
from pyromq.security.audit import AuditLog
from pyromq.security.guard import Guard
from pyromq.security.opening import AccessLocation, FollowedFile, followed_file, open_guard
from pyromq.security.resources import ALL_NAMES
from pyromq.security.rights import NAMESERVER_RIGHTS
from pyromq.whole_text import SystemDisk
from pyromq.wire.header_errors import HeaderFieldError
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

LATER_MAX: Final = 8  # responses that are made on other threads at once; more are asked to come back
_WRITE_S: Final = 1.0  # between two looks for new entries of the audit log


class NameServer:
    """``async with NameServer(settings) as server``: serves inside the block; ``server.address`` says where."""

    def __init__(
        self,
        settings: NameServerSettings | None = None,
        *,
        clock: Clock | None = None,
        new_server: Callable[..., Server] = Server,
    ) -> None:
        self._settings = settings or NameServerSettings()
        self._clock = clock or SystemClock()
        self._new_server = new_server
        self._running: _Running | None = None
        self.guard: Guard | None = None  # while it runs with access control

    @property
    def address(self) -> Address:
        """Where it listens, with the port that the system chose if the settings say 0."""
        assert self._running is not None, "only inside the block"
        return self._running.server.addresses[0]

    # --- how it is ---

    def startup(self) -> Startup:
        """May be asked from any thread."""
        is_done = self._running is not None
        return Startup(is_done, "the name server answers" if is_done else "the name server does not listen yet")

    def health(self) -> HealthReport:
        """Health of this name server; called on its loop."""
        if self._running is None:
            return HealthReport(("the name server does not answer: it has not started, or it has stopped",))
        return HealthReport()

    @property
    def common_labels(self) -> dict[str, str]:
        """Labels added to every metric of this name server."""
        address = str(self.address) if self._running else ""
        return {**self._settings.metrics.label_values, "cluster": "", "node_type": "nameserver", "node_id": address}

    def collect(self) -> Generator[None, None, list[ServerSamples]]:
        """The metrics of this moment, in steps."""
        if self._running is None:
            return []
        table = self._running.table
        yield
        found = [
            *server_families("nameserver", self._running.server),
            Family(KNOWN_BROKERS, [((), table.member_count)]),
            Family(KNOWN_TOPICS, [((), table.topic_count)]),
        ]
        return [ServerSamples(self.common_labels, found)]

    # --- life ---

    async def __aenter__(self) -> Self:
        """Reads the key-value file, if there is one, and listens. Raises ConfigError, CorruptFileError, OSError."""
        settings = self._settings
        kv = KvConfig(KvFile(settings.kv_path) if settings.kv_path else None, limits=settings.limits)
        service = NameServerService(settings, clock=self._clock, kv=kv)
        listen = [Address(settings.host, settings.port)]
        guard = _open_guard(settings)
        followed = followed_file(settings.access, SystemDisk(), guard.book) if guard else None
        log = open_log(settings, self._clock)
        auditing = service.audit(log, guard) if log else None
        requests = _Requests(service, self._clock, GuardedService(service, guard, auditing) if guard else None)
        server = settings.listener.server(requests, listen, clock=self._clock, new=self._new_server)
        requests.turns.stalls = server.stalls
        await server.start()
        self._running = _Running(service, server, requests, followed, log)
        self.guard = guard
        logger.info("name server started: address=%s", self.address)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        running, self._running = self._running, None
        if running is not None:
            await running.stop()
            logger.info("name server stopped")


class _Running:
    """A server that listens, the timer that looks for silent brokers, and the one that writes the audit log."""

    def __init__(
        self,
        service: NameServerService,
        server: Server,
        requests: _Requests,
        followed: FollowedFile | None,
        log: AuditLog | None,
    ) -> None:
        self._service = service
        self._requests = requests
        self._followed = followed
        self._log = log
        self.server = server
        self._timer = self._scan_later()
        self._writing = None if log is None else asyncio.create_task(_write_forever(log), name="write audit log")

    @property
    def table(self) -> RouteTable:
        return self._service.table

    async def stop(self) -> None:
        self._timer.cancel()
        await self.server.stop()
        await self._requests.stop()
        if self._writing is not None and self._log is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
            self._log.close()

    def _scan_later(self) -> asyncio.TimerHandle:
        delay_s = self._service.settings.scan_interval_ms / 1000
        return asyncio.get_running_loop().call_later(delay_s, self._scan)

    def _scan(self) -> None:
        self._timer = self._scan_later()
        if self._followed is not None:
            self._followed.refresh()
        began_s = self.server.stalls.begin()
        for entry in self._service.drop_silent():
            if isinstance(entry.connection, Connection):
                entry.connection.close("its broker was silent for too long")
        self.server.stalls.ended(began_s, "looking for silent brokers")


async def _write_forever(log: AuditLog) -> None:
    while True:
        await asyncio.sleep(_WRITE_S)
        log.tick()
        if log.has_news:
            await asyncio.to_thread(log.flush)


class _Requests(Handler):
    """Between connections, which also serve as tokens, and the service."""

    def __init__(self, service: NameServerService, clock: Clock, guarded: GuardedService | None = None) -> None:
        """``guarded``: the service for those who may, where there is access control."""
        self._service = service
        self._guarded = guarded
        self._handle = service.handle if guarded is None else guarded.handle
        self._clock = clock
        self.turns = Turns(self._serve, clock.monotonic_s)
        self._later: set[asyncio.Task[None]] = set()  # responses that other threads make

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        self.turns.take(connection, requests)

    def _serve(self, connection: Connection, coming: Iterator[Received[Any]]) -> bool:
        until_s = self.turns.until_s()
        for request in coming:
            response = self._handle(request, connection)
            if isinstance(response, LaterFrame):
                self._send_later(connection, response)
            elif response is not None:
                connection.send(response)
            if self._clock.monotonic_s() >= until_s:
                return True
        return False

    def _send_later(self, connection: Connection, response: LaterFrame) -> None:
        if len(self._later) >= LATER_MAX:
            connection.send(response.refused())
            return
        task = asyncio.get_running_loop().create_task(_send_made(connection, response), name="make a response")
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def stop(self) -> None:
        """Nobody waits for responses any more."""
        later = tuple(self._later)
        for task in later:
            task.cancel()
        await asyncio.gather(*later, return_exceptions=True)

    def on_drained(self, connection: Connection) -> None:
        self.turns.go_on(connection)

    def on_bad_header(self, connection: Connection, error: HeaderFieldError) -> None:
        guarded = self._guarded
        refused = self._service.refuse_header(error) if guarded is None else guarded.refuse_header(error, connection)
        if refused is not None:
            connection.send(refused)
        self.turns.spent(connection)

    def on_disconnected(self, connection: Connection, reason: str) -> None:
        self.turns.drop(connection)
        self._service.drop_connection(connection)


async def _send_made(connection: Connection, response: LaterFrame) -> None:
    connection.send(await asyncio.to_thread(response.frame))


def _open_guard(settings: NameServerSettings) -> Guard | None:
    """Open access control, if it is enabled. Raises ConfigError, CorruptFileError."""
    if not settings.access.is_on:
        return None
    folder = settings.kv_path.parent if settings.kv_path else None
    return open_guard(settings.access, AccessLocation(ALL_NAMES, folder, SystemDisk()), NAMESERVER_RIGHTS)
