"""Sending parcels: so many requests at a time, each tried again until a broker has confirmed it or patience ends.

The task's thread packs and hands over; the client's loop sends and hears answers. ``put`` waits when too much is under
way, and raises as soon as anything has failed for good. Parcels for one named queue follow each other one by one, so
that a second attempt cannot overtake; all others go to the next queue when theirs does not answer.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyromq.client.core.errors import error_of
from pyromq.client.core.settings import ProducerSettings
from pyromq.client.producer.outgoing import SEND, SEND_BATCH, Letter, header_fields
from pyromq.client.producer.topic_queues import Publication
from pyromq.client.producer.topic_queues_table import Publications
from pyromq.errors import BrokerError, ConnectFailedError, MQError, TransportError
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.connections import Connected
from pyromq.pipeline.core.retry_window import Patience
from pyromq.pipeline.sink.keys import next_run
from pyromq.pipeline.sink.options import SinkOptions
from pyromq.pipeline.sink.requests import Parcel
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

PRODUCER_GROUP: Final = "PYROMQ_SPARK_SINK"
_SINGLES: Final = 128  # messages that travel alone are handed over together
_STORED: Final = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    )
)

IsStored = Callable[[Parcel, QueueId], bool]


@dataclass(frozen=True, slots=True)
class HalfPlace:
    """Where a broker has a half message."""

    broker: str
    topic: str
    offset: int
    position: int
    key: str


@dataclass(slots=True)
class Sent:
    """What brokers have confirmed."""

    rows: int = 0
    halves: list[HalfPlace] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)  # keys of half messages that may be there, and must not count


class Sender:
    """For one task. ``is_stored(parcel, queue)`` is asked before a parcel is sent again that may have arrived."""

    def __init__(
        self,
        connected: Connected,
        options: SinkOptions,
        *,
        sys_flag: int = 0,
        keeps_halves: bool = False,
        is_stored: IsStored | None = None,
    ) -> None:
        self._connected, self._client, self._options = connected, connected.client, options
        self._settings = ProducerSettings(group=options.group or PRODUCER_GROUP)
        self._group = self._client.wire_name(self._settings.group)
        self._publications = Publications(self._client, self._settings)
        self._sys_flag, self._keeps_halves, self._is_stored = sys_flag, keeps_halves, is_stored
        self._places = threading.BoundedSemaphore(options.in_flight)
        self._locks: dict[QueueId, asyncio.Lock] = {}  # touched on the loop only, as are these two
        self._tasks: set[asyncio.Task[None]] = set()
        self._sent = Sent()
        self._error: BaseException | None = None
        self._singles: list[Parcel] = []

    # --- on the task's thread ---

    def queues_of(self, topic: str) -> Sequence[QueueId]:
        """In the order that sharding keys choose by."""
        return self._connected.call(self._find(topic)).queues

    def put(self, parcel: Parcel) -> None:
        """Raises what an earlier parcel failed with."""
        if parcel.properties is None:
            self._hand_over([parcel])
            return
        self._singles.append(parcel)
        if len(self._singles) >= _SINGLES:
            self._hand_over_singles()

    def finish(self) -> Sent:
        """All that was put is confirmed. Raises as ``put`` does."""
        if self._singles:
            self._hand_over_singles()
        for _ in range(self._options.in_flight):
            self._places.acquire()
        self._raise_error()
        return self._sent

    def give_up(self) -> None:
        """The task failed for another reason: nothing more is sent."""
        self._connected.thread.soon(lambda: [task.cancel() for task in self._tasks])

    def _hand_over_singles(self) -> None:
        singles, self._singles = self._singles, []
        self._hand_over(singles)

    def _hand_over(self, parcels: list[Parcel]) -> None:
        self._places.acquire()
        self._raise_error()
        self._connected.thread.soon(self._start, parcels)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    # --- on the loop ---

    def _start(self, parcels: list[Parcel]) -> None:
        task = asyncio.get_running_loop().create_task(self._ship(parcels))
        self._tasks.add(task)
        task.add_done_callback(self._shipped)

    def _shipped(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._error is None:
            self._error = error
            for other in self._tasks:  # the task ends with this error; what it has not sent will come again
                other.cancel()
        self._places.release()

    async def _ship(self, parcels: list[Parcel]) -> None:
        if len(parcels) == 1:
            await self._deliver(parcels[0])
        else:
            await asyncio.gather(*map(self._deliver, parcels))

    async def _find(self, topic: str) -> Publication:
        return self._publications.known.get(topic) or await self._publications.find(
            topic, self._options.reaching.request_ms
        )

    async def _deliver(self, parcel: Parcel) -> None:
        if parcel.queue is None:
            await self._try_until_stored(parcel)
            return
        async with self._locks.setdefault(parcel.queue, asyncio.Lock()):
            await self._try_until_stored(parcel)

    async def _try_until_stored(self, parcel: Parcel) -> None:
        """Raises SourceUnreachableError, and BrokerError for what no patience helps against."""
        patience, last_broker = None, ""
        while True:
            queue = parcel.queue
            try:
                publication = await self._find(parcel.topic)
                queue = queue or (publication.next_elsewhere(last_broker) if last_broker else publication.next())
                self._note(parcel, queue, await self._attempt(parcel, publication, queue))
                return
            except MQError as error:
                what = f"sending {len(parcel.keys)} rows to topic {parcel.topic}"
                patience = patience or Patience(what, self._options.reaching.retry_ms, self._client.clock)
                pause_ms = patience.failed(error)
                logger.info("rows not sent, trying again: topic=%s error=%s", parcel.topic, error)
                wire_name = self._client.wire_name(parcel.topic)
                self._publications.route_changed(wire_name)
                self._client.routes.refresh_soon(wire_name)
                last_broker = queue.broker if queue is not None else ""
                if self._keeps_halves and _may_have_arrived(error):
                    self._rename(parcel)
                if queue is not None and self._is_stored is not None and _may_have_arrived(error):
                    await asyncio.sleep(self._options.settle_ms / 1000)
                    if await asyncio.to_thread(self._is_stored, parcel, queue):
                        self._sent.rows += len(parcel.keys)
                        return
            await asyncio.sleep(pause_ms / 1000)

    def _rename(self, parcel: Parcel) -> None:
        """A half message that may have arrived is given up; its row is sent under another key."""
        old, new = parcel.key, next_run(parcel.key)
        self._sent.doubtful.append(old)
        parcel.keys, parcel.properties = [new], (parcel.properties or "").replace(old, new, 1)

    async def _attempt(self, parcel: Parcel, publication: Publication, queue: QueueId) -> Received[Any]:
        client, timeout_ms = self._client, self._options.reaching.request_ms
        is_batch = parcel.properties is None
        letter = Letter(
            SEND_BATCH if is_batch else SEND,
            publication.topic,
            parcel.body,
            parcel.properties or "",
            "",
            client.clock.now_ms(),
            0,
            parcel.flag,
            self._sys_flag,
        )
        settings = self._settings
        fields = header_fields(letter, queue, self._group, settings.template_topic, str(settings.new_topic_queues))
        if client.signer.is_needed:
            fields = client.signer.signed_fields(fields, letter.body)
        link = publication.links.get(queue.broker) or client.master_link(queue.broker)
        answer = await link.request(letter.code, fields, letter.body, timeout_ms=timeout_ms)
        if answer.code not in _STORED:
            raise error_of(answer, topic=publication.topic)
        return answer

    def _note(self, parcel: Parcel, queue: QueueId, answer: Received[Any]) -> None:
        self._sent.rows += len(parcel.keys)
        if self._keeps_halves:
            header = answer.header_as(SendResponseHeader)
            position = decode_offset_id(header.msg_id)[1]
            place = HalfPlace(queue.broker, queue.topic, header.queue_offset, position, parcel.key)
            self._sent.halves.append(place)


def _may_have_arrived(error: MQError) -> bool:
    """Whether a broker may have stored what it did not confirm."""
    if isinstance(error, BrokerError):
        return error.code == ResponseCode.SYSTEM_ERROR
    return isinstance(error, TransportError) and not isinstance(error, ConnectFailedError)
