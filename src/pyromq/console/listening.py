"""The socket that a console listens on; imports nothing heavy: ``pyromq up`` opens it before the console starts."""

from __future__ import annotations

import logging
import socket
from typing import Final

from pyromq.console.settings import DEFAULT_PORT, ConsoleSettings
from pyromq.errors import ConfigError

logger = logging.getLogger(__name__)

_BACKLOG: Final = 128


class PortTakenError(ConfigError):
    """Choose another port, or 0 for any that is free; or stop the program that has it."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"port {port} on {host} cannot be used ({reason}): choose another one, or 0 for any")
        self.host = host
        self.port = port


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
