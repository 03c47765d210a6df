"""The console as a process: a listening socket, uvicorn on it, one line when it is ready, an orderly end.

    console=http://127.0.0.1:8082       on standard output; the password of a first start goes to standard error

A console that another process started ends with it, however that ends: its standard input is a pipe whose other end
only that process holds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Final

import uvicorn

from pyromq.console.app import create_app
from pyromq.console.auth.accounts import ADMIN
from pyromq.console.settings import DEFAULT_PORT, PASSWORD_VARIABLE, ConsoleSettings
from pyromq.errors import ConfigError

logger = logging.getLogger(__name__)

_BACKLOG: Final = 128
_STOP_S_MAX: Final = 5


class PortTakenError(ConfigError):
    """Choose another port, or 0 for any that is free; or stop the program that has it."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"port {port} on {host} cannot be used ({reason}): choose another one, or 0 for any")
        self.host = host
        self.port = port


def run_console(
    settings: ConsoleSettings, *, out: Callable[[str], object], tell: Callable[[str], object], beside: bool = False
) -> None:
    """Until SIGTERM or Ctrl-C, or (``beside``) until standard input ends. Raises ConfigError."""
    asyncio.run(_serve(settings, out, tell, beside))


def listening_socket(settings: ConsoleSettings) -> socket.socket:
    """On the port that was asked for, or on the default one, or (with a warning) on another. Raises PortTakenError."""
    if settings.port is not None:
        return _bound(settings.host, settings.port)
    try:
        return _bound(settings.host, DEFAULT_PORT)
    except PortTakenError as error:
        found = _bound(settings.host, 0)
        logger.warning("console on another port: wanted=%d used=%d (%s)", DEFAULT_PORT, found.getsockname()[1], error)
        return found


def url_of(listening: socket.socket, settings: ConsoleSettings) -> str:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.certificate else 'http'}://{shown}:{port}"


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"the console cannot listen on {host}: {error}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise PortTakenError(host, port, error.strerror or str(error)) from error
    return listening


async def _serve(
    settings: ConsoleSettings, out: Callable[[str], object], tell: Callable[[str], object], beside: bool
) -> None:
    listening = listening_socket(settings)
    with listening:
        app = await asyncio.to_thread(create_app, settings)  # hashes a password: slow on purpose
        server = _Server(_config(app, settings))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        if beside:
            loop.add_reader(sys.stdin.fileno(), _watch_starter, server)
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        began = asyncio.ensure_future(server.began.wait())
        await asyncio.wait([serving, began], return_when=asyncio.FIRST_COMPLETED)
        if server.began.is_set():
            if app.desk.accounts.generated:
                tell(_first_password(app.desk.accounts.generated, settings))
            out(f"console={url_of(listening, settings)}\n")
        began.cancel()
        await serving
        if not server.began.is_set():
            raise ConfigError("the console did not start: its log says why")


def _config(app: object, settings: ConsoleSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_graceful_shutdown=_STOP_S_MAX,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        limit_concurrency=1_000,
        h11_max_incomplete_event_size=64 << 10,
    )


class _Server(uvicorn.Server):
    """Says when it has begun; signals are ours."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.began = asyncio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        await self._serve(sockets)  # serve() would take the signals of the process

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.began.set()

    def stop(self) -> None:
        """A second time does not wait for anybody."""
        self.force_exit = self.should_exit
        self.should_exit = True


def _watch_starter(server: _Server) -> None:
    """Standard input can be read: either bytes that mean nothing, or its end."""
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        server.should_exit = server.force_exit = True


def _first_password(password: str, settings: ConsoleSettings) -> str:
    kept = f"kept hashed in {settings.data}" if settings.data else "for this run; --data DIR keeps it, hashed"
    how = f"shown this once, {kept}; or set {PASSWORD_VARIABLE}"
    return f"console: sign in as {ADMIN} with the password {password} ({how})\n"
