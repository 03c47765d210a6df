"""Requests to name servers: one method per request code. They do not talk to each other, so changes go to each."""

from __future__ import annotations

from typing import Any

from pyromq.client.admin.settings_text import settings_in, settings_text
from pyromq.client.core.client import Client
from pyromq.client.core.errors import error_of
from pyromq.client.core.tasks import gather
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Ext
from pyromq.wire.headers.nameserver import (
    AddWritePermResponseHeader,
    BrokerNameHeader,
    ClusterHeader,
    DeleteTopicInNameServerHeader,
    KvConfigHeader,
    PutKvConfigHeader,
    WipeWritePermResponseHeader,
)
from pyromq.wire.json.route import ClusterInfo, decode_cluster, decode_topics
from pyromq.wire.received import Received


class NameServerRequests:
    """What name servers are asked; names are as servers have them. Raises TransportError and BrokerError."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def cluster(self) -> ClusterInfo:
        return decode_cluster((await self._ask_one(RequestCode.GET_BROKER_CLUSTER_INFO)).body)

    async def topics(self) -> tuple[str, ...]:
        return tuple(
            decode_topics((await self._ask_one(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body).topic_list
        )

    async def topics_of_cluster(self, cluster: str) -> tuple[str, ...]:
        response = await self._ask_one(RequestCode.GET_TOPICS_BY_CLUSTER, ClusterHeader(cluster=cluster))
        return tuple(decode_topics(response.body).topic_list)

    async def delete_topic(self, topic: str, cluster: str) -> None:
        header = DeleteTopicInNameServerHeader(topic=topic, cluster_name=cluster or None)
        await self._ask_each(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)

    async def config(self) -> dict[str, dict[str, str]]:
        """Return the settings of each name server by its address."""
        responses = await self._ask_each(RequestCode.GET_NAMESRV_CONFIG)
        return {address: settings_in(response.body) for address, response in responses.items()}

    async def update_config(self, values: dict[str, str]) -> None:
        """Change settings of the name servers. Raises ConfigError for what cannot be written as ``key=value``."""
        await self._ask_each(RequestCode.UPDATE_NAMESRV_CONFIG, None, settings_text(values))

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        await self._ask_each(RequestCode.PUT_KV_CONFIG, PutKvConfigHeader(namespace=namespace, key=key, value=value))

    async def delete_kv(self, namespace: str, key: str) -> None:
        await self._ask_each(RequestCode.DELETE_KV_CONFIG, KvConfigHeader(namespace=namespace, key=key))

    async def kv(self, namespace: str) -> dict[str, str]:
        """Return what one name server keeps under a namespace; nothing if there is none."""
        client = self._client
        client.require_open()
        return await client.nameservers.kv(namespace, timeout_ms=client.settings.request_timeout_ms)

    async def wipe_write_permission(self, broker: str) -> dict[str, int]:
        """Return how many topics changed, by name server."""
        header = BrokerNameHeader(broker_name=broker)
        responses = await self._ask_each(RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
        kind = WipeWritePermResponseHeader
        return {address: each.header_as(kind).wipe_topic_count for address, each in responses.items()}

    async def add_write_permission(self, broker: str) -> dict[str, int]:
        """Return how many topics changed, by name server."""
        header = BrokerNameHeader(broker_name=broker)
        responses = await self._ask_each(RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
        kind = AddWritePermResponseHeader
        return {address: each.header_as(kind).add_topic_count for address, each in responses.items()}

    async def ask_those_that_know(self, code: RequestCode, header: Ext, body: bytes) -> list[Received[Any]]:
        """Ask each name server; one that does not know the request, such as Apache's, is left out."""
        client, known = self._client, (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        links = list(client.nameservers.links)
        responses = await gather([client.ask(link, code, header, body, expect=known) for link in links])
        return [response for response in responses if response.code == ResponseCode.SUCCESS]

    async def _ask_one(self, code: RequestCode, header: Ext = None) -> Received[Any]:
        client = self._client
        client.require_open()
        response = await client.nameservers.ask(code, header, timeout_ms=client.settings.request_timeout_ms)
        if response.code != ResponseCode.SUCCESS:
            raise error_of(response)
        return response

    async def _ask_each(self, code: RequestCode, header: Ext = None, body: bytes = b"") -> dict[str, Received[Any]]:
        self._client.require_open()
        links = list(self._client.nameservers.links)
        responses = await gather([self._client.ask(link, code, header, body) for link in links])
        return {str(link.address): response for link, response in zip(links, responses, strict=True)}
