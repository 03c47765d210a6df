"""Brokers and name servers: their settings, what they are doing, and their care."""

from __future__ import annotations

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.tasks import gather
from pyromq.wire.json.bodies import BrokerConsumeStats, StatsData
from pyromq.wire.json.route import ClusterInfo


class BrokerFacet:
    """``admin.brokers``: brokers, by their names or addresses."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests.brokers
        self._nameservers = requests.nameservers
        self._directory = requests.directory

    async def cluster(self) -> ClusterInfo:
        """Return every broker with its addresses, and the brokers of each cluster."""
        return await self._nameservers.cluster()

    async def config(self, broker: str) -> dict[str, str]:
        """Return the configuration of a broker in RocketMQ's words."""
        return await self._requests.config(await self._directory.address(broker))

    async def update_config(self, broker: str, values: dict[str, str]) -> None:
        """Change settings of a broker. Raises ConfigError for what cannot be written as ``key=value``."""
        await self._requests.update_config(await self._directory.address(broker), values)

    async def runtime(self, broker: str) -> dict[str, str]:
        """Return what a broker is doing."""
        return await self._requests.runtime(await self._directory.address(broker))

    async def stats(self, broker: str, name: str, key: str) -> StatsData | None:
        """Return one of RocketMQ's statistics, such as TOPIC_PUT_NUMS of a topic; None when nothing happened yet."""
        return await self._requests.stats(await self._directory.address(broker), name, key)

    async def progress(self, broker: str, *, ordered_only: bool = False) -> BrokerConsumeStats:
        """Return how far every group of a broker is in every topic it consumes."""
        return await self._requests.progress_of_all(await self._directory.address(broker), ordered_only=ordered_only)

    async def wipe_write_permission(self, broker: str) -> dict[str, int]:
        """Make producers leave a broker, which consumers go on reading; return how many topics changed, by server."""
        return await self._nameservers.wipe_write_permission(broker)

    async def add_write_permission(self, broker: str) -> dict[str, int]:
        """Let producers come back to a broker; return how many topics changed, by name server."""
        return await self._nameservers.add_write_permission(broker)

    async def clean_expired_queues(self, *, cluster: str = "", broker: str = "") -> None:
        """Let brokers delete files of consume queues whose messages are gone."""
        masters = await self._directory.masters(cluster, broker)
        await gather([self._requests.clean_expired_queues(address) for address in masters])

    async def delete_expired_log(self, *, cluster: str = "", broker: str = "") -> None:
        """Let brokers delete files of the commit log that are older than messages are kept."""
        masters = await self._directory.masters(cluster, broker)
        await gather([self._requests.delete_expired_log(address) for address in masters])

    async def clean_unused_topics(self, *, cluster: str = "", broker: str = "") -> None:
        """Let brokers delete consume queues of topics that they do not have any more."""
        masters = await self._directory.masters(cluster, broker)
        await gather([self._requests.clean_unused_topics(address) for address in masters])


class NameServerFacet:
    """``admin.nameservers``: name servers. They do not talk to each other, so each is asked, and each is told."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests.nameservers

    async def config(self) -> dict[str, dict[str, str]]:
        """Return the configuration of each name server by its address, in RocketMQ's words."""
        return await self._requests.config()

    async def update_config(self, values: dict[str, str]) -> None:
        """Change settings of all name servers. Raises ConfigError for what cannot be written as ``key=value``."""
        await self._requests.update_config(values)

    async def kv(self, namespace: str) -> dict[str, str]:
        """Return what one name server keeps under a namespace; nothing if there is none."""
        return await self._requests.kv(namespace)

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Write a value into the key-value table of all name servers."""
        await self._requests.put_kv(namespace, key, value)

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Delete a value from the key-value table of all name servers."""
        await self._requests.delete_kv(namespace, key)
