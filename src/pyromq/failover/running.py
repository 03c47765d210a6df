"""An agent as a process: it waits for the broker beside it, looks after it, and hands over when it is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from pyromq.errors import ConfigError, MQError
from pyromq.failover.agent import Agent
from pyromq.failover.broker_control import BrokerBeside
from pyromq.failover.peers import MemberPeers
from pyromq.failover.record import BrokerStatus
from pyromq.failover.sight import Timing
from pyromq.failover.store import LeaseStore
from pyromq.waiting import set_within

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
        await set_within(stop, _LOOK_AGAIN_S)
    return None
