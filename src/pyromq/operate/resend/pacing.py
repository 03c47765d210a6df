"""Rate limit: how long to wait before the next messages may go. Pure but for the clock."""

from __future__ import annotations

from typing import Final

from pyromq.clock import Clock
from pyromq.errors import ConfigError

_CHUNKS_PER_SECOND: Final = 20
CHUNK_MAX: Final = 256


def check_rate(rate: float | None) -> None:
    """Check a rate of messages. Raises ConfigError."""
    if rate is not None and rate <= 0:
        raise ConfigError(
            f"a rate of {rate:g} messages a second sends nothing; leave the rate out to send at full speed"
        )


class Pacer:
    """Lets ``rate`` messages pass in a second, evenly; what was missed in a pause is not made up for in a burst."""

    def __init__(self, rate: float | None, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._free_ms = float(clock.monotonic_ms())  # when the next message may go

    @property
    def is_open(self) -> bool:
        """Whether there is no rate."""
        return self._rate is None

    @property
    def chunk(self) -> int:
        """How many messages to send at once: few when the rate is low, so that they do not come in jerks."""
        return CHUNK_MAX if self._rate is None else max(1, min(CHUNK_MAX, int(self._rate / _CHUNKS_PER_SECOND)))

    def wait_ms(self, count: int) -> float:
        """Reserves room for ``count`` messages; they may be sent after so many milliseconds."""
        if self._rate is None:
            return 0.0
        now_ms = float(self._clock.monotonic_ms())
        start_ms = max(now_ms, self._free_ms)
        self._free_ms = start_ms + 1000 * count / self._rate
        return start_ms - now_ms
