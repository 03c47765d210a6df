"""Health of a run over HTTP, for whoever watches processes: ``/live`` and ``/ready``, 200 or 503, with JSON.

/live    the process does its work; 503: restart it            /ready   messages are consumed; 503: not yet, no more
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Self

import msgspec

from pyromq.errors import ConfigError
from pyromq.httpd.head import HttpRequest
from pyromq.httpd.server import HttpLimits, HttpResponse, HttpServer

LOOPBACK: Final = "127.0.0.1"
_LIMITS: Final = HttpLimits(connections_max=32)


class RunHealth(NamedTuple):
    """Health of a run as probes see it."""

    is_live: bool
    is_ready: bool
    facts: dict[str, Any]


class HealthServer:
    """``async with HealthServer(look, port=8080)``; ``look()`` is called for every request."""

    def __init__(self, look: Callable[[], RunHealth], *, port: int, host: str = LOOPBACK) -> None:
        self._look = look
        self._host, self._port = host, port
        self._server = HttpServer(self._answer, limits=_LIMITS, is_brief=lambda request: True)

    @property
    def port(self) -> int:
        """Port it listens on: the one that was chosen, if 0 was asked for."""
        return self._server.address.port

    async def __aenter__(self) -> Self:
        """Listen. Raises ConfigError when the port is taken."""
        try:
            await self._server.start((self._host, self._port))
        except OSError as error:
            raise ConfigError(f"health endpoint {self._host}:{self._port}: {error.strerror or error}") from error
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._server.stop()

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        if request.path not in ("/live", "/ready"):
            return _json(404, {"error": "there are /live and /ready"})
        health = self._look()
        is_well = health.is_live and (request.path == "/live" or health.is_ready)
        return _json(200 if is_well else 503, health.facts)


def _json(status: int, facts: dict[str, Any]) -> HttpResponse:
    return HttpResponse(status, msgspec.json.encode(facts), "application/json")
