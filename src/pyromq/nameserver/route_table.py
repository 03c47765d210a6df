"""The route table: which brokers are alive, where they listen, which topics they keep. Pure; time is handed in.

    topics    topic → broker name → queue data
    brokers   broker name → cluster, address by id, zone         clusters are read off it
    live      cluster and address → last heard, data version, connection, replication address, filter servers

What always holds: every address of ``brokers`` has its entry in ``live`` and the other way round; a broker has at least
one address; a topic has at least one broker, and all of its brokers are known.

Every change is decided first: a refused registration leaves the table as it was. ``revision`` grows whenever a
response about topics or brokers could differ from the one before; a mere sign of life does not move it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace as replaced

from msgspec.structs import replace

from pyromq.clock import Clock
from pyromq.errors import quoted
from pyromq.model.route import MASTER_ID, BrokerData, QueueData, TopicRoute
from pyromq.model.topic import DataVersion, Perm
from pyromq.nameserver.checks import check_queues, check_registration, queue_data
from pyromq.nameserver.errors import LimitError, RegistrationRefusedError
from pyromq.nameserver.members import (
    BrokerEndpoint,
    BrokerProcess,
    LiveMember,
    Outranked,
    Registered,
    Registration,
    VersionCheck,
)
from pyromq.nameserver.settings import NameServerLimits
from pyromq.nameserver.topic_queues import QueueDataTable
from pyromq.wire.json.route import ClusterInfo, TopicList

_UNIT, _UNIT_SUB = 1, 2  # bits of a topic's system flag


class RouteTable:
    """Owns the tables above; one thread."""

    def __init__(self, clock: Clock, *, silence_ms_max: int = 120_000, limits: NameServerLimits | None = None) -> None:
        self._clock = clock
        self._silence_ms_max = silence_ms_max
        self._limits = limits or NameServerLimits()
        self._queues = QueueDataTable()
        self._brokers: dict[str, BrokerData] = {}
        self._live: dict[BrokerEndpoint, LiveMember] = {}
        self._broker_changes = 0

    @property
    def revision(self) -> int:
        return self._queues.revision + self._broker_changes

    @property
    def member_count(self) -> int:
        """Registered addresses, masters and replicas."""
        return len(self._live)

    @property
    def topic_count(self) -> int:
        return len(self._queues)

    # --- brokers register --------------------------------------------------------------------------------------------

    def register(self, registration: Registration, connection: Hashable) -> Registered | Outranked:
        """Add a broker, or update what it says about itself. Raises RegistrationRefusedError.

        Topics that break a limit are left out; the others count.
        """
        left_out = check_registration(registration, self._limits)
        member = registration.member
        others = self._other_members(member)
        earlier = self._live.get(member.endpoint)
        holder = self._holder(registration, others)
        if holder is not None and holder.rank > registration.data_version.state_version:
            self._remove_all([member.endpoint] if earlier else [])
            return Outranked(holder=holder.member.address, rank=holder.rank)
        is_known = earlier is not None and earlier.member == member
        is_first = not is_known and member.broker_id not in others
        self._refuse_if_unfit(registration, is_first)
        left_out |= self._beyond_count(registration, left_out)
        is_current = earlier is not None and is_known and earlier.data_version == registration.data_version
        self._put_member(registration, connection, frozenset(left_out), self._rank(registration, holder))
        if self._leads(registration):
            self._put_topics(registration, left_out, everything=not is_current)
        master = self._master_for(member)
        return Registered(
            is_new=is_first,
            displaced=others.get(member.broker_id),
            master_address=master.member.address if master else None,
            master_ha_address=master.ha_address if master else None,
            left_out=left_out,
            left_out_before=earlier.left_out if earlier else frozenset(),
        )

    def _other_members(self, member: BrokerProcess) -> dict[int, str]:
        """The other addresses with the same broker name, by id."""
        known = self._brokers.get(member.broker)
        listed = known.broker_addrs if known else {}
        return {broker_id: address for broker_id, address in listed.items() if address != member.address}

    def _holder(self, registration: Registration, others: dict[int, str]) -> LiveMember | None:
        """The other process that holds the same name and id."""
        address = others.get(registration.member.broker_id)
        return (
            self._live.get(BrokerEndpoint(self._brokers[registration.member.broker].cluster, address))
            if address
            else None
        )

    def _rank(self, registration: Registration, holder: LiveMember | None) -> int:
        """The state version, which counts elections, but at most so much above what was there before.

        Nobody can take a name with a number that nobody else can outbid.
        """
        earlier = self._live.get(registration.member.endpoint)
        base = max((each.rank for each in (holder, earlier) if each is not None), default=0)
        return min(registration.data_version.state_version, base + self._limits.state_version_jump_max)

    def _refuse_if_unfit(self, registration: Registration, is_first: bool) -> None:
        member, limits = registration.member, self._limits
        if is_first and len(registration.topics) + len(registration.unreadable) == 1:
            raise RegistrationRefusedError(
                f"broker {quoted(member.broker)} id {member.broker_id} is new: it must send all its topics first"
            )
        known = self._brokers.get(member.broker)
        if known and known.cluster != member.cluster and self._other_members(member):
            raise RegistrationRefusedError(
                f"broker name {quoted(member.broker)} is in use in cluster {quoted(known.cluster)}"
            )
        if member.endpoint not in self._live and len(self._live) >= limits.brokers_max:
            raise RegistrationRefusedError(f"{limits.brokers_max} brokers are registered, no more are allowed")

    def _beyond_count(self, registration: Registration, left_out: Mapping[str, str]) -> dict[str, str]:
        """Topics that the broker, or the table, has no room for."""
        broker, limits, beyond = registration.member.broker, self._limits, dict[str, str]()
        room_here = limits.topics_per_broker_max - self._queues.count_of(broker)
        room = limits.topics_max - len(self._queues)
        if min(room_here, room) >= len(registration.topics):
            return beyond
        for topic in registration.topics:
            known = self._queues.of(topic)
            if topic in left_out or broker in known:
                continue
            if room_here < 1:
                beyond[topic] = f"broker {quoted(broker)} would have more than {limits.topics_per_broker_max} topics"
            elif not known and room < 1:
                beyond[topic] = f"the name server would have more than {limits.topics_max} topics"
            else:
                room_here, room = room_here - 1, room - (not known)
        return beyond

    def _put_member(
        self, registration: Registration, connection: Hashable, left_out: frozenset[str], rank: int
    ) -> None:
        member = registration.member
        before, earlier = self._brokers.get(member.broker), self._live.get(member.endpoint)
        if earlier and earlier.member.broker != member.broker:  # one process has one role
            self._remove_all([member.endpoint])
        after = BrokerData(
            cluster=member.cluster,
            broker_name=member.broker,
            broker_addrs=dict(sorted({**self._other_members(member), member.broker_id: member.address}.items())),
            zone_name=registration.zone,
            enable_acting_master=registration.acting_master or False,
        )
        self._replace_broker(before, after)
        self._live[member.endpoint] = entry = self._live_member(registration, connection, left_out, rank)
        if before != after or earlier is None or earlier.filter_servers != entry.filter_servers:
            self._broker_changes += 1

    def _replace_broker(self, before: BrokerData | None, after: BrokerData) -> None:
        """One role has one process: whose address is not listed any more is not live either."""
        for address in before.broker_addrs.values() if before else ():
            if before and (before.cluster != after.cluster or address not in after.broker_addrs.values()):
                del self._live[BrokerEndpoint(before.cluster, address)]
        self._brokers[after.broker_name] = after

    def _live_member(
        self, registration: Registration, connection: Hashable, left_out: frozenset[str], rank: int
    ) -> LiveMember:
        wish = registration.silence_ms_max
        return LiveMember(
            member=registration.member,
            connection=connection,
            seen_ms=self._clock.monotonic_ms(),
            silence_ms_max=min(wish, self._limits.silence_ms_max) if wish and wish > 0 else self._silence_ms_max,
            data_version=registration.data_version,
            ha_address=registration.ha_address,
            filter_servers=registration.filter_servers,
            left_out=left_out,
            rank=rank,
        )

    def _leads(self, registration: Registration) -> bool:
        """Whether the topics of this member count: it is the master, or the first replica while there is none."""
        broker_id = registration.member.broker_id
        if broker_id == MASTER_ID:
            return True
        first_id = min(self._brokers[registration.member.broker].broker_addrs)
        return registration.acting_master is not None and broker_id == first_id

    def _put_topics(self, registration: Registration, left_out: Mapping[str, str], *, everything: bool) -> None:
        member = registration.member
        acts_for_master = member.broker_id != MASTER_ID and registration.acting_master
        for topic in registration.topics:
            if topic not in left_out and (everything or member.broker not in self._queues.of(topic)):
                data = queue_data(registration, topic)
                self._queues.put(topic, replace(data, perm=_without_write(data.perm)) if acts_for_master else data)

    def _master_for(self, replica: BrokerProcess) -> LiveMember | None:
        master_address = self._brokers[replica.broker].master_addr
        if replica.broker_id == MASTER_ID or master_address is None:
            return None
        return self._live[BrokerEndpoint(replica.cluster, master_address)]

    # --- brokers stay ------------------------------------------------------------------------------------------------

    def refresh(self, endpoint: BrokerEndpoint) -> bool:
        """A broker was heard; False when it is not registered."""
        entry = self._live.get(endpoint)
        if entry is not None:
            self._live[endpoint] = replaced(entry, seen_ms=self._clock.monotonic_ms())
        return entry is not None

    def compare_version(self, endpoint: BrokerEndpoint, version: DataVersion) -> VersionCheck:
        """Whether a broker has to register its topics again; also counts as a sign of life."""
        self.refresh(endpoint)
        entry = self._live.get(endpoint)
        if entry is None:
            return VersionCheck(changed=True, known=None)
        known = replace(entry.data_version, state_version=entry.rank)  # what others have to outbid
        return VersionCheck(changed=entry.data_version != version, known=known)

    # --- brokers go --------------------------------------------------------------------------------------------------

    def unregister(self, broker: str, address: str) -> bool:
        """A broker signs off; False when it was not there."""
        known = self._brokers.get(broker)
        if known is None or address not in known.broker_addrs.values():
            return False
        self._remove_all([BrokerEndpoint(known.cluster, address)])
        return True

    def drop_connection(self, connection: Hashable) -> list[BrokerProcess]:
        """Remove the brokers that registered last over a connection that is gone."""
        return self._drop(entry for entry in self._live.values() if entry.connection == connection)

    def drop_silent(self) -> list[LiveMember]:
        """Remove brokers that have been silent for too long; their connections are of no use any more."""
        now_ms = self._clock.monotonic_ms()
        silent = [entry for entry in self._live.values() if now_ms - entry.seen_ms > entry.silence_ms_max]
        self._drop(silent)
        return silent

    def _drop(self, entries: Iterable[LiveMember]) -> list[BrokerProcess]:
        members = [entry.member for entry in entries]
        self._remove_all([member.endpoint for member in members])
        return members

    def _remove_all(self, endpoints: Iterable[BrokerEndpoint]) -> None:
        for endpoint in endpoints:
            self._remove(self._live.pop(endpoint).member)

    def _remove(self, member: BrokerProcess) -> None:
        self._broker_changes += 1
        broker = self._brokers[member.broker]
        left = self._other_members(member)
        if not left:
            del self._brokers[member.broker]
            self._queues.drop_broker(member.broker)
            return
        self._brokers[member.broker] = replace(broker, broker_addrs=left)
        if broker.enable_acting_master and MASTER_ID not in left:
            self._queues.change_perm(member.broker, _without_write)

    # --- questions ---------------------------------------------------------------------------------------------------

    def route(self, topic: str, *, acting_masters: bool = False) -> TopicRoute | None:
        """Where a topic lives; ``acting_masters`` shows the first replica of a broker without master as its master."""
        queues = self._queues.of(topic)
        if not queues:
            return None
        brokers = [self._brokers[name] for name in sorted(queues)]
        if acting_masters:
            brokers = [_with_acting_master(broker, queues[broker.broker_name]) for broker in brokers]
        return TopicRoute(
            broker_datas=tuple(brokers),
            queue_datas=tuple(queues[broker.broker_name] for broker in brokers),
            filter_server_table=self._filter_servers(brokers),
        )

    def _filter_servers(self, brokers: list[BrokerData]) -> dict[str, list[str]]:
        endpoints = [
            BrokerEndpoint(broker.cluster, address) for broker in brokers for address in broker.broker_addrs.values()
        ]
        servers = {endpoint.address: list(self._live[endpoint].filter_servers) for endpoint in endpoints}
        return {address: listed for address, listed in servers.items() if listed}

    def cluster_info(self) -> ClusterInfo:
        clusters: dict[str, list[str]] = {}
        for name, broker in sorted(self._brokers.items()):
            clusters.setdefault(broker.cluster, []).append(name)
        return ClusterInfo(broker_addr_table=dict(self._brokers), cluster_addr_table=clusters)

    def member_addresses(self, broker: str) -> dict[int, str]:
        """Addresses of a broker by id; empty for an unknown one."""
        known = self._brokers.get(broker)
        return dict(known.broker_addrs) if known else {}

    def list_topics(self) -> TopicList:
        return TopicList(topic_list=self._queues.topics())

    def list_topics_of_cluster(self, cluster: str) -> TopicList:
        names = self._names_in(cluster)
        return TopicList(topic_list=self._queues.topics(lambda queues: not names.isdisjoint(queues)))

    def list_system_topics(self) -> TopicList:
        """Clusters and brokers are topics too; any broker knows the others, so one address comes with them."""
        clusters = {broker.cluster for broker in self._brokers.values()}
        some_broker = self._brokers[min(self._brokers)].readable_addr() if self._brokers else None
        return TopicList(topic_list=sorted(clusters | self._brokers.keys()), broker_addr=some_broker)

    def list_unit_topics(self) -> TopicList:
        return self._list_by_flag(_UNIT, _UNIT)

    def list_unit_subscribed_topics(self) -> TopicList:
        return self._list_by_flag(_UNIT_SUB, _UNIT_SUB)

    def list_unit_subscribed_only_topics(self) -> TopicList:
        return self._list_by_flag(_UNIT_SUB, _UNIT | _UNIT_SUB)

    def _list_by_flag(self, value: int, mask: int) -> TopicList:
        """Topics whose first broker has those bits in its system flag."""
        return TopicList(
            topic_list=self._queues.topics(lambda queues: queues[min(queues)].topic_sys_flag & mask == value)
        )

    def _names_in(self, cluster: str) -> frozenset[str]:
        return frozenset(name for name, broker in self._brokers.items() if broker.cluster == cluster)

    # --- administration ----------------------------------------------------------------------------------------------

    def wipe_write_perm(self, broker: str) -> int:
        """Take a broker out of sending; on how many topics. Lasts until the broker's topics change."""
        return self._queues.change_perm(broker, _without_write)

    def add_write_perm(self, broker: str) -> int:
        """Make every topic of a broker readable and writable; how many they are."""
        return self._queues.change_perm(broker, lambda _: int(Perm.READ_WRITE))

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, in one cluster or in all; brokers that still have it bring it back."""
        self._queues.drop(topic, None if cluster is None else self._names_in(cluster))

    def register_topic(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Add queues of a topic on brokers that are known; others are skipped. Raises LimitError."""
        known = [data for data in queues if data.broker_name in self._brokers]
        for data in known:
            check_queues(topic, data, self._limits)
            is_new = data.broker_name not in self._queues.of(topic)
            if is_new and self._queues.count_of(data.broker_name) >= self._limits.topics_per_broker_max:
                raise LimitError(f"broker {quoted(data.broker_name)} has as many topics as are allowed")
        if known and not self._queues.of(topic) and len(self._queues) >= self._limits.topics_max:
            raise LimitError(f"the name server has as many topics as are allowed: {self._limits.topics_max}")
        for data in known:
            self._queues.put(topic, data)


def _without_write(perm: int) -> int:
    return perm & ~int(Perm.WRITE)


def _with_acting_master(broker: BrokerData, queues: QueueData) -> BrokerData:
    """The broker as clients should see it while its first replica answers for the master."""
    if not broker.enable_acting_master or broker.master_addr is not None or queues.writable:
        return broker
    first, *others = sorted(broker.broker_addrs.items())
    return replace(broker, broker_addrs={MASTER_ID: first[1], **dict(others)})
