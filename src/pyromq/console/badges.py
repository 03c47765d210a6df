"""Badges of the navigation: what waits for somebody, counted in the background, so that no page waits for a count.

dead letters    letters of all groups that wait to be redriven
retries         failed messages that wait for their time, and those that are due and not consumed
jobs            that run, or wait for a word
replication     members that are away: brokers that do not answer, and those that a master misses
health          findings that are not well
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from pyromq.console.views.health import health
from pyromq.console.views.letters import groups_with_letters
from pyromq.console.web.formatting import counted
from pyromq.errors import MQError
from pyromq.operate.health import ClusterSeverity

if TYPE_CHECKING:
    from pyromq.console.desk import Desk

logger = logging.getLogger(__name__)

EVERY_MS: Final = 10_000
RETRIES_READ_MAX: Final = 1_000  # of each broker
_SHARE: Final = 20  # a look that takes long is taken less often: at most one part in so many of the time


class NavBadge(msgspec.Struct, frozen=True, kw_only=True):
    """A number beside an entry of the navigation; ``text`` says what it counts."""

    count: int
    text: str
    kind: str = "warning"
    is_cut: bool = False


class Badges:
    """``take`` counts now, ``run`` again and again; ``shown`` is what the last look found, without any request."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._counted: dict[str, NavBadge] = {}

    def shown(self) -> Mapping[str, NavBadge]:
        """Badges by the names that entries of the navigation give; what counts nothing has none."""
        found = {**self._counted, **self._jobs(), **self._brokers()}
        return {name: badge for name, badge in found.items() if badge.count}

    async def run(self) -> None:
        """Count until cancelled."""
        clock = self._desk.clock
        while True:
            began_ms = clock.monotonic_ms()
            await self.take()
            took_ms = clock.monotonic_ms() - began_ms
            await asyncio.sleep(max(EVERY_MS, took_ms * _SHARE) / 1000)

    async def take(self) -> None:
        """Count once; what cannot be asked has no badge."""
        for name, count in (("letters", self._letters), ("retries", self._retries), ("health", self._health)):
            try:
                self._counted[name] = await count()
            except MQError as error:  # the page itself says so
                self._counted.pop(name, None)
                logger.debug("no badge: name=%s reason=%s", name, error)

    async def _letters(self) -> NavBadge:
        count = sum(each.waiting or 0 for each in await groups_with_letters(self._desk))
        return NavBadge(count=count, text=f"{counted(count, 'dead letter')} waiting", kind="bad")

    async def _retries(self) -> NavBadge:
        due = sum(each.retrying for each in (await self._desk.admin.sweeper.read()).totals().values())
        waiting = await self._desk.admin.delays.count_retries(count_max=RETRIES_READ_MAX)
        count = due + waiting.count
        failed = f"{count}+ failed messages" if waiting.is_cut else counted(count, "failed message")
        text = f"{failed} waiting for a retry"
        return NavBadge(count=count, text=text, is_cut=waiting.is_cut)

    async def _health(self) -> NavBadge:
        found = await health(self._desk)
        kind = "bad" if found.worst is ClusterSeverity.BAD else "warning"
        count = len(found.troubles)
        return NavBadge(count=count, text=f"{counted(count, 'thing')} to look at", kind=kind)

    def _jobs(self) -> dict[str, NavBadge]:
        count = self._desk.jobs.count_running()
        return {"jobs": NavBadge(count=count, text=f"{counted(count, 'job')} running", kind="accent")}

    def _brokers(self) -> dict[str, NavBadge]:
        last = self._desk.sampler.last
        away = sum(bool(each.problem) + each.members_away for each in last.brokers) if last is not None else 0
        return {"away": NavBadge(count=away, text=f"{counted(away, 'member')} away", kind="bad")}
