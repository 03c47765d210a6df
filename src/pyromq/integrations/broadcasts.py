"""Reading a topic from now on, for oneself alone: what is sent to all listeners reaches each of them that is there.

No group shares the queues and no offset is kept, so a listener leaves nothing behind at brokers when it goes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from pyromq.client.consumer.pull_consumer import PullConsumer
from pyromq.client.consumer.rules.start_offset import SeekTo
from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ConnectFailedError, MQError

logger = logging.getLogger(__name__)

HELD_MAX: Final = 1_000
"""Messages that wait for a listener; the oldest go first when it does not come."""
_POLL_MS: Final = 30_000
_AGAIN_S: Final = 1.0


class BroadcastReader:
    """``take_nowait`` may be called by any thread, the rest belongs to the loop; ``arrived`` is called there."""

    def __init__(
        self, client: Client, *, group: str, topic: str, tags: str = "*", arrived: Callable[[], object] = lambda: None
    ) -> None:
        self._consumer = PullConsumer(client=client, group=group, start="latest", auto_commit=False)
        self._topic = topic
        self._tags = tags
        self._arrived = arrived
        self._held: deque[ReceivedMessage] = deque()
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """What is sent after this is read. Raises TransportError, BrokerError, NoRouteError."""
        await self._consumer.open()
        try:
            queues = await self._consumer.queues(self._topic)
            await self._consumer.assign(queues, self._tags)
            for queue in queues:  # a group that is new begins at the beginning where that is still there
                if queue not in self._consumer.assignment:
                    raise ConnectFailedError(f"{queue} cannot be read: its broker is not there, or not ready")
                await self._consumer.seek(queue, SeekTo.END)
        except BaseException:  # raised again
            await self._consumer.close()
            raise
        self._reading = asyncio.get_running_loop().create_task(self._read(), name=f"broadcasts of {self._topic}")

    async def close(self) -> None:
        """Does nothing the second time."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await self._consumer.close()

    async def _read(self) -> None:
        while True:
            try:
                batch = await self._consumer.poll(_POLL_MS)
            except MQError as error:
                logger.warning("broadcasts not read, trying again: topic=%s error=%s", self._topic, error)
                await asyncio.sleep(_AGAIN_S)
                continue
            self._held.extend(batch)
            self._drop_oldest()
            if batch:
                self._arrived()

    def _drop_oldest(self) -> None:
        if (many := len(self._held) - HELD_MAX) > 0:
            for _ in range(many):
                self._held.popleft()
            logger.warning("broadcasts dropped, nothing takes them: topic=%s count=%d", self._topic, many)

    def take_nowait(self) -> ReceivedMessage | None:
        """Take the next message, if there is one."""
        try:
            return self._held.popleft()
        except IndexError:
            return None
