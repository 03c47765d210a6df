"""Retry window: brokers restart, so what fails is tried again for a while, then given up in words."""

from __future__ import annotations

from typing import Final

from pyromq.client.core.retry_advice import may_retry_later
from pyromq.clock import Clock
from pyromq.errors import MQError
from pyromq.pipeline.core.errors import SourceUnreachableError

_WAIT_MS_FIRST: Final = 50
_WAIT_MS_MAX: Final = 2_000


class RetryWindow:
    """Time within which one thing is tried again; every success renews it."""

    def __init__(self, what: str, allowed_ms: int, clock: Clock) -> None:
        self._what = what  # is tried, for the error
        self._allowed_ms = allowed_ms
        self._clock = clock
        self._since_ms: int | None = None  # when the first failure after the last success was
        self._failures = 0  # since then

    def succeeded(self) -> None:
        self._since_ms, self._failures = None, 0

    def failed(self, error: MQError) -> int:
        """How long to wait before the next attempt. Raises the error itself or SourceUnreachableError."""
        if not may_retry_later(error):
            raise error
        now_ms = self._clock.monotonic_ms()
        if self._since_ms is None:
            self._since_ms = now_ms
        tried_ms = now_ms - self._since_ms
        if tried_ms >= self._allowed_ms:
            raise SourceUnreachableError(self._what, tried_ms, error) from error
        self._failures += 1
        wait_ms = min(_WAIT_MS_MAX, _WAIT_MS_FIRST << min(self._failures - 1, 10))
        return max(1, min(wait_ms, self._allowed_ms - tried_ms))
