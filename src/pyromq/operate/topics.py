"""Topics: what there are, making and deleting them, what they hold and which groups consume them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypedDict, Unpack

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.tasks import gather
from pyromq.errors import ConfigError
from pyromq.model.names import DEFAULT_TOPIC, validate_topic
from pyromq.model.queue import QueueId
from pyromq.model.route import TopicRoute
from pyromq.model.system_names import TopicKind
from pyromq.model.topic import Perm, TopicConfig
from pyromq.operate.lists import ClusterLists, ListQuestion, TopicPage
from pyromq.operate.reading.schemas import NEWEST, QUEUES_MAX, SeenSchema, seen_schemas
from pyromq.operate.reading.stored_messages import StoredMessages
from pyromq.wire.headers.admin import CreateTopicHeader
from pyromq.wire.json.bodies import TopicOffset

_Names: TypeAlias = list[str]  # the facet has a method ``list``
_Schemas: TypeAlias = list[SeenSchema]


class TopicOptions(TypedDict, total=False):
    """Keywords of ``admin.topics.create`` that describe the topic."""

    queues: int
    """For reading and writing, unless one of the next two says otherwise; 8 by default."""
    read_queues: int | None
    write_queues: int | None
    perm: Perm
    """What clients may do with it; both by default."""
    ordered: bool
    attributes: dict[str, str] | None
    """Those of RocketMQ 5, such as ``{"message.type": "FIFO"}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewTopic:
    """``TopicOptions`` with their defaults; refuses a keyword that is none of them."""

    queues: int = 8
    read_queues: int | None = None
    write_queues: int | None = None
    perm: Perm = Perm.READ_WRITE
    ordered: bool = False
    attributes: dict[str, str] | None = None


class TopicTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """What the queues of a topic hold, and how many messages a second it took during the last minute."""

    queues: dict[QueueId, TopicOffset]
    put_rate: float

    @property
    def messages(self) -> int:
        return sum(max(0, held.max_offset - held.min_offset) for held in self.queues.values())

    @property
    def last_stored_ms(self) -> int:
        return max((held.last_update_timestamp for held in self.queues.values()), default=0)


class TopicFacet:
    """``admin.topics``: topics."""

    def __init__(self, requests: AdminRequests, lists: ClusterLists, stored: StoredMessages) -> None:
        self._requests = requests
        self._client = requests.client
        self._lists = lists
        self._stored = stored

    async def list(self, question: ListQuestion | None = None) -> TopicPage:
        """Return topics with queues, rates, groups and lag. Raises TransportError if no broker answers."""
        return await self._lists.topics(question)

    async def names(self, *, cluster: str = "") -> _Names:
        """Return all names that name servers know, those of the system included; of a cluster, or all."""
        servers = self._requests.nameservers
        found = await servers.topics_of_cluster(cluster) if cluster else await servers.topics()
        return sorted({self._client.plain_name(name) for name in found})

    async def kinds(self) -> dict[str, TopicKind]:
        """Return the kind of every topic that brokers have."""
        return await self._lists.kinds()

    async def route(self, topic: str) -> TopicRoute:
        """Return where a topic is, as name servers say now. Raises TopicNotFoundError."""
        return await self._requests.directory.route(topic)

    async def create(self, topic: str, *, cluster: str = "", broker: str = "", **options: Unpack[TopicOptions]) -> None:
        """Create or change a topic on one broker, on those of a cluster, or on all. Raises InvalidNameError.

        Keywords: ``queues`` (8), ``read_queues`` and ``write_queues`` where they differ, ``perm``, ``ordered``,
        ``attributes`` (see ``TopicOptions``).
        """
        new = _NewTopic(**options)
        header = CreateTopicHeader(
            topic=self._client.wire_name(validate_topic(topic)),
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=new.queues if new.read_queues is None else new.read_queues,
            write_queue_nums=new.queues if new.write_queues is None else new.write_queues,
            perm=int(new.perm),
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=new.ordered,
            attributes=",".join(f"+{key}={value}" for key, value in (new.attributes or {}).items()) or None,
        )
        masters = await self._requests.directory.masters(cluster, broker)
        await gather([self._requests.brokers.create_topic(address, header) for address in masters])

    async def delete(self, topic: str, *, cluster: str = "") -> None:
        """Delete a topic with its messages on every broker, then its route. Raises TopicNotFoundError."""
        name = self._client.wire_name(topic)
        await self.route(topic)
        masters = await self._requests.directory.masters(cluster)
        await gather([self._requests.brokers.delete_topic(address, name) for address in masters])
        await self._requests.nameservers.delete_topic(name, cluster)
        self._client.routes.forget(name)

    async def set_permission(self, topic: str, perm: Perm, *, broker: str = "") -> dict[str, int]:
        """Say what clients may do with a topic, on one broker (name or address) or all; return what it was, by broker.

        Raises TopicNotFoundError, NotFoundError.
        """
        before, directory = {}, self._requests.directory
        for name, config in (await self.config(topic)).items():
            if broker and await directory.address(broker) != await directory.address(name):
                continue
            before[name] = config.perm
            await self.create(
                topic,
                broker=name,
                read_queues=config.read_queue_nums,
                write_queues=config.write_queue_nums,
                perm=perm,
                ordered=config.order,
            )
        if not before:
            raise ConfigError(f"topic {topic} is not on broker {broker}")
        return before

    async def config(self, topic: str) -> dict[str, TopicConfig]:
        """Return the configuration of a topic on each broker that has it. Raises TopicNotFoundError."""
        name, brokers = self._client.wire_name(topic), await self._requests.directory.brokers_of(topic)
        return {broker: await self._requests.brokers.topic_config(address, name) for broker, address in brokers.items()}

    async def stats(self, topic: str) -> dict[QueueId, TopicOffset]:
        """Return what each queue of a topic holds. Raises TopicNotFoundError."""
        return (await self.traffic(topic)).queues

    async def traffic(self, topic: str) -> TopicTraffic:
        """Return what a topic holds and takes. Raises TopicNotFoundError. Brokers before 5.2 say no rate: it is 0."""
        name, brokers = self._client.wire_name(topic), await self._requests.directory.brokers_of(topic)
        found = await gather([self._requests.brokers.topic_stats(address, name) for address in brokers.values()])
        queues = sorted((queue, held) for stats in found for queue, held in stats.offset_table.items())
        return TopicTraffic(queues=dict(queues), put_rate=sum(stats.topic_put_tps for stats in found))

    async def groups(self, topic: str) -> _Names:
        """Return the groups that consume a topic, or did."""
        name, brokers = self._client.wire_name(topic), await self._requests.directory.brokers_of(topic)
        answers = await gather([self._requests.brokers.groups_of_topic(address, name) for address in brokers.values()])
        return sorted({self._client.plain_name(group) for groups in answers for group in groups})

    async def schemas(
        self, topic: str, *, newest: int = NEWEST, queues_max: int = QUEUES_MAX
    ) -> dict[QueueId, _Schemas]:
        """Return what the ``newest`` messages of each queue of a topic say of themselves, the most frequent first.

        Of the queues at most ``queues_max`` are looked at, those that were written to last; one that cannot be read now
        is left out. Raises TopicNotFoundError.
        """
        return await seen_schemas(self._stored, await self.stats(topic), newest, queues_max)
