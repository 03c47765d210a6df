"""The story of a simulation: bursts of faults, quiet phases between them, and the end, when everything has to be well.

    burst ─▶ faults end, everything is consumed (liveness) ─▶ minutes of little traffic ─▶ burst ─▶ … ─▶ end

In a quiet phase a cluster does what it does for most of its life: leases are renewed, heartbeats and long polls come
and go, tables are saved, and now and then somebody sends something.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tests.sim.clients import SimClient
from tests.sim.cluster import Cluster, World
from tests.sim.faults import Faults
from tests.sim.judges import Verdict, last_due_s, look_now, on_disk_now, what_is_left
from tests.sim.plan import LIVENESS

_LOOK_S: Final = 1.0
_DISK_LOOKS: Final = 6  # of these looks, one looks at disks
_QUIET_LOOK_S: Final = 5.0
_CALM_S: Final = 150.0  # of a liveness run: everything is consumed or dead within this time after the last fault
_USUAL_CALM_S: Final = 300.0  # likewise, with the intervals that the product has by default
_DECIDES_S: Final = 45.0  # a set may wait for an operator, who looks after this time
_DRAIN_S: Final = 8.0  # for sends that are under way


class Story:
    """Judges look all the time; the first failure ends it."""

    def __init__(
        self, world: World, cluster: Cluster, clients: list[SimClient], faults: Faults, verdict: Verdict
    ) -> None:
        self._world = world
        self._cluster = cluster
        self._clients = clients
        self._faults = faults
        self._verdict = verdict
        self._looks = 0
        self._seen_on_disk = 0  # messages that had been sent when disks were looked at last

    async def burst_until(self, until_s: float) -> None:
        loop = self._world.loop
        while loop.true_s < until_s and not self._verdict.failures:
            await self._look_after(_LOOK_S)
            self._looks += 1
            if self._looks % _DISK_LOOKS == 0:
                self._look_at_disks()

    async def quiet(self, lasts_s: float) -> None:
        """Faults end, everything is consumed if the plan promises so; then little happens for a while."""
        if self._verdict.failures:
            return
        loop = self._world.loop
        if self._world.plan.mode == LIVENESS:
            await self.heal()
            if not self._verdict.failures:
                self._faults.all_is_well()
        else:
            self._faults.heal()
        self._set_sending(True, is_quiet=True)
        until_s = loop.true_s + lasts_s
        self._world.history.note("quiet", f"{lasts_s:g} s")
        while loop.true_s < until_s and not self._verdict.failures:
            await self._look_after(_QUIET_LOOK_S)
        if not self._verdict.failures and len(self._world.history.sent) > self._seen_on_disk:
            self._look_at_disks()
        self._set_sending(True)

    async def heal(self, *, is_last: bool = False) -> None:
        """Faults end; everything that is due is consumed, or dead, within a bound of time; at last all that waits."""
        self._faults.heal()
        self._world.history.note("healed")
        await asyncio.sleep(_DRAIN_S)
        self._set_sending(False)
        await self._until_calm()
        due_s = last_due_s(self._world.history)
        if is_last and due_s > self._world.loop.true_s:
            while self._world.loop.true_s < due_s and not self._verdict.failures:
                await self._look_after(_QUIET_LOOK_S)
            await self._until_calm()

    def _set_sending(self, is_sending: bool, *, is_quiet: bool = False) -> None:
        self._world.in_burst = not is_quiet
        for client in self._clients:
            client.is_sending = is_sending
            if is_quiet:
                client.in_burst.clear()
            else:
                client.in_burst.set()

    async def _look_after(self, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        look_now(self._world, self._cluster, self._verdict)
        self._world.witness.look()
        self._world.witness.look_at_promises()

    def _look_at_disks(self) -> None:
        self._seen_on_disk = len(self._world.history.sent)
        on_disk_now(self._world, self._cluster, self._faults, self._verdict)

    async def _until_calm(self) -> None:
        world, verdict = self._world, self._verdict
        begun_s = world.loop.true_s
        bound_s = _USUAL_CALM_S if world.plan.is_usual else _CALM_S
        decides_s = begun_s + _DECIDES_S
        while world.loop.true_s < begun_s + bound_s and not verdict.failures:
            await self._look_after(_LOOK_S)
            if not self._left():
                world.history.note("calm")
                self._judge_deeds()
                return
            if world.loop.true_s > decides_s:
                decides_s += _DECIDES_S
                self._let_operators_decide()
        if not verdict.failures:
            for each in self._left()[:5]:
                verdict.fail(f"{bound_s:g} s after the last fault: {each}")

    def _left(self) -> list[str]:
        if missing := what_is_left(self._world, self._cluster, self._clients, self._faults):
            return missing + self._faults.operators.left()
        return self._faults.operators.left()

    def _judge_deeds(self) -> None:
        """After a lease store was set back a member may be master that had missed what operators did."""
        for name in self._world.plan.sets:
            if not (self._faults.was_set_back and self._world.plan.is_managed(name)):
                for each in self._faults.operators.lost(name):
                    self._verdict.fail(each)
        if self._faults.guests is not None:
            for each in self._faults.guests.lost():
                self._verdict.fail(each)

    def _let_operators_decide(self) -> None:
        """Where agents leave it to a person, and say so: no other set without a master is helped."""
        cluster = self._cluster
        for name in self._world.plan.sets:
            if self._world.plan.is_managed(name) and cluster.needs_decision(name):
                if self._faults.was_set_back or cluster.lost_what_it_had(name):
                    self._faults.recover(name)
