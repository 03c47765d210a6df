"""The other members as an agent asks them: their brokers, over the port for clients, and name servers."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from pyromq.client.core.client import Client
from pyromq.errors import MQError
from pyromq.failover.doubt import Census
from pyromq.failover.record import BrokerStatus
from pyromq.wire.codes import RequestCode
from pyromq.wire.json.route import decode_cluster

_ASK_S: Final = 1.5
_NO_ANSWER: Final = (MQError, OSError, ValueError, TimeoutError, msgspec.MsgspecError)
_MEMBERS_MAX: Final = 64


class MemberPeers:
    """``agent.Peers`` over the network, with the connections of the agent's client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def census(self, members: tuple[str, ...], broker: BrokerStatus, *, only: bool = False) -> Census:
        named = set() if only else await self._registered(broker)
        answers: dict[str, BrokerStatus] = {}
        left = {*members, *named} - {broker.address}
        for _ in range(2):  # those who answer may know of others
            asked = sorted(left)[:_MEMBERS_MAX]
            found = await asyncio.gather(*(self._status(each, broker) for each in asked))
            answers |= {each: status for each, status in zip(asked, found, strict=True) if status is not None}
            known = {name for status in answers.values() for name in status.members}
            left = known - set(asked) - {broker.address}
            if only or not left:
                break
        return Census(answers=answers, named=frozenset(named - {broker.address}))

    async def _status(self, address: str, broker: BrokerStatus) -> BrokerStatus | None:
        """None when it does not answer, or is no member of this broker name under an agent."""
        try:
            async with asyncio.timeout(_ASK_S):
                response = await self._client.ask(self._client.brokers.link(address), RequestCode.QUERY_MEMBER)
            status = msgspec.json.decode(response.body, type=BrokerStatus)
        except _NO_ANSWER:
            return None
        is_one = status.managed and (status.name, status.cluster) == (broker.name, broker.cluster)
        return status if is_one else None

    async def _registered(self, broker: BrokerStatus) -> set[str]:
        """The addresses that name servers have under this broker name."""
        asked = [each for each in broker.nameservers if "://" not in each]
        found = await asyncio.gather(*(self._at_nameserver(each, broker) for each in asked))
        return {address for addresses in found for address in addresses}

    async def _at_nameserver(self, nameserver: str, broker: BrokerStatus) -> set[str]:
        try:
            async with asyncio.timeout(_ASK_S):
                link = self._client.brokers.link(nameserver)
                response = await self._client.ask(link, RequestCode.GET_BROKER_CLUSTER_INFO)
            known = decode_cluster(response.body).broker_addr_table.get(broker.name)
        except _NO_ANSWER:
            return set()
        return set(known.broker_addrs.values()) if known is not None else set()
