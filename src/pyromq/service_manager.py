"""What a service manager is notified of: ready, stopping, still alive (systemd's notify protocol).

The manager names a datagram socket in ``NOTIFY_SOCKET`` and, for units with ``WatchdogSec=``, how often it wants to
hear a sign of life in ``WATCHDOG_USEC``. Without them nothing happens; a socket that cannot be reached is no reason for
a server to fail.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from typing import Final

logger = logging.getLogger(__name__)

_SIGNS_PER_LIMIT: Final = 3  # so many signs of life in the time after which the manager would restart the server
_MICROSECONDS: Final = 1_000_000


class ServiceManager:
    """One per process. Signs of life come from the event loop: one that is stuck sends none."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        given = os.environ if environment is None else environment
        self._address = given.get("NOTIFY_SOCKET", "")
        self._sign_s = _sign_interval_s(given)
        self._timer: asyncio.TimerHandle | None = None

    def ready(self, status: str) -> None:
        """The server serves; from now on there are signs of life."""
        self._report(f"READY=1\nSTATUS={_one_line(status)}")
        self._sign()

    def status(self, text: str) -> None:
        self._report(f"STATUS={_one_line(text)}")

    def stopping(self, *, for_s: float = 0.0) -> None:
        """The server ends; ``for_s``: it wants so much more time than the unit gives it."""
        extended = f"\nEXTEND_TIMEOUT_USEC={round(for_s * _MICROSECONDS)}" if for_s > 0 else ""
        self._report(f"STOPPING=1{extended}")

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sign(self) -> None:
        if self._sign_s > 0 and self._address:
            self._report("WATCHDOG=1")
            self._timer = asyncio.get_running_loop().call_later(self._sign_s, self._sign)

    def _report(self, text: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto(text.encode(), address)
        except OSError as error:
            logger.warning("service manager not told: socket=%s error=%s", self._address, error)


def _sign_interval_s(environment: Mapping[str, str]) -> float:
    """Zero when nobody waits for signs of life, or when another process is meant."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    limit = environment.get("WATCHDOG_USEC", "")
    return int(limit) / _MICROSECONDS / _SIGNS_PER_LIMIT if limit.isdecimal() else 0.0


def _one_line(text: str) -> str:
    return text.replace("\n", " ")
