"""Administration on asyncio: what an operator may ask and do, by nouns.

    async with Admin("10.0.0.1:9876") as admin:
        await admin.topics.create("orders", queues=8)
        lag = await admin.groups.lag("billing")

What concerns a cluster is asked of the masters of all its brokers, and their responses are put together. Names are
plain; the namespace of the client, if it has one, is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, Unpack

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.client import Client
from pyromq.client.core.options import ClientOptions, check_options, client_for
from pyromq.operate.access import AccessFacet
from pyromq.operate.audit import AuditFacet
from pyromq.operate.brokers import BrokerFacet, NameServerFacet
from pyromq.operate.consumers.members import MemberFacet
from pyromq.operate.contents import ContentFacet
from pyromq.operate.dead_letters import DeadLetterFacet
from pyromq.operate.delays import DelayFacet
from pyromq.operate.explaining.gathering import FactGatherer
from pyromq.operate.groups import GroupFacet
from pyromq.operate.health import HealthFacet
from pyromq.operate.lists import ClusterLists
from pyromq.operate.measuring import MeasureFacet
from pyromq.operate.messages import MessageFacet
from pyromq.operate.offsets import OffsetFacet
from pyromq.operate.reading.cluster_search import SearchFacet
from pyromq.operate.reading.stored_messages import StoredMessages
from pyromq.operate.reading.topic_schemas import SchemaFacet
from pyromq.operate.replication import ReplicationFacet
from pyromq.operate.stores import StoreFacet
from pyromq.operate.sweep import Sweeper
from pyromq.operate.topics import TopicFacet
from pyromq.operate.transactions import TransactionFacet


class Admin:
    """A facet for each noun: ``admin.topics``, ``admin.groups``, ``admin.messages`` and so on.

    ``client`` is shared with producers and consumers; without one it has its own. Methods of facets raise
    TransportError when a server cannot be reached, BrokerError when it refuses.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        client: Client | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        check_options("Admin", options, ClientOptions)
        self._owns_client = client is None
        self.client = client_for(nameservers, client, options)
        self.requests = requests = AdminRequests(self.client)
        stored = StoredMessages(requests)
        self.sweeper = Sweeper(requests)
        self.brokers = BrokerFacet(requests, self.sweeper)
        self.nameservers = NameServerFacet(requests)
        self.schemas = SchemaFacet(requests)
        self.stores = StoreFacet(requests)
        self.replication = ReplicationFacet(requests, self.sweeper)
        self.access = AccessFacet(requests)
        self.audit = AuditFacet(requests)
        self.measuring = MeasureFacet(requests)
        self.members = MemberFacet(requests, stored)
        self.offsets = OffsetFacet(requests, self.members)
        self.delays = DelayFacet(requests, self.offsets, stored)
        self.transactions = TransactionFacet(requests, self.offsets, stored)
        self.dead_letters = DeadLetterFacet(requests, self.offsets, stored, self.delays)
        lists = ClusterLists(requests, self.sweeper, self.members, self.dead_letters)
        self.topics = TopicFacet(requests, lists, stored)
        self.contents = ContentFacet(requests, self.topics, self.members, self.stores, self.dead_letters, stored)
        self.groups = GroupFacet(requests, lists, self.members, self.offsets, stored)
        facts = FactGatherer(requests, self.members, self.offsets, self.delays, self.transactions)
        self.messages = MessageFacet(requests, self.offsets, facts)
        self.search = SearchFacet(requests, lists, stored, self.members, self.access)
        self.health = HealthFacet(requests, self.sweeper, self.groups, self.transactions, self.replication)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def open(self) -> Self:
        """Open the client, unless it is shared."""
        if self._owns_client:
            await self.client.open()
        self.client.require_open()
        return self

    async def close(self) -> None:
        """Close the client, unless it is shared."""
        if self._owns_client:
            await self.client.close()
