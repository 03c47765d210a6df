"""Duties: what a broker does by itself in one role, on ticks of the loop.

    every 100 ms   pulls whose time is over, sends that wait too long, seals, tables, retention; a master: what is due
    every second   replication, statistics, silent clients, accounts that others keep, the audit log
    now and then   committed offsets (``offsets_save_ms``)

A broker whose log does not grow, and where no send waits, is idle: it looks every 500 ms which duties have something to
do, which is a few comparisons, and does those; replication is measured every second, and all duties are done every two
seconds. What has an exact time, delayed messages, has timers of its own. A duty that fails keeps no other from being
done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.workers import Workers
from pyromq.broker.roles import RoleChanges
from pyromq.broker.wiring import Parts
from pyromq.errors import MQError
from pyromq.net.stalls import StallWatch
from pyromq.replication.settings import Role

logger = logging.getLogger(__name__)

Duty = Callable[[], None]
_TICK_S: Final = 0.1
_SLOW_TICK_MS: Final = 1_000
_IDLE_LOOK_S: Final = 0.5
_IDLE_TICK_MS: Final = 2_000


class Duties:
    """Periodic work of one role; ``slow`` are more of those that are done every second."""

    def __init__(
        self,
        environment: Environment,
        parts: Parts,
        roles: RoleChanges,
        workers: Workers,
        stalls: StallWatch,
        slow: Sequence[Duty] = (),
    ) -> None:
        self._settings = environment.settings
        self._clock = environment.clock
        self._parts = parts
        self._roles = roles
        self._workers = workers
        self._stalls = stalls
        self._slow = slow
        # by the monotonic clock
        self._ticked_ms = 0
        self._slow_ticked_ms = 0
        self._measured_ms = 0  # replication
        self._offsets_saved_ms = 0
        self._log_end = -1  # when it was looked at last
        self._might_write = False  # when the duties were done last

    async def run(self) -> None:
        """Do the duties until cancelled."""
        pause_s = _TICK_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = self.look()

    def look(self) -> float:
        """Do the duties that may have something to do; return for how long to wait then."""
        now_ms, is_busy = self._clock.monotonic_ms(), self._is_busy()
        is_lease_other = self._roles.may_write != self._might_write  # what is due goes, and the gate shuts if none may
        if is_busy or is_lease_other or now_ms - self._ticked_ms >= _IDLE_TICK_MS:
            self.tick()
        elif found := self._with_work(now_ms):
            self._do(found)
        return _TICK_S if is_busy else _IDLE_LOOK_S

    def _is_busy(self) -> bool:
        """Whether a send waits, or the log has grown since the last look."""
        path, before = self._parts.write_path, self._log_end
        self._log_end = path.store.end_position
        return bool(self._log_end != before or path.pressure.waiting_for_disk or path.pressure.waiting_for_replicas)

    def _with_work(self, now_ms: int) -> list[Duty]:
        """Duties for which a request has waited long enough, or that have done something in part."""
        parts, handlers, services = self._parts, self._parts.handlers, self._parts.services
        found: list[Duty] = []
        if now_ms - self._measured_ms >= _SLOW_TICK_MS:
            self._measured_ms = now_ms
            found.append(parts.replication.tick)
        if parts.waiters.is_due(now_ms):
            found.append(parts.handlers.pulls.respond_due)
        if parts.popping.is_due(now_ms, self._clock.now_ms()):
            found += [parts.popping.tick, parts.popping.pops.tick] if self._delivers else [parts.popping.tick]
        if handlers.watches.watches.waiting:
            found.append(handlers.watches.respond_due)
        if handlers.pulls.is_rechecking:
            found.append(handlers.pulls.recheck_some)
        if handlers.clients.notices.is_under_way:
            found.append(handlers.clients.notices.tick)
        if services.sealer.busy:
            found.append(services.sealer.advance)
        if services.maintenance.has_work:
            found.append(services.maintenance.tick)
        if self._delivers and services.transaction_checks.is_under_way:
            found.append(services.transaction_checks.tick)
        return found

    @property
    def _delivers(self) -> bool:
        """Whether this is a master that could write when all duties were done last."""
        return self._might_write and self._settings.replication.role is not Role.REPLICA

    def tick(self) -> None:
        """Do all duties that are due by their intervals."""
        self._do(self._due())

    def _do(self, duties: Sequence[Duty]) -> None:
        began_s = self._stalls.begin()
        for duty in duties:
            try:
                duty()
            except (MQError, OSError) as error:  # the store has said so already, and says no to senders
                logger.error("periodic work failed: reason=%s", error)
            except Exception:  # a defect of one duty must not keep the others from being done
                logger.exception("periodic work failed")
            began_s = self._stalls.ended(began_s, duty.__qualname__)

    def _due(self) -> list[Duty]:
        now_ms, parts, services = self._clock.monotonic_ms(), self._parts, self._parts.services
        self._ticked_ms, self._might_write = now_ms, self._roles.may_write
        found = [
            parts.handlers.pulls.respond_due,
            parts.handlers.pulls.recheck_some,
            parts.handlers.watches.respond_due,
            parts.popping.tick,
            parts.handlers.clients.notices.tick,
            parts.write_path.disk.answer_overdue,
            services.sealer.advance,
            services.table_keeper.tick,
            services.maintenance.tick,
            self._roles.tick,
        ]
        if self._delivers:
            found += [services.transaction_checks.tick, services.delay_runner.tick, parts.popping.pops.tick]
        if now_ms - self._slow_ticked_ms >= _SLOW_TICK_MS:
            self._slow_ticked_ms = self._measured_ms = now_ms
            found += [parts.replication.tick, parts.stats.snapshot, self._drop_silent, self._write_audit, *self._slow]
        if now_ms - self._offsets_saved_ms >= self._settings.offsets_save_ms:
            self._offsets_saved_ms = now_ms
            found.append(services.offset_keeper.tick)
        return found

    def _drop_silent(self) -> None:
        tables = self._parts.tables
        silent, changed = tables.members.drop_silent()
        for connection in silent:
            connection.close("no heartbeat for too long")
        self._parts.handlers.clients.notices.tell(changed)
        tables.filters.tick(tables.members.subscription)

    def _write_audit(self) -> None:
        log = self._parts.handlers.auditing.log
        log.tick()
        if log.has_news:
            self._workers.start_maintenance(log.flush)
