"""The console as a process: a listening socket, uvicorn on it, one line when it is ready, an orderly end.

    console=http://127.0.0.1:8082       on standard output; the password of a first start goes to standard error

A console that another process started (``pyromq up``) ends with it, however that ends: its standard input is a pipe
whose other end only that process holds. That process has opened the socket, and said the line itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import uvicorn

from pyromq.console.app import create_app
from pyromq.console.auth.accounts import ADMIN
from pyromq.console.connections import CONNECTIONS_MAX, SeatedProtocol
from pyromq.console.desk import Desk
from pyromq.console.listening import listening_socket, url_of
from pyromq.console.settings import PASSWORD_VARIABLE, ConsoleSettings
from pyromq.errors import ConfigError
from pyromq.httpd.seats import Seats

logger = logging.getLogger(__name__)

_STOP_S_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Starter:
    """What a process that starts a console beside itself gives to it: a socket that listens already."""

    listening: socket.socket


def run_console(
    settings: ConsoleSettings,
    *,
    out: Callable[[str], object],
    tell: Callable[[str], object],
    starter: Starter | None = None,
) -> None:
    """Until SIGTERM or Ctrl-C, or (with a ``starter``) until standard input ends. Raises ConfigError."""
    asyncio.run(_serve(settings, out, tell, starter))


async def _serve(
    settings: ConsoleSettings, out: Callable[[str], object], tell: Callable[[str], object], starter: Starter | None
) -> None:
    listening = listening_socket(settings) if starter is None else starter.listening
    with listening:
        app = await asyncio.to_thread(create_app, settings)  # hashes a password: slow on purpose
        server = _Server(_config(app, settings), app.desk)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        if starter is not None:
            loop.add_reader(sys.stdin.fileno(), _watch_starter, server)
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        began = asyncio.ensure_future(server.began.wait())
        await asyncio.wait([serving, began], return_when=asyncio.FIRST_COMPLETED)
        if server.began.is_set():
            if app.desk.accounts.generated:
                tell(_first_password(app.desk.accounts.generated, settings))
            if starter is None:
                out(f"console={url_of(listening, settings)}\n")
        began.cancel()
        await serving
        if not server.began.is_set():
            raise ConfigError("the console did not start: its log says why")


def _config(app: object, settings: ConsoleSettings) -> uvicorn.Config:
    seats = Seats(CONNECTIONS_MAX, lambda: asyncio.get_running_loop().time())
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=partial(SeatedProtocol, seats=seats),  # type: ignore[arg-type]  # it is called like a class
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_graceful_shutdown=_STOP_S_MAX,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        limit_concurrency=2 * CONNECTIONS_MAX,  # with those that are being closed
        h11_max_incomplete_event_size=64 << 10,
    )


class _Server(uvicorn.Server):
    """Says when it has begun; signals are ours."""

    def __init__(self, config: uvicorn.Config, desk: Desk) -> None:
        super().__init__(config)
        self._desk = desk
        self.began = asyncio.Event()
        self._is_told = False  # by a signal; the end of whoever started it comes without one, or before it

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        await self._serve(sockets)  # serve() would take the signals of the process

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.began.set()

    def stop(self) -> None:
        """A signal; the second one does not wait for anybody."""
        self.force_exit = self._is_told
        self._is_told = True
        self.end()

    def end(self) -> None:
        """Requests under way are answered, streams end."""
        self.should_exit = True
        self._desk.closing.set()


def _watch_starter(server: _Server) -> None:
    """Standard input can be read: either bytes that mean nothing, or its end."""
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        server.end()


def _first_password(password: str, settings: ConsoleSettings) -> str:
    kept = f"kept hashed in {settings.data}" if settings.data else "for this run; --data DIR keeps it, hashed"
    how = f"shown this once, {kept}; or set {PASSWORD_VARIABLE}"
    return f"console: sign in as {ADMIN} with the password {password} ({how})\n"
