"""The endpoint of one process: a thread with a loop of its own, so that nothing it does holds up the servers."""

from __future__ import annotations

import asyncio
import errno
import logging
import ssl
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from pyromq.clock import Clock, SystemClock
from pyromq.endpoint.collecting import Collection
from pyromq.endpoint.otlp_push import OtlpPush
from pyromq.endpoint.pages import EndpointPages
from pyromq.endpoint.sources import MetricsSource
from pyromq.endpoint.verdicts import LoopBeat, Probes
from pyromq.errors import ConfigError
from pyromq.httpd.server import HttpServer
from pyromq.metrics.samples import ServerSamples
from pyromq.metrics.settings import DEFAULT_PORT, MetricsSettings
from pyromq.net.address import Address

logger = logging.getLogger(__name__)

T = TypeVar("T")

_STOP_S: Final = 5.0
_TOKEN_CHARACTERS_MIN: Final = 16
_ADVICE: Final = "choose another with --metrics-port (0: any free one), or switch metrics off with --no-metrics"
_RISK: Final = (
    "metrics can be read from other machines: who reaches them learns the names of topics and groups and how much "
    "they carry. Listen on 127.0.0.1 (metrics.host), or set metrics.token_file and metrics.tls, or insecure_network "
    "(--insecure-network) if a firewall keeps strangers out"
)


@dataclass(frozen=True, slots=True)
class Shelter:
    """What keeps strangers out, beside the token."""

    tls: ssl.SSLContext | None = None  # of the server whose metrics are shown
    insecure_network: bool = False  # the operator accepts the risk


class Endpoint:
    """``async with Endpoint(settings) as endpoint`` on the servers' loop; sources may come later."""

    def __init__(
        self, settings: MetricsSettings, shelter: Shelter | None = None, *, clock: Clock | None = None
    ) -> None:
        """Prepare the endpoint; nothing listens yet. Raises ConfigError when the token cannot be read."""
        self._settings = settings
        self._shelter = shelter or Shelter()
        self._clock = clock or SystemClock()
        self._token = _token(settings.token_file)
        self.sources: list[MetricsSource] = []
        self._collection = Collection(self._clock)
        self._collection.sources = self.sources
        self._beat = LoopBeat(self._clock)
        self._servers_loop: asyncio.AbstractEventLoop | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: HttpServer | None = None
        self._push: OtlpPush | None = None
        self.url = ""

    def add(self, source: MetricsSource) -> None:
        self.sources.append(source)

    # --- life, on the servers' loop ---

    async def __aenter__(self) -> Self:
        """Listen. Raises ConfigError when the port that was asked for is taken, or when strangers could read what it
        shows.
        """
        settings, self._servers_loop = self._settings, asyncio.get_running_loop()
        _check_exposure(settings, self._shelter)
        if settings.tls and self._shelter.tls is None:
            raise ConfigError(
                "metrics.tls uses the TLS of this server, which is off: set tls_mode and tls_certificate_file"
            )
        # whatever loops this process has: uvloop's would read what a client says first before TLS is there to take it
        self._own_loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._run, args=(self._own_loop,), name="pyromq-metrics", daemon=True)
        self._thread.start()
        try:
            await self._on_own_loop(self._open())
        except BaseException:  # the thread must not outlive a start that failed; raised again
            self._stop_thread()
            raise
        self._beat.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._beat.stop()
        await self._on_own_loop(self._close())
        self._stop_thread()

    async def _on_own_loop(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._own_loop is not None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._own_loop))

    def _stop_thread(self) -> None:
        if self._own_loop is not None and self._thread is not None:
            self._own_loop.call_soon_threadsafe(self._own_loop.stop)
            self._thread.join(_STOP_S)

    # --- on its own thread ---

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    async def _open(self) -> None:
        settings = self._settings
        probes = Probes(self.sources, self._beat, self._call)
        checks = {"live": probes.live, "ready": probes.ready, "startup": probes.startup}
        pages = EndpointPages(
            self._collect,
            checks,
            series_max=settings.series_max,
            token=self._token,
            is_loopback=_is_loopback(settings.host),
        )
        if settings.otlp_endpoint:
            self._push = OtlpPush(settings, self._collect, pages.limited)
            self._collection.more = self._push.families
            self._push.start()
        if settings.enabled:
            tls = self._shelter.tls if settings.tls else None
            self._server = HttpServer(pages.answer, tls=tls, is_brief=pages.is_probe)
            await self._listen(self._server)

    async def _listen(self, server: HttpServer) -> None:
        settings = self._settings
        wanted = Address(settings.host, DEFAULT_PORT if settings.port is None else settings.port)
        try:
            await server.start(wanted)
        except OSError as error:
            if settings.port is not None or error.errno != errno.EADDRINUSE:
                raise ConfigError(
                    f"metrics: cannot listen on {wanted}: {error.strerror or error}; {_ADVICE}"
                ) from error
            await self._listen_elsewhere(server)
        scheme = "https" if settings.tls else "http"
        self.url = f"{scheme}://{server.address}/metrics"
        logger.info("metrics and health: url=%s", self.url)

    async def _listen_elsewhere(self, server: HttpServer) -> None:
        address = Address(self._settings.host, 0)
        try:
            await server.start(address)
        except OSError as error:
            raise ConfigError(f"metrics: cannot listen on {address}: {error.strerror or error}; {_ADVICE}") from error
        logger.warning(
            "default metrics port taken, another one picked: taken=%d port=%d", DEFAULT_PORT, server.address.port
        )

    async def _close(self) -> None:
        if self._push is not None:
            await self._push.stop()
        if self._server is not None:
            await self._server.stop()

    # --- asking the servers' loop ---

    async def _collect(self) -> list[ServerSamples]:
        assert self._servers_loop is not None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._collection.parts(), self._servers_loop))

    async def _call(self, function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        assert self._servers_loop is not None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(), self._servers_loop))


def _check_exposure(settings: MetricsSettings, shelter: Shelter) -> None:
    """Refuse to show metrics to strangers (ConfigError), or warn where the operator accepts that."""
    knows_peers = shelter.tls is not None and (shelter.tls.verify_mode is ssl.CERT_REQUIRED or settings.token_file)
    if not settings.enabled or _is_loopback(settings.host) or knows_peers:
        return
    if not shelter.insecure_network:
        raise ConfigError(f"{settings.host}: {_RISK}")
    logger.warning("metrics are open to other machines: host=%s", settings.host)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _token(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"metrics.token_file {path} cannot be read: {error}") from error
    if len(token) < _TOKEN_CHARACTERS_MIN:
        raise ConfigError(f"metrics.token_file {path}: a token has at least {_TOKEN_CHARACTERS_MIN} characters")
    return token
