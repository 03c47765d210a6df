"""The cluster of a simulation: name servers, broker sets with agents, a lease store; each process can be killed.

machine ─┬─ broker process ── disk        killed: the disk keeps what was written
         └─ agent process                 without power: the disk keeps what was synced, and a little at random
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final

from pyromq.broker.base.settings import BrokerSettings, GrpcSettings
from pyromq.broker.broker import Broker
from pyromq.broker.lifecycle import Lifecycle
from pyromq.errors import MQError
from pyromq.failover.broker_control import BrokerBeside
from pyromq.failover.opening import open_lease_store
from pyromq.failover.record import BrokerStatus, LeaseRecord, decode_record
from pyromq.failover.running import look_after
from pyromq.failover.store import LeaseStore
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.security.settings import AccessSettings
from pyromq.store.settings import StoreSettings
from pyromq.testing.faulty_disk import Crashed, CrashMode
from tests.sim.credentials import ACCESS
from tests.sim.disk import SimDisk
from tests.sim.history import History
from tests.sim.lease_access import LeaseServer
from tests.sim.loop import Machine, Process, SimLoop
from tests.sim.network import Network
from tests.sim.plan import LONG_DELAYS_S, SHORT_DELAYS_S, Plan
from tests.sim.servers import SimServer

CLUSTER: Final = "sim"
PORT: Final = 10_911
NAMES_PORT: Final = 9_876
GRPC_PORT: Final = 8_081
LEASES_AT: Final = {"etcd": "etcd:http://10.0.2.1:2379", "postgresql": "postgresql://pyromq@10.0.2.1/pyromq"}
FOLDER: Final = Path("/store")
STORE: Final = StoreSettings(
    segment_bytes=256 << 10,
    queue_file_entries=1_000,
    index_slots=200,
    index_entries=2_000,
    timer_log_bytes=64 << 10,
    timer_wheel_slots=4 * 3_600,
    timer_roll_ms=3_600_000,
    full_percent=95,
    delay_ladder_ms=tuple(1_000 * each for each in SHORT_DELAYS_S),
    seal_interval_ms=15_000,
    body_bytes_max=64 << 10,
)
_EXPIRING: Final = replace(
    STORE, segment_bytes=32 << 10, body_bytes_max=4 << 10, delete_hours=tuple(range(24)), delete_unread=False
)
_SHORT: Final[dict[str, Any]] = {  # intervals of brokers: more happens in a minute than by default
    "register_interval_ms": 5_000,
    "client_expiry_ms": 30_000,
    "lock_expiry_ms": 20_000,
    "offsets_save_ms": 2_000,
    "idle_ms": 30_000,
}


def store_of(plan: Plan) -> StoreSettings:
    found = replace(_EXPIRING, keep_ms=plan.keeps_ms) if plan.keeps_ms else STORE
    if plan.delays_s:
        found = replace(found, delay_ladder_ms=tuple(1_000 * each for each in LONG_DELAYS_S), timer_roll_ms=60_000)
    return found


@dataclass
class World:
    """What everything in one simulation shares."""

    loop: SimLoop
    network: Network
    history: History
    plan: Plan
    machines: dict[str, Machine] = field(default_factory=dict)
    witness: Any = None  # a Witness, when the cluster is whole
    graveyard: list[Any] = field(default_factory=list)  # objects of dead processes: not freed while the world lives
    known_logs: dict[str, Any] = field(default_factory=dict)  # of members, by name, as judges saw them last
    numbers: int = 100
    in_burst: bool = True  # else little is sent

    def rng(self, purpose: str) -> Random:
        return Random(f"{self.plan.seed}/{purpose}")

    def machine(self, name: str, ip: str) -> Machine:
        rate, wall_ms = self.plan.clocks.get(name, (1.0, 0))
        made = self.machines[name] = Machine(name, ip, rate=rate, wall_ms=wall_ms)
        made.disk_ms = self.plan.disk_ms
        self.network.add(made)
        return made

    def process(self, name: str, machine: Machine) -> Process:
        self.numbers += 1
        return Process(name, machine, self.numbers)

    def kill(self, process: Process) -> None:
        """None of its tasks takes another step; its sockets are closed by the operating system."""
        if process.is_dead:
            return
        process.is_dead = True
        process.backlog = []
        process.machine.processes.remove(process)
        self.graveyard.append(process)
        self.network.process_died(process)
        for told in process.on_death:
            told()


class Names:
    """A name server."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.machine = world.machine(f"names{number}", f"10.0.1.{number + 1}")
        self.address = f"{self.machine.ip}:{NAMES_PORT}"
        self.process: Process | None = None
        self.server: NameServer | None = None

    def start(self) -> None:
        self.process = self.world.process(self.machine.name, self.machine)
        self.world.loop.spawn(self.process, self._run(), "name server")

    async def _run(self) -> None:
        settings = NameServerSettings(host=self.machine.ip, port=NAMES_PORT, insecure_network=True)
        server = NameServer(settings, new_server=SimServer)
        self.world.graveyard.append(server)
        await server.__aenter__()
        self.server = server

    def kill(self) -> None:
        if self.process is not None:
            self.world.kill(self.process)
            self.process = self.server = None

    def knows(self, set_name: str) -> bool:
        """Who asks where the master of that set is gets an answer."""
        running = self.server._running if self.server is not None else None
        table = running.table.cluster_info().broker_addr_table if running is not None else {}
        return set_name in table and bool(table[set_name].master_addr)


