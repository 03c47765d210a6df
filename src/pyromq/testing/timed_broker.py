"""What virtual time must know of a broker."""

from __future__ import annotations

from pyromq.broker.base.steady_clock import SteadyClock
from pyromq.broker.broker import Broker


class TimedBroker:
    """Broker whose timers virtual time can ask (``pyromq.testing.virtual_time.Timed``)."""

    def __init__(self, broker: Broker, clock: SteadyClock) -> None:
        self._broker = broker
        self._clock = clock
        broker.ignore_late_timers()

    def next_due_ms(self, until_ms: int) -> int:
        runner, now_ms = self._broker.parts.services.delay_runner, self._clock.now_ms()
        found = [min(runner.schedule.run(), runner.timers.run())]
        if runner.timers.pending and until_ms - now_ms > 60_000:  # the runner knows the near ones only
            found += [1000 * second for second in runner.files.occupied(now_ms // 1000, until_ms // 1000 + 1)[:1]]
        if (expiry_ms := self._broker.parts.popping.pops.table.next_expiry_ms()) is not None:
            found.append(expiry_ms)
        return min((due_ms for due_ms in found if now_ms < due_ms < until_ms), default=until_ms)

    def look(self) -> None:
        self._broker.parts.services.delay_runner.run()
        self._broker.parts.popping.pops.tick()

    def log_end(self) -> int:
        return self._broker.store.end_position

    def is_undecided(self) -> bool:
        """And somebody is there who can be asked about it."""
        parts = self._broker.parts
        return parts.services.transaction_log.table.waiting > 0 and parts.tables.members.producer_group_count > 0

    def leapt(self) -> None:
        self._clock.follow_at_once()
