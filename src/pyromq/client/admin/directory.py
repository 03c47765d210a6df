"""Whom to ask: the masters of a cluster, the brokers of a topic, a broker by its name, as name servers say."""

from __future__ import annotations

from typing import Final, NoReturn

from pyromq.client.admin.nameserver_requests import NameServerRequests
from pyromq.client.core.client import Client
from pyromq.errors import BrokerError, NotFoundError
from pyromq.model.queue import QueueId
from pyromq.model.route import TopicRoute
from pyromq.wire.codes import ResponseCode
from pyromq.wire.json.route import ClusterInfo

_RECENT_MS: Final = 2_000


class BrokerDirectory:
    """Addresses of brokers, as name servers have them now or had them a moment ago."""

    def __init__(self, client: Client, nameservers: NameServerRequests) -> None:
        self._client = client
        self._nameservers = nameservers
        self._recent: tuple[int, ClusterInfo] | None = None  # when it was asked for, and the response

    async def route(self, topic: str) -> TopicRoute:
        """Return where a topic is, as name servers say now. Raises TopicNotFoundError."""
        name = self._client.wire_name(topic)
        return await self._client.routes.refresh(name, timeout_ms=self._client.settings.request_timeout_ms)

    async def queues(self, topic: str) -> list[QueueId]:
        """Return the queues of a topic that can be read, in order. Raises TopicNotFoundError."""
        return sorted((await self.route(topic)).readable_queues(self._client.wire_name(topic)))

    async def brokers_of(self, topic: str) -> dict[str, str]:
        """Return an address of each broker that has a topic, by the broker's name. Raises TopicNotFoundError."""
        brokers = (await self.route(topic)).broker_datas
        return {broker.broker_name: address for broker in brokers if (address := broker.readable_addr())}

    async def masters(self, cluster: str = "", broker: str = "") -> list[str]:
        """Return the addresses of masters: of one broker, a cluster, or all. Raises BrokerError if there are none."""
        if broker:
            return [await self.address(broker)]
        info = await self._nameservers.cluster()
        names = info.cluster_addr_table.get(cluster, []) if cluster else list(info.broker_addr_table)
        found = sorted(
            address
            for name in names
            if name in info.broker_addr_table and (address := info.broker_addr_table[name].master_addr)
        )
        return found or _refuse_without_masters(f"in cluster {cluster}" if cluster else "anywhere")

    async def all_masters(self) -> tuple[list[str], list[str]]:
        """Return the addresses of all masters, and the names of brokers that have only replicas at the moment.

        Raises BrokerError if there are no masters.
        """
        table = (await self._nameservers.cluster()).broker_addr_table
        found = sorted(address for each in table.values() if (address := each.master_addr))
        without = sorted(name for name, each in table.items() if not each.master_addr)
        return found or _refuse_without_masters("anywhere"), without

    async def named_masters(self) -> dict[str, str]:
        """Return the addresses of all masters by their brokers' names. Raises BrokerError if there are none."""
        table = (await self.recent_cluster()).broker_addr_table
        found = {name: address for name in sorted(table) if (address := table[name].master_addr)}
        return found or _refuse_without_masters("anywhere")

    async def recent_cluster(self) -> ClusterInfo:
        """Return what name servers said a moment ago: reading a queue needs it for every step."""
        now_ms = self._client.clock.monotonic_ms()
        if self._recent is None or now_ms - self._recent[0] > _RECENT_MS:
            self._recent = now_ms, await self._nameservers.cluster()
        return self._recent[1]

    async def address(self, broker: str) -> str:
        """Return the address of a broker's master by its name; an address stays what it is. Raises NotFoundError."""
        if ":" in broker:
            return broker
        data = (await self.recent_cluster()).broker_addr_table.get(broker)
        if data is None or not (address := data.readable_addr()):
            raise NotFoundError(code=ResponseCode.BROKER_NOT_EXIST, remark=f"name servers know no broker {broker}")
        return address


def _refuse_without_masters(where: str) -> NoReturn:
    raise BrokerError(code=ResponseCode.BROKER_NOT_EXIST, remark=f"no broker with a master {where}")
