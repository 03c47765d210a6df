"""The time of a broker, for tests that are about time alone."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyromq.testing.loopback import LoopbackBroker


class BrokerClock:
    """Implements ``pyromq.clock.Clock``: may be handed to code under test that takes one."""

    def __init__(self, broker: LoopbackBroker) -> None:
        self._broker = broker

    def now(self) -> datetime:
        """Current time in UTC."""
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def now_ms(self) -> int:
        return self._broker.now_ms()

    def monotonic_ms(self) -> int:
        return self._broker.clock.monotonic_ms()

    def monotonic_s(self) -> float:
        return self._broker.clock.monotonic_s()

    def advance(
        self,
        by: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: int = 0,
    ) -> Awaitable[None]:
        """Let time pass, with all that happens in it; see ``LoopbackBroker.advance``."""
        return self._broker.advance(by, days=days, hours=hours, minutes=minutes, seconds=seconds, ms=ms)

    def settle(self) -> Awaitable[None]:
        """Return when nothing is left to do at this moment; see ``LoopbackBroker.settle``."""
        return self._broker.settle()