class Member:
    """A machine with a broker, and an agent if it belongs to a set of several."""

    def __init__(self, world: World, set_name: str, number: int, in_set: int, nameservers: tuple[str, ...]) -> None:
        self.world = world
        self.set_name = set_name
        self.number = in_set  # in its set
        self.is_managed = world.plan.is_managed(set_name)
        self.machine = world.machine(f"{set_name}{in_set}", f"10.0.0.{number + 1}")
        self.address = f"{self.machine.ip}:{PORT}"
        self.nameservers = nameservers
        self.disk = SimDisk()
        self.broker: Broker | None = None
        self.process: Process | None = None
        self.agent: Process | None = None
        self.is_stopping = False  # the broker, because somebody wants it to
        self._agent_stop = asyncio.Event()
        self._after_agent: Callable[[], None] = lambda: None  # when it has stopped in order
        self.lives = 0
        self.disks = 1
        self.start_error = ""
        self.is_damaged = False  # its disk has changed something by itself: what it has is no longer judged

    @property
    def name(self) -> str:
        return self.machine.name

    def settings(self) -> BrokerSettings:
        plan = self.world.plan
        if self.is_managed:
            role = Role.REPLICA if self.number else Role.SYNC_MASTER
        else:
            role = Role.ALONE
        replication = ReplicationSettings(
            role=role,
            host=self.machine.ip if role is not Role.ALONE else "127.0.0.1",
            replica_addresses=("10.0.0.0/16",),
            insecure_network=True,
            managed=self.is_managed,
            replica_id=1 + self.number,
            all_in_sync=False,
            metadata_interval_ms=plan.metadata_ms,
            confirm_timeout_ms=2_000,
            **({} if plan.is_usual else {"heartbeat_interval_ms": 1_000, "silence_ms_max": 8_000}),
        )
        return BrokerSettings(
            cluster=CLUSTER,
            name=self.set_name,
            broker_id=1 + self.number if role is Role.REPLICA else 0,
            host=self.machine.ip,
            port=PORT,
            vip_port=False,
            insecure_network=True,
            nameservers=self.nameservers,
            transaction_timeout_ms=3_000,
            transaction_check_interval_ms=2_000,
            default_topic_queues=2,
            **({} if plan.is_usual else _SHORT),
            store=store_of(plan),
            replication=replication,
            access=ACCESS if plan.has_access else AccessSettings(),
            grpc=GrpcSettings(enabled=plan.has_grpc, port=GRPC_PORT),
        )

    # --- life ---

    def start(self) -> None:
        self.start_broker()
        if self.is_managed:
            self.start_agent()

    def start_broker(self) -> None:
        if self.process is not None or not self.machine.has_power:
            return
        self.lives += 1
        self.is_stopping = False
        self.process = self.world.process(f"{self.name}.{self.lives}", self.machine)
        self.disk.on_operation = lambda kind: None
        self.world.loop.spawn(self.process, self._serve(self.process), "broker")

    async def _serve(self, process: Process) -> None:
        rng = self.world.rng(f"broker {process.name}")
        broker = Broker(self.settings(), FOLDER, disk=self.disk, rng=rng, new_server=SimServer)
        self.world.graveyard.append(broker)
        self.broker = broker
        try:
            await broker.start()
        except Exception as error:  # a broker that cannot start says why, and is a process no more
            self.start_error = f"{type(error).__name__}: {error}"
            self.world.history.note("broker does not start", self.name, self.start_error)
            self.world.loop.call_for(None, self.world.loop.true_s, self.kill_broker)
            return
        self.start_error = ""
        broker.ignore_late_timers()

    def start_agent(self) -> None:
        if not self.is_managed or self.agent is not None or not self.machine.has_power:
            return
        self.agent = self.world.process(f"{self.name}.agent{self.lives}", self.machine)
        self._agent_stop, self._after_agent = asyncio.Event(), lambda: None
        self.world.loop.spawn(self.agent, self._look_after(self.agent, self._agent_stop), "agent")

    async def _look_after(self, process: Process, stop: asyncio.Event) -> None:
        plan = self.world.plan

        def open_store(status: BrokerStatus) -> LeaseStore:
            return open_lease_store(LEASES_AT[plan.lease_store], CLUSTER, status.name)

        async with BrokerBeside(self.address) as beside:
            await look_after(beside, open_store, plan.timing, stop, hands_over=True, on_ready=lambda status: None)
        self.world.loop.call_for(None, self.world.loop.true_s, self._agent_exits, process)

    def supervise(self) -> None:
        """As a service manager: a broker that has stopped by itself is started again.

        And as an operator, who does what a replica asks for that was away for longer than its master keeps files.
        """
        if self.broker is not None and self.broker.state is Lifecycle.STOPPED and not self.is_stopping:
            self.world.history.note("broker stopped by itself", self.name)
            self.kill_broker()
            self.start_broker()
        elif self.world.plan.keeps_ms and self._needs_empty_folder:
            self.world.history.note("folder emptied", self.name)
            self.lose_disk()
            self.start_broker()

    @property
    def _needs_empty_folder(self) -> bool:
        return "start this replica with an empty folder" in self._reason

    @property
    def refuses(self) -> bool:
        """To cut what was acknowledged, before an operator says so."""
        return "decide with pyromq cluster recover" in self._reason

    @property
    def _reason(self) -> str:
        """Why it does not follow."""
        tenure = self.serving._tenure if self.serving is not None else None
        follower = tenure.parts.replication.follower if tenure is not None else None
        return follower.reason if follower is not None else ""

    # --- stops in order ---

    def stop_broker(self) -> None:
        """As SIGTERM does it; ``start_again`` does not wait for longer than it is asked to."""
        if self.process is not None and self.serving is not None and not self.is_stopping:
            self.is_stopping = True
            self.world.loop.spawn(self.process, self._stop(self.process, self.serving), "stop")

    async def _stop(self, process: Process, broker: Broker) -> None:
        loop, said = self.world.loop, ""
        try:
            await broker.stop()
        except (MQError, OSError) as error:  # its disk fails, perhaps: the process ends with an error
            said = f"{type(error).__name__}: {error}"
        self.world.history.note("broker stopped", self.name, said)
        loop.call_for(None, loop.true_s, self._broker_exits, process)

    def _broker_exits(self, process: Process) -> None:
        if self.process is process:
            self.world.history.counts["stopped in order"] += 1
            self._end_broker()

    def stop_agent(self, then: Callable[[], None] = lambda: None) -> None:
        """As SIGTERM: it hands over if it can, and then ``then`` is called."""
        if self.agent is None:
            then()
            return
        self._after_agent = then
        self._agent_stop.set()

    def _agent_exits(self, process: Process) -> None:
        if self.agent is process:
            self.world.history.note("agent stopped", self.name)
            self.kill_agent()
            self._after_agent()

    def start_again(self) -> None:
        """What has not ended yet is killed."""
        if self._agent_stop.is_set():
            self.kill_agent()
        if self.is_stopping:
            self.kill_broker()
        self.start()

    # --- faults ---

    def kill_broker(self) -> None:
        """As kill -9: the disk keeps what was written."""
        if self.process is not None:
            self._count_kill()
            self._end_broker()

    def _end_broker(self) -> None:
        assert self.process is not None
        process, self.process, self.broker = self.process, None, None
        self.world.kill(process)
        self.disk = self.disk.after(CrashMode.KEEP, self.world.rng("unused"))

    def kill_agent(self) -> None:
        if self.agent is not None:
            agent, self.agent = self.agent, None
            self.world.kill(agent)

    def kill_machine(self) -> None:
        """Agent and broker."""
        self.kill_agent()
        self.kill_broker()

    def _count_kill(self) -> None:
        counts = self.world.history.counts
        counts["brokers killed"] += 1
        counts["brokers killed alone"] += sum(self.world.plan.sets.values()) == 1
        counts["masters killed"] += self.is_master

    def lose_power(self, rng: Random) -> None:
        if self.process is not None:
            self._count_kill()
        self.machine.has_power = False
        disk = self.disk.after(rng.choice((CrashMode.FORGET, CrashMode.MIX, CrashMode.MIX)), rng)
        self.disk.on_operation = lambda kind: None
        for process in list(self.machine.processes):
            self.world.kill(process)
        self.process = self.agent = self.broker = None
        self.disk = disk

    def power_back(self) -> None:
        self.machine.has_power = True
        self.world.network.kick()
        self.start()

    def lose_disk(self, instead: SimDisk | None = None) -> None:
        """The broker dies with its disk, and will find an empty one, or that one; its agent lives."""
        self.kill_broker()
        self.disk = instead or SimDisk()
        self.disks += 1
        self.is_damaged = True

    def lose_power_at_operation(self, count: int, rng: Random) -> None:
        """The machine stops in the middle of something: before the n-th change of its disk from now on."""
        left = count

        def look(kind: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self.world.history.note("power lost at operation", self.name, kind)
                self.lose_power(rng)
                raise Crashed

        self.disk.on_operation = look

    # --- facts that only the simulator sees ---

    @property
    def serving(self) -> Broker | None:
        broker = self.broker
        if broker is None or broker.state is not Lifecycle.SERVING:
            return None
        return broker

    @property
    def was_promoted(self) -> bool:
        """It is master by what it has on its disk, whether or not it has the lease."""
        lease = self.serving._environment.lease if self.serving is not None else None
        return lease is not None and lease.state.role == "master"

    @property
    def has_forgotten(self) -> bool:
        """Its disk was replaced, and has heard of no lease since."""
        lease = self.serving._environment.lease if self.serving is not None else None
        return self.disks > 1 and lease is not None and not lease.state.number

    @property
    def is_master(self) -> bool:
        """It acknowledges sends at this moment."""
        broker = self.serving
        if broker is None:
            return False
        if not self.is_managed:
            return True
        lease = broker._environment.lease
        assert lease is not None
        return lease.state.role == "master" and self._in_process(lambda: lease.is_open)

    def knows_replica(self, address: str) -> bool:
        """As a master: that member is connected, and has said how far it is."""
        tenure = self.broker._tenure if self.broker is not None else None
        members = tenure.parts.replication.members if tenure is not None else None
        return members is not None and members.position(address) is not None

    def _in_process(self, look: Any) -> Any:
        loop = self.world.loop
        before, loop.current = loop.current, self.process
        try:
            return look()
        finally:
            loop.current = before


class Cluster:
    """All servers of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        plan = world.plan
        self.names = [Names(world, each) for each in range(plan.names)]
        addresses = tuple(each.address for each in self.names)
        self.nameserver = ";".join(addresses)
        self.members: list[Member] = []
        for set_name, size in plan.sets.items():
            for in_set in range(size):
                self.members.append(Member(world, set_name, len(self.members), in_set, addresses))
        machine = world.machine("leases", "10.0.2.1")
        process = world.process("leases", machine)
        self.leases = LeaseServer(world.loop, machine, process, plan.new_lease_model())

    def start(self) -> None:
        for each in self.names:
            each.start()
        for member in self.members:
            member.start()

    def of_set(self, name: str) -> list[Member]:
        return [each for each in self.members if each.set_name == name]

    def masters(self, set_name: str) -> list[Member]:
        return [each for each in self.of_set(set_name) if each.is_master]

    def is_split(self, set_name: str) -> bool:
        """Whether two members have been promoted, and neither has followed the other."""
        return sum(each.was_promoted for each in self.of_set(set_name)) > 1

    def needs_decision(self, set_name: str) -> bool:
        """Whether agents leave it to an operator who is master."""
        refusing = any(each.refuses for each in self.of_set(set_name))
        return refusing or not self.masters(set_name) or self.is_split(set_name)

    def lost_what_it_had(self, set_name: str) -> bool:
        """Whether everybody whom the lease names has an empty disk.

        What they acknowledged alone would be on no other member: agents do not decide that it is lost.
        """
        record = self.record_of(set_name)
        named = [each for each in self.of_set(set_name) if record is not None and each.address in record.in_sync]
        return bool(named) and all(each.has_forgotten for each in named)

    def member(self, name: str) -> Member:
        return next(each for each in self.members if each.name == name)

    def records(self) -> list[LeaseRecord]:
        """What the lease store has, by itself."""
        texts = self.leases.model.text()
        is_etcd = self.world.plan.lease_store == "etcd"
        return [_decoded(each, is_etcd) for each in texts]

    def record_of(self, set_name: str) -> LeaseRecord | None:
        addresses = {each.address for each in self.of_set(set_name)}
        return next((each for each in self.records() if each.holder in addresses), None)


@lru_cache(64)
def _decoded(text: str, is_etcd: bool) -> LeaseRecord:
    """Asked for with every message that is acknowledged or read."""
    return decode_record(b64decode(text) if is_etcd else text)
