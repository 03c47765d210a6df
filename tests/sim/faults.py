"""Faults of a simulation, each by its name in the plan: what happens, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

from pyromq.errors import MQError
from pyromq.failover.broker_control import BrokerBeside
from pyromq.failover.opening import open_lease_store
from pyromq.failover.record import BrokerStatus, LeaseError
from pyromq.failover.recovering import plan_recovery, recover, survey
from pyromq.failover.rules import asked_to_hand_over
from pyromq.testing.faulty_disk import CrashMode
from tests.sim.clients import SimClient
from tests.sim.cluster import CLUSTER, LEASES_AT, Cluster, Member, World
from tests.sim.damage import Damage, late_message
from tests.sim.families import family_of
from tests.sim.loop import Machine, Process
from tests.sim.operators import Operators
from tests.sim.plan import OPERATIONS, STANDBY, USERS, Fault

_SNAPSHOT_S: Final = 1.5  # between two backups of the lease store
_BACKUPS_MAX: Final = 400  # that are kept
_STANDBY_LACKS_S: Final = 3.0  # at most: long enough for a planned switch
_SWITCH_LOOK_S: Final = 0.005

End = Callable[[], None]


def _nothing() -> None:
    """The fault is over by itself."""


class Faults:
    """``begin`` schedules what the plan says; ``heal`` ends everything that is still wrong."""

    def __init__(self, world: World, cluster: Cluster, clients: list[SimClient]) -> None:
        self.world = world
        self.cluster = cluster
        self.clients = clients
        self.is_over = False
        self.first_s = float("inf")  # when the first one began
        self._lasts_s, self._number = 0.0, -1  # of the one that begins
        self._standbys: dict[int, Any] = {}  # by the number of a fault: what a standby has of the leases by then
        self._open: dict[int, End] = {}
        self._backups: list[Any] = []
        self._damages: list[Damage] = []
        self._operator = world.process("operator", world.machine("operator", "10.0.4.1"))
        self.operators = Operators(world, cluster, self._operator)
        self.guests: Any = None  # of simulations with access control
        self.was_set_back = False  # and nobody has put that right
        self.was_ever_set_back = False

    def begin(self, since_s: float = 0.0) -> None:
        self._schedule(0, since_s)
        self._back_up()

    def begin_burst(self, burst: int) -> None:
        """The quiet phase before it is over."""
        self.is_over = False
        self._schedule(burst, self.world.loop.true_s)

    def _schedule(self, burst: int, since_s: float) -> None:
        for fault in self.world.plan.faults:
            if fault.burst == burst:
                self.world.loop.call_for(None, since_s + fault.at_s, self._happen, fault)
                if fault.kind == STANDBY:
                    lacks_s = Random(f"{fault.luck}/lacks").uniform(0.05, _STANDBY_LACKS_S)
                    self.world.loop.call_for(None, since_s + fault.at_s - lacks_s, self._stand_by, fault)

    def _back_up(self) -> None:
        self._backups.append(self.cluster.leases.model.snapshot())
        del self._backups[:-_BACKUPS_MAX]
        self.world.loop.call_for(None, self.world.loop.true_s + _SNAPSHOT_S, self._back_up)

    def _happen(self, fault: Fault) -> None:
        if self.is_over:
            return
        rng = Random(fault.luck)
        self._lasts_s, self._number = fault.lasts_s, fault.number
        if fault.kind in OPERATIONS:
            begun = self.operators.begin(fault.kind, rng)
        elif fault.kind == USERS:
            begun = self.guests.begin(rng, self._operator), _nothing
        else:
            begun = getattr(self, "_" + fault.kind.replace(" ", "_"))(rng)
        if begun is None:
            return
        facts, end = begun
        self.first_s = min(self.first_s, self.world.loop.true_s)
        self.world.history.note("fault", f"f{fault.number}", fault.kind, facts, f"{fault.lasts_s:g} s")
        self._open[fault.number] = end
        self.world.loop.call_for(None, self.world.loop.true_s + fault.lasts_s, self._end, fault)

    def _end(self, fault: Fault) -> None:
        end = self._open.pop(fault.number, None)
        if end is not None:
            self.world.history.note("fault ends", f"f{fault.number}", fault.kind)
            end()

    def heal(self) -> None:
        """Every fault ends, and whoever is dead starts."""
        self.is_over = True
        for number in list(self._open):
            self._open.pop(number)()
        for member in self.cluster.members:
            member.disk.on_operation = lambda kind: None
            if not member.machine.has_power:
                member.machine.has_power = True
            if member.disk.needs_restart or (member.process is not None and member.serving is None):
                member.kill_broker()
            member.disk.mend()
            member.start_broker()
            if member.is_managed:
                member.start_agent()
        self.world.network.kick()
        for client in self.clients:
            client.start()
        for group in sorted(self.operators.deeds.paused):
            self.operators.resume(group)

    def all_is_well(self) -> None:
        """One master, all in sync: the record of a store that was set back is true again, what was told before is not.

        The master may be one that had missed what operators did.
        """
        if self.was_set_back:
            self.was_set_back = False
            self.operators.deeds.topics.clear()
            if self.guests is not None:
                self.guests.forget()

    def _set_back(self) -> None:
        self.was_set_back = self.was_ever_set_back = True

    # --- whom it hits ---

    def _member(self, rng: Random) -> Member:
        """The master of a set as often as all others."""
        members = self.cluster.members
        masters = [each for each in members if each.is_master]
        return rng.choice(masters) if masters and rng.random() < 0.5 else rng.choice(members)

    def _machines(self) -> list[Machine]:
        return [machine for name, machine in self.world.machines.items() if name != "operator"]

    # --- processes ---

    def _kill_broker(self, rng: Random) -> Any:
        member = self._member(rng)
        member.kill_broker()
        return member.name, member.start_broker

    def _kill_agent(self, rng: Random) -> Any:
        member = self._member(rng)
        if member.agent is None:
            return None
        member.kill_agent()
        return member.name, member.start_agent

    def _kill_machine(self, rng: Random) -> Any:
        member = self._member(rng)
        member.kill_machine()
        return member.name, member.start

    def _power(self, rng: Random) -> Any:
        member = self._member(rng)
        if not member.machine.has_power:
            return None
        member.lose_power(rng)
        return member.name, member.power_back

    def _power_of_all(self, rng: Random) -> Any:
        hit = [each for each in self.cluster.members if each.machine.has_power]
        for member in hit:
            member.lose_power(rng)

        def back() -> None:
            for member in hit:
                member.power_back()

        return "", back

    def _power_at_operation(self, rng: Random) -> Any:
        member = self._member(rng)
        if member.process is None:
            return None
        member.lose_power_at_operation(rng.randint(1, 60), rng)

        def back() -> None:
            member.disk.on_operation = lambda kind: None
            if not member.machine.has_power:
                member.power_back()

        return member.name, back

    def _stop_broker(self, rng: Random) -> Any:
        member = self._member(rng)
        if member.serving is None:
            return None
        member.stop_broker()
        return member.name, member.start_again

    def _stop_machine(self, rng: Random) -> Any:
        """Its agent hands over first, or both are told at once."""
        member = self._member(rng)
        if member.serving is None:
            return None
        if is_ordered := rng.random() < 0.7:
            member.stop_agent(then=member.stop_broker)
        else:
            member.stop_agent()
            member.stop_broker()
        return f"{member.name}{'' if is_ordered else ', both at once'}", member.start_again

    def _stop_client(self, rng: Random) -> Any:
        client = rng.choice(self.clients)
        if client.process is None:
            return None
        client.stop()
        return client.plan.name, client.start_again

    def _paused(self, processes: list[Process]) -> End:
        for process in processes:
            process.is_paused = True

        def go_on() -> None:
            for process in processes:
                self.world.loop.resume(process)

        return go_on

    def _pause_machine(self, rng: Random) -> Any:
        machine = self._member(rng).machine
        return machine.name, self._paused(list(machine.processes))

    def _suspend_machine(self, rng: Random) -> Any:
        machine = self._member(rng).machine if rng.random() < 0.7 else rng.choice(self._machines())
        if machine.asleep_since_s is not None:
            return None
        self.world.loop.suspend(machine)
        return machine.name, lambda: self.world.loop.wake(machine)

    def _pause_broker(self, rng: Random) -> Any:
        member = self._member(rng)
        return None if member.process is None else (member.name, self._paused([member.process]))

    def _pause_agent(self, rng: Random) -> Any:
        member = self._member(rng)
        return None if member.agent is None else (member.name, self._paused([member.agent]))

    def _kill_client(self, rng: Random) -> Any:
        client = rng.choice(self.clients)
        client.kill()
        return client.plan.name, client.start

    def _pause_client(self, rng: Random) -> Any:
        client = rng.choice(self.clients)
        return None if client.process is None else (client.plan.name, self._paused([client.process]))

    def _kill_names(self, rng: Random) -> Any:
        names = rng.choice(self.cluster.names)
        if names.process is None:
            return None
        names.kill()
        return names.machine.name, names.start

    # --- the network ---

    def _cut_ways(self, ways: list[tuple[Machine, Machine]]) -> End:
        network = self.world.network
        for source, target in ways:
            network.cut(source, target)

        def mend() -> None:
            for source, target in ways:
                network.mend(source, target)

        return mend

    def _cut(self, rng: Random) -> Any:
        one, other = self._member(rng).machine, rng.choice(self._machines())
        return f"{one.name} {other.name}", self._cut_ways([(one, other), (other, one)] if one is not other else [])

    def _cut_one_way(self, rng: Random) -> Any:
        one, other = self._member(rng).machine, rng.choice(self._machines())
        way = (one, other) if rng.random() < 0.5 else (other, one)
        return f"{way[0].name} {way[1].name}", self._cut_ways([way] if one is not other else [])

    def _isolate(self, rng: Random) -> Any:
        """One machine from all others, or from all but clients."""
        one = self._member(rng).machine
        others = [each for each in self._machines() if each is not one]
        if rng.random() < 0.5:
            others = [each for each in others if not each.ip.startswith("10.0.3.")]
        ways = [way for each in others for way in ((one, each), (each, one))]
        return f"{one.name} from {len(others)}", self._cut_ways(ways)

    def _bridge(self, rng: Random) -> Any:
        """Two halves that only one machine can reach both of."""
        machines = self._machines()
        rng.shuffle(machines)
        middle = len(machines) // 2
        left, right = machines[1:middle], machines[middle:]
        ways = [way for one in left for other in right for way in ((one, other), (other, one))]
        return f"over {machines[0].name}", self._cut_ways(ways)

    def _break(self, rng: Random) -> Any:
        one, machines = self._member(rng).machine, self._machines()
        broken = sum(
            self.world.network.break_connections(one, each) for each in rng.sample(machines, len(machines) // 2)
        )
        return f"{one.name} {broken}", _nothing

    def _slow(self, rng: Random) -> Any:
        one = self._member(rng).machine
        slow, ways = self.world.network.slow_ms, [(one.ip, each.ip) for each in self._machines()]
        more_ms = rng.choice((30.0, 200.0, 900.0))
        for way in ways:
            slow[way] = more_ms

        def end() -> None:
            for way in ways:
                slow.pop(way, None)

        return f"{one.name} {more_ms:g} ms", end

    # --- the lease store ---

    def _leases_away(self, rng: Random) -> Any:
        machine = self.cluster.leases.machine
        machine.has_power = False

        def back() -> None:
            machine.has_power = True
            self.world.network.kick()

        return "", back

    def _leases_slow(self, rng: Random) -> Any:
        leases = self.cluster.leases
        leases.slow_s = rng.choice((0.3, 1.0, 1.9, 2.5))

        def end() -> None:
            leases.slow_s = 0.0

        return f"{leases.slow_s:g} s", end

    def _leases_set_back(self, rng: Random) -> Any:
        """Restored from a backup; while that is done, nobody answers."""
        return "", self._leases_come_back_with(rng.choice(self._backups))

    def _leases_come_back_with(self, state: Any) -> End:
        """The lease store is gone, and has this when it is back."""
        machine = self.cluster.leases.machine
        machine.has_power = False
        self._set_back()

        def back() -> None:
            self.cluster.leases.model.restore(state)
            machine.has_power = True
            self.world.network.kick()

        return back

    def _stand_by(self, fault: Fault) -> None:
        """A standby of the lease store gets no more than it has now.

        Often an operator makes a switch then; the primary is gone at the moment when the next master is one, or is
        named, before the last one has looked again.
        """
        rng = Random(f"{fault.luck}/standby")
        if self.is_over:
            return
        self._standbys[fault.number] = self.cluster.leases.model.snapshot()
        if rng.random() < 0.5:
            self._switch(rng)
            holders = {each.holder for each in self.cluster.records()}
            self._wait_for_switch(fault, holders, is_named_enough=rng.random() < 0.3)

    def _wait_for_switch(self, fault: Fault, before: set[str], *, is_named_enough: bool) -> None:
        if self.is_over or fault.number not in self._standbys:
            return
        records = self.cluster.records()
        if any(each.holder not in before and (is_named_enough or not each.handed) for each in records):
            self._happen(fault)
        else:
            look = partial(self._wait_for_switch, fault, before, is_named_enough=is_named_enough)
            self.world.loop.call_for(None, self.world.loop.true_s + _SWITCH_LOOK_S, look)

    def _leases_fail_over(self, rng: Random) -> Any:
        """Its primary is gone; a while later its standby takes over, with what it had got."""
        state = self._standbys.pop(self._number, None)
        return ("", self._leases_come_back_with(state)) if state is not None else None

    def _leases_emptied(self, rng: Random) -> Any:
        self.cluster.leases.model.clear()
        self._set_back()
        return "", _nothing

    # --- stories: what happens to a set in the order that hurts most ---

    def _later(self, share: float, then: Callable[[], None]) -> End:
        """When so much of the fault's time is over; what it returns calls it off."""
        return self.world.loop.call_for(None, self.world.loop.true_s + share * self._lasts_s, then).cancel

    def _master_of_several(self, rng: Random) -> Member | None:
        masters = [each for each in self.cluster.members if each.is_managed and each.is_master]
        return rng.choice(masters) if masters else None

    def _old_lease(self, rng: Random) -> Any:
        """A master dies, others go on and die; the lease store is set back to its time, and it comes back alone."""
        master = self._master_of_several(rng)
        if master is None:
            return None
        back_up = self.cluster.leases.model.snapshot()
        others = [each for each in self.cluster.of_set(master.set_name) if each is not master]
        master.kill_machine()

        def set_back() -> None:
            self.world.history.note("lease store set back", master.name)
            self._set_back()
            for each in others:
                each.kill_machine()
            self.cluster.leases.model.restore(back_up)
            master.start()

        call_off = self._later(0.5, set_back)

        def end() -> None:
            call_off()
            for each in (master, *others):
                each.start()

        return master.name, end

    def _strand(self, rng: Random) -> Any:
        """Only clients reach a master; its successor dies, too, before it hears of either of those that follow."""
        master = self._master_of_several(rng)
        if master is None:
            return None
        others = [each for each in self._machines() if each is not master.machine and not each.ip.startswith("10.0.3.")]
        mend = self._cut_ways([way for each in others for way in ((master.machine, each), (each, master.machine))])
        killed: list[Member] = []

        def kill_next() -> None:
            for each in self.cluster.masters(master.set_name):
                if each is not master:
                    self.world.history.note("its successor dies", each.name)
                    each.kill_machine()
                    killed.append(each)

        call_off = self._later(0.45, kill_next)

        def end() -> None:
            call_off()
            mend()
            for each in killed:
                each.start()

        return master.name, end

    def _replaced_disk(self, rng: Random) -> Any:
        """A member gets an empty disk, while another has everything; often the master dies a moment later.

        The master's agent does not look before the member is back, and what it copies takes its time.
        """
        master = self._master_of_several(rng)
        record = self.cluster.record_of(master.set_name) if master is not None else None
        if master is None or record is None or self.was_set_back:
            return None
        named = [each for each in self.cluster.of_set(master.set_name) if each.address in record.in_sync]
        if len(named) < 2 or any(each.is_damaged or not each.machine.has_power for each in named):
            return None
        hit = rng.choice(named)
        hit.lose_disk()
        timing = self.world.plan.timing
        now_s, away_s = self.world.loop.true_s, rng.uniform(0.3, 0.8) * timing.duration_s
        self.world.loop.call_for(None, now_s + rng.uniform(0.02, 0.3) * away_s, hit.start_broker)
        goes_on = self._paused([master.agent] if master.agent is not None else [])
        self.world.loop.call_for(None, now_s + away_s, goes_on)
        slow, way = self.world.network.slow_ms, (master.machine.ip, hit.machine.ip)
        slow[way] = rng.choice((30.0, 120.0, 300.0))
        dies = master if hit is not master and rng.random() < 0.7 else None

        def kill() -> None:
            if dies is not None:
                self.world.history.note("its master dies", dies.name)
                dies.kill_machine()

        waiting = [self.world.loop.call_for(None, now_s + away_s, lambda: watch())]

        def watch() -> None:
            """The master dies while the member copies, as soon as its agent had time to look once or twice."""
            loop = self.world.loop
            if master.knows_replica(hit.address):
                waiting.append(loop.call_for(None, loop.true_s + rng.uniform(0.5, 2.5) * timing.look_s, kill))
            else:
                waiting.append(loop.call_for(None, loop.true_s + 0.05, watch))

        def end() -> None:
            for each in waiting:
                each.cancel()
            slow.pop(way, None)
            goes_on()
            hit.start()
            if dies is not None:
                dies.start()

        return f"{hit.name} of master {master.name}", end

    def _restored_disk(self, rng: Random) -> Any:
        """A copy is made of a member's disk; some time later that is its disk, while another member has everything.

        The lease says by then that more was acknowledged: nobody could tell the copy from the disk by less.
        """
        master = self._master_of_several(rng)
        if master is None:
            return None
        members = self.cluster.of_set(master.set_name)
        hit = rng.choice([each for each in members if each.serving is not None and not each.is_damaged] or [master])
        if hit.serving is None:
            return None
        loop, begun_s = self.world.loop, self.world.loop.true_s
        copy, copied_end = hit.disk.after(CrashMode.FORGET, rng), hit.serving.store.end_position
        restored_s = begun_s + rng.uniform(0.2, 0.5) * self._lasts_s
        away_s = rng.choice((0.2, 1.0, 2.0)) * rng.random() * self.world.plan.timing.duration_s

        def restore() -> None:
            if not may_be_restored():
                waiting.append(loop.call_for(None, loop.true_s + 0.25, restore))
                return
            self.world.history.note("disk restored", hit.name, f"from {begun_s:.1f} s")
            hit.lose_disk(copy)
            waiting.append(loop.call_for(None, loop.true_s + away_s, hit.start_broker))

        def may_be_restored() -> bool:
            record = self.cluster.record_of(hit.set_name)
            if record is None or self.was_set_back or record.confirmed <= copied_end or not hit.machine.has_power:
                return False
            named = [each for each in members if each.address in record.in_sync]
            has_another = any(each is not hit and each.machine.has_power for each in named)
            return has_another and not any(each.is_damaged for each in (hit, *named))

        waiting = [loop.call_for(None, restored_s, restore)]

        def end() -> None:
            for each in waiting:
                each.cancel()
            hit.start()

        return f"{hit.name} of master {master.name}", end

    def _seeded_disk(self, rng: Random) -> Any:
        """A member is started on a copy of another one's disk, as somebody does who adds a replica in a hurry."""
        master = self._master_of_several(rng)
        record = self.cluster.record_of(master.set_name) if master is not None else None
        if master is None or record is None or self.was_set_back:
            return None
        members = self.cluster.of_set(master.set_name)
        source = master if rng.random() < 0.7 else rng.choice(members)
        hit = rng.choice([each for each in members if each is not source])
        named = [each for each in members if each.address in record.in_sync]
        if any(each.is_damaged for each in (*named, source, hit)) or source.serving is None:
            return None
        if not any(each is not hit and each.machine.has_power for each in named) or not hit.machine.has_power:
            return None
        dies = master if hit is not master and rng.random() < 0.5 else None
        hit.lose_disk(source.disk.after(CrashMode.FORGET, rng))
        calls_off = [self._later(0.3 * rng.random(), hit.start_broker)]
        if dies is not None:
            calls_off.append(self._later(0.3 + 0.4 * rng.random(), dies.kill_machine))

        def end() -> None:
            for each in calls_off:
                each()
            hit.start()
            if dies is not None:
                dies.start()

        return f"{hit.name} from {source.name} of master {master.name}", end

    def _damaged_table(self, rng: Random) -> Any:
        """A broker dies, and finds one of its tables changed by a bit; another member has everything."""
        master = self._master_of_several(rng)
        record = self.cluster.record_of(master.set_name) if master is not None else None
        if master is None or record is None or self.was_set_back:
            return None
        members = self.cluster.of_set(master.set_name)
        hit = rng.choice([each for each in members if each.process is not None])
        others = [each for each in members if each.address in record.in_sync and each is not hit]
        if not any(each.machine.has_power and not each.is_damaged for each in others):
            return None
        hit.kill_broker()
        files = [path for path in hit.disk.files() if path.suffix == ".json" and hit.disk.used_bytes(path)]
        if not files:
            return hit.name, hit.start
        path = rng.choice(files)
        hit.disk.flip_bit(path, rng.randrange(8 * hit.disk.used_bytes(path)))
        return f"{hit.name} {path}", hit.start

    # --- machines ---

    def _slow_disk(self, rng: Random) -> Any:
        machine = self._member(rng).machine
        most_ms = rng.choice((200.0, 1_000.0, 4_000.0))
        machine.disk_ms = most_ms / 4, most_ms

        def end() -> None:
            machine.disk_ms = self.world.plan.disk_ms

        return f"{machine.name} {most_ms:g} ms", end

    def _disk_full(self, rng: Random) -> Any:
        member = self._member(rng)
        disk = member.disk
        disk.is_full = True
        logs = sum(path.parts[2] == "commitlog" for path in disk.files())
        sends_more = family_of(self.world.plan.seed).sends_more
        disk.is_quota = sends_more or logs > 1  # a full disk would delete files, as it may

        def end() -> None:
            member.disk.is_full = False
            disk.is_full = False

        return member.name, end

    def _disk_fails(self, rng: Random) -> Any:
        """Syncs fail; the machine gets another disk cable and starts again."""
        member = self._member(rng)
        member.disk.fail_syncs()

        def end() -> None:
            if member.machine.has_power and member.process is not None:
                member.kill_broker()
                member.disk.mend()
                member.start_broker()

        return member.name, end

    def _flip(self, rng: Random) -> Any:
        """A bit of the log, of a queue or of the index is another one, on the disk of a member that is no master."""
        members = [each for each in self.cluster.members if each.is_managed and not each.is_master]
        if not members:
            return None
        member = rng.choice(members)
        files = [path for path in member.disk.files() if path.parts[2] in ("commitlog", "consumequeue", "index")]
        sizes = {path: member.disk.used_bytes(path) for path in files}
        found = [path for path in files if sizes[path]]
        if not found:
            return None
        path = rng.choice(found)
        member.is_damaged = True
        member.disk.flip_bit(path, rng.randrange(8 * sizes[path]))
        return f"{member.name} {path}", _nothing

    def _damaged_message(self, rng: Random) -> Any:
        """A bit of a message that was stored lately flips in the log of a replica, which is then made master.

        It may wait for its time, for its next delivery, or for its first.
        """
        master = self._master_of_several(rng)
        record = self.cluster.record_of(master.set_name) if master is not None else None
        if master is None or record is None or master.serving is None:
            return None
        self._damages = [each for each in self._damages if not each.is_over()]
        members = self.cluster.of_set(master.set_name)
        others = [each for each in members if each is not master and each.address in record.in_sync]
        if not others or any(each.is_damaged for each in members):
            return None
        hit = rng.choice(others)
        waiting = late_message(master, rng)
        if waiting is None or hit.serving is None or hit.serving.store.flushed_position < sum(waiting):
            return None
        self._damages.append(Damage(hit, *waiting, rng))
        self.world.loop.spawn(self._operator, self._ask_to_switch(master.set_name, rng, hit.address), "switch")
        return f"{hit.name} position {waiting[0]}", _nothing

    def _clock_jumps(self, rng: Random) -> Any:
        machine = rng.choice([each.machine for each in self.cluster.members])
        by_ms = rng.choice((-30_000, -2_000, 2_000, 30_000))
        machine.jumped_ms += by_ms

        def back() -> None:
            machine.jumped_ms -= by_ms

        return f"{machine.name} {by_ms} ms", back

    # --- operators ---

    def _switch(self, rng: Random) -> Any:
        sets = [name for name in self.world.plan.sets if self.world.plan.is_managed(name)]
        if not sets:
            return None
        name = rng.choice(sets)
        self.world.loop.spawn(self._operator, self._ask_to_switch(name, rng), "switch")
        return name, _nothing

    async def _ask_to_switch(self, name: str, rng: Random, to: str = "") -> None:
        store = open_lease_store(LEASES_AT[self.world.plan.lease_store], CLUSTER, name)
        try:
            found = await store.read()
            if found is None:
                return
            others = [each for each in found.record.in_sync if each != found.record.holder and to in ("", each)]
            if others:
                await store.write(asked_to_hand_over(found.record, rng.choice(others)), found.version)
        except LeaseError as error:
            self.world.history.note("switch not asked for", name, type(error).__name__)

    def recover(self, name: str) -> None:
        """An operator decides, where agents may not: who acknowledges, else the member with the longest log.

        If two have what the one that acknowledges lacks, or nobody follows it, it is stopped before: what it has alone
        was not answered SEND_OK, and its log may have begun anew on an empty disk.
        """
        self.world.history.note("an operator decides", name)
        self.world.loop.spawn(self._operator, self._recover(name), "recover")

    def _is_alone(self, name: str, refusing: list[str]) -> bool:
        """Whether all others of the set refuse to follow its master."""
        others = {each.address for each in self.cluster.of_set(name) if not each.is_master}
        return bool(refusing) and others <= set(refusing)

    async def _recover(self, name: str) -> None:
        store = open_lease_store(LEASES_AT[self.world.plan.lease_store], CLUSTER, name)
        refusing = [each.address for each in self.cluster.of_set(name) if each.refuses]
        stopped = self.cluster.masters(name) if len(refusing) > 1 or self._is_alone(name, refusing) else []
        for member in stopped:
            member.kill_machine()
        try:
            if stopped:
                await asyncio.sleep(2 * self.world.plan.timing.duration_s)
            found = await store.read()
            record = found.record if found else None
            statuses = await survey(record, [each.address for each in self.cluster.of_set(name)], _status_of)
            known = {address: status for address, status in statuses.items() if status is not None}
            acknowledging = [each for each, status in known.items() if status.granted_s > 0]
            candidates = [each for each in refusing if each in known] if stopped else acknowledging
            chosen = max(candidates or known, key=lambda each: (known[each].log_number, known[each].end, each))
            await recover(store, plan_recovery(record, statuses, chosen), found, _status_of)
        except (MQError, ValueError) as error:
            self.world.history.note("not recovered", name, f"{type(error).__name__}: {error}")
        for member in stopped:
            member.start()


async def _status_of(address: str) -> BrokerStatus | None:
    try:
        async with BrokerBeside(address) as broker:
            return await broker.status()
    except MQError:
        return None
