"""What the handlers of a name server share, and the response they give."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from pyromq.clock import Clock
from pyromq.nameserver.errors import LimitError
from pyromq.nameserver.kv_config import KvConfig
from pyromq.nameserver.route_responses import RouteResponses
from pyromq.nameserver.route_table import RouteTable
from pyromq.nameserver.settings import NameServerLimits, NameServerSettings
from pyromq.security.audit import AuditLog
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers import Header
from pyromq.wire.received import Received


class NameServerState:
    """Table, key-value configuration and current settings; ``settings`` is replaced whole."""

    def __init__(self, settings: NameServerSettings, *, clock: Clock, kv: KvConfig) -> None:
        self.settings = settings
        self.kv = kv
        self.audit_log: AuditLog | None = None
        self._clock = clock
        self.table = RouteTable(clock, silence_ms_max=settings.broker_silence_ms_max, limits=settings.limits)
        self.routes = RouteResponses(self.table, kv)
        self._started_ms = clock.monotonic_ms()

    @property
    def limits(self) -> NameServerLimits:
        return self.settings.limits

    @property
    def is_ready(self) -> bool:
        """False while brokers may still be registering, if the settings say that this matters."""
        if not self.settings.wait_for_service:
            return True
        return self._clock.monotonic_ms() - self._started_ms >= 1000 * self.settings.wait_seconds_for_service


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response before it has a correlation id."""

    code: ResponseCode = ResponseCode.SUCCESS
    header: Header | None = None
    body: bytes = b""
    remark: str | None = None


Job = Callable[[], Response]
"""Makes a response on another thread, because files are read for it. Raises MQError, OSError."""

Answer = Response | Job
AnswerT = TypeVar("AnswerT", bound=Answer)
Handle = Callable[[NameServerState, Received[Any], Hashable], Answer]
"""Carries out one request that came over a connection. Raises MQError, and has then changed nothing."""


def small_body(state: NameServerState, request: Received[Any]) -> bytes:
    """The body of a request that never needs a large one; raises LimitError."""
    if len(request.body) > state.limits.small_body_bytes_max:
        raise LimitError(
            f"a body of {len(request.body)} bytes, at most {state.limits.small_body_bytes_max} are allowed"
        )
    return request.body
