"""Broker health: those that were slow or failed are left alone for a while.

How long follows from the latency of a send by one of two tables, RocketMQ 5's and the stricter one of 4. A failure
counts as a long latency. Off unless ``ProducerSettings.latency_fault`` says otherwise.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from pyromq.clock import Clock


@dataclass(frozen=True, slots=True)
class LatencyTable:
    """From ``latency_ms[i]`` on, a broker is avoided for ``avoid_ms[i]``."""

    latency_ms: tuple[int, ...]
    avoid_ms: tuple[int, ...]
    failure_ms: int  # the latency that a failure counts as

    def __post_init__(self) -> None:
        assert len(self.latency_ms) == len(self.avoid_ms) and list(self.latency_ms) == sorted(self.latency_ms)

    def avoid_for_ms(self, latency_ms: int) -> int:
        step = bisect_right(self.latency_ms, latency_ms)
        return self.avoid_ms[step - 1] if step else 0


TABLE_5: Final = LatencyTable(
    (50, 100, 550, 1_800, 3_000, 5_000, 15_000), (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000), failure_ms=10_000
)


class BrokerHealth:
    """What a producer remembers of its brokers."""

    def __init__(self, clock: Clock, table: LatencyTable = TABLE_5) -> None:
        self._clock = clock
        self._table = table
        self._avoid_until_ms: dict[str, int] = {}
        self._unreachable: set[str] = set()

    def answered(self, broker: str, latency_ms: int) -> None:
        self._unreachable.discard(broker)
        self._avoid(broker, latency_ms)

    def failed(self, broker: str, *, was_reached: bool) -> None:
        """``was_reached``: it responded, but with an error."""
        if not was_reached:
            self._unreachable.add(broker)
        self._avoid(broker, self._table.failure_ms)

    def is_available(self, broker: str) -> bool:
        return self._avoid_until_ms.get(broker, 0) <= self._clock.monotonic_ms()

    def is_reachable(self, broker: str) -> bool:
        return broker not in self._unreachable

    def _avoid(self, broker: str, latency_ms: int) -> None:
        self._avoid_until_ms[broker] = self._clock.monotonic_ms() + self._table.avoid_for_ms(latency_ms)
