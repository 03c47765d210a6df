"""An agent as a process: it waits for the broker beside it, looks after it, and hands over when it is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from pyromq.client.core.client import Client
from pyromq.errors import ConfigError, MQError
from pyromq.failover.agent import Agent
from pyromq.failover.broker_control import BrokerBeside
from pyromq.failover.doubt import Census
from pyromq.failover.record import BrokerStatus
from pyromq.failover.rules import Timing
from pyromq.failover.store import LeaseStore
from pyromq.wire.codes import RequestCode
from pyromq.wire.json.route import decode_cluster

_ASK_S: Final = 1.5
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
        except (MQError, OSError, ValueError, TimeoutError, msgspec.MsgspecError):
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
        except (MQError, OSError, ValueError, TimeoutError, msgspec.MsgspecError):
            return set()
        return set(known.broker_addrs.values()) if known is not None else set()


logger = logging.getLogger(__name__)

_LOOK_AGAIN_S: Final = 0.5


async def look_after(
    broker: BrokerBeside,
    open_store: Callable[[BrokerStatus], LeaseStore],
    timing: Timing,
    stop: asyncio.Event,
    *,
    hands_over: bool,
    on_ready: Callable[[BrokerStatus], None],
) -> None:
    """Until ``stop`` is set. Raises ConfigError when the broker is not under an agent, LeaseError for a wrong store."""
    status = await _first_status(broker, stop)
    if status is None:
        return
    store = open_store(status)
    try:
        agent = Agent(status.address, store, broker, MemberPeers(broker.client), timing=timing)
        on_ready(status)
        running = asyncio.create_task(agent.run(), name="failover agent")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        for task in (running, stopping):
            task.cancel()
        ended = await asyncio.gather(running, stopping, return_exceptions=True)
        if isinstance(ended[0], Exception):
            raise ended[0]
        if hands_over and await agent.hand_over():
            logger.info("failover: handed over, the agent stops")
    finally:
        await store.close()


async def _first_status(broker: BrokerBeside, stop: asyncio.Event) -> BrokerStatus | None:
    """What the broker says of itself, once it answers; None when the agent was stopped before."""
    last = ""
    while not stop.is_set():
        try:
            status = await broker.status()
        except MQError as error:
            if str(error) != last:
                last = str(error)
                logger.info("failover: the broker does not answer yet: %s", last)
        else:
            if not status.managed:
                raise ConfigError(f"the broker at {broker.address} decides by itself: start it with --failover")
            return status
        try:
            async with asyncio.timeout(_LOOK_AGAIN_S):
                await stop.wait()
        except TimeoutError:
            continue
    return None
