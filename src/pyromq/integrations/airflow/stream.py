"""Messages to Airflow and back: handed out in order, committed when Airflow has stored what they caused.

    poll ──▶ event, place ──▶ Airflow: trigger events ──▶ its database ──▶ done(place, …) ──▶ commit

Places of one queue are done in the order in which they were handed out; an offset is committed only when all before it
are done, and nothing is committed past an event that Airflow failed with: it comes again, after a restart of the
stream. So events may come twice, and none is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from pyromq.aio import PullConsumer, QueueId
from pyromq.errors import ConfigError, MQError
from pyromq.integrations.airflow.events import event_of
from pyromq.integrations.airflow.subscription import AirflowSubscription, ClusterConnection

logger = logging.getLogger(__name__)

IN_FLIGHT_MAX: Final = 256
"""Events that Airflow has and has not stored yet; its own queue for a trigger takes 1024 and fails when it is full."""


class EventFailedError(MQError):
    """Airflow did not take an event: the stream has to begin again at the last commit."""


class Handed(NamedTuple):
    """The place of a message that was handed out."""

    queue: QueueId
    offset: int


class MessageStream:
    """The messages of one subscription. ``find_place`` is asked when it is opened. One task reads, one acknowledges."""

    def __init__(
        self, subscription: AirflowSubscription, find_place: Callable[[], Awaitable[ClusterConnection]]
    ) -> None:
        self._subscription = subscription
        self._find_place = find_place
        self._consumer: PullConsumer | None = None
        self._room = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._newest: dict[QueueId, int] = {}  # polled last of each queue, as long as it is not done
        self._committed: dict[QueueId, int] = {}

    async def events(self) -> AsyncIterator[tuple[dict[str, Any], Handed]]:
        """Without end. Raises what consumers raise."""
        consumer = self._subscription.consumer(await self._find_place())
        await consumer.open()
        self._consumer = consumer
        while True:
            batch = await consumer.poll()
            if batch:
                self._newest[batch[-1].queue] = batch[-1].offset
            else:
                await self._commit_passed(consumer)
            for message in batch:
                await self._room.acquire()
                yield event_of(message), Handed(message.queue, message.offset)

    async def done(self, batch: Sequence[tuple[Handed, bool]]) -> None:
        """Places of one queue, in order, each with whether Airflow has stored all of its events.

        Commits up to the first that it has not. Raises EventFailedError if there is one, and what a commit raises.
        """
        for _ in batch:
            self._room.release()
        stored = next((number for number, (_, is_stored) in enumerate(batch) if not is_stored), len(batch))
        if stored:
            await self._commit(batch[stored - 1][0])
        if stored < len(batch):
            raise EventFailedError(f"the event of {batch[stored][0]} was not stored: it will come again")

    async def _commit(self, last: Handed) -> None:
        consumer = self._consumer
        if consumer is None:
            return
        try:
            position = consumer.position(last.queue)
        except ConfigError:  # another member of the group has the queue now, and reads these messages again
            logger.info("not committed, the queue has moved: queue=%s offset=%d", last.queue, last.offset)
            return
        end = last.offset + 1
        if self._newest.get(last.queue) == last.offset:  # all that was polled is done, so what was filtered out is, too
            del self._newest[last.queue]
            end = position
        self._committed[last.queue] = end
        await consumer.commit({last.queue: end})

    async def _commit_passed(self, consumer: PullConsumer) -> None:
        """Commit queues without unfinished messages, so that what the filter passed over behind the last match leaves
        no lag.
        """
        done = {queue: consumer.position(queue) for queue in consumer.assignment if queue not in self._newest}
        if news := {queue: end for queue, end in done.items() if end != self._committed.get(queue)}:
            self._committed |= news
            await consumer.commit(news)

    async def close(self) -> None:
        """Leaves the group; what was not committed comes again."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(MQError):
                await consumer.close()
