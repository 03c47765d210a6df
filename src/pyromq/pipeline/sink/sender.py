"""Retrying sender: some requests in flight at a time, each until a broker has confirmed it or its retry window ends.

The task's thread packs and hands over; the client's loop sends and takes responses. ``put`` waits when too much is in
flight, and raises as soon as anything has failed for good. Requests for one named queue follow each other one by one,
so that a second attempt cannot overtake; all others go to the next queue when theirs does not answer.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyromq.client.core.settings import ProducerSettings
from pyromq.client.producer.outgoing import SEND, SEND_BATCH, OutgoingMessage
from pyromq.client.producer.raw_send import send_raw
from pyromq.client.producer.topic_queues import TopicQueues
from pyromq.client.producer.topic_queues_table import TopicQueuesTable
from pyromq.errors import BrokerError, ConnectFailedError, MQError, TransportError
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.connections import Connected
from pyromq.pipeline.core.retry_window import RetryWindow
from pyromq.pipeline.sink.keys import next_run
from pyromq.pipeline.sink.options import SinkOptions
from pyromq.pipeline.sink.requests import SinkRequest
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.received import Received
from pyromq.wire.send_statuses import UNSURE_CODES

logger = logging.getLogger(__name__)

PRODUCER_GROUP: Final = "PYROMQ_SPARK_SINK"
_SINGLES: Final = 128  # messages that travel alone are handed over together

IsStored = Callable[[SinkRequest, QueueId], bool]


@dataclass(frozen=True, slots=True)
class PreparedRow:
    """Where a broker has a prepared message."""

    broker: str
    topic: str
    offset: int
    position: int
    key: str


@dataclass(slots=True)
class Sent:
    """Counts of what brokers have confirmed."""

    rows: int = 0
    prepared: list[PreparedRow] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)  # keys of prepared messages that may be there, and must not count


class RequestSender:
    """For one task. ``is_stored(request, queue)`` is asked before a request is sent again that may have arrived."""

    def __init__(
        self,
        connected: Connected,
        options: SinkOptions,
        *,
        sys_flag: int = 0,
        keeps_prepared: bool = False,
        is_stored: IsStored | None = None,
    ) -> None:
        self._connected = connected
        self._client = connected.client
        self._options = options
        self._settings = ProducerSettings()
        self._group = self._client.wire_name(options.group or PRODUCER_GROUP)
        self._topic_queues_table = TopicQueuesTable(self._client, self._settings)
        self._sys_flag = sys_flag
        self._keeps_prepared = keeps_prepared  # whether places and keys of prepared messages are remembered
        self._is_stored = is_stored
        self._places = threading.BoundedSemaphore(options.in_flight)
        self._locks: dict[QueueId, asyncio.Lock] = {}  # touched on the loop only, as are these two
        self._tasks: set[asyncio.Task[None]] = set()
        self._sent = Sent()
        self._error: BaseException | None = None  # the first failure for good
        self._singles: list[SinkRequest] = []  # messages that travel alone and were not handed over yet

    # --- on the task's thread ---

    def queues_of(self, topic: str) -> Sequence[QueueId]:
        """In the order that sharding keys choose by."""
        return self._connected.call(self._find(topic)).queues

    def put(self, request: SinkRequest) -> None:
        """Send a request as soon as there is room. Raises what an earlier request failed with."""
        if request.properties is None:
            self._hand_over([request])
            return
        self._singles.append(request)
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

    def _hand_over(self, requests: list[SinkRequest]) -> None:
        self._places.acquire()
        self._raise_error()
        self._connected.thread.soon(self._start, requests)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    # --- on the loop ---

    def _start(self, requests: list[SinkRequest]) -> None:
        task = asyncio.get_running_loop().create_task(self._ship(requests))
        self._tasks.add(task)
        task.add_done_callback(self._shipped)

    def _shipped(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._error is None:
            self._error = error
            for other in self._tasks:  # the task ends with this error; what it has not sent will come again
                other.cancel()
        self._places.release()

    async def _ship(self, requests: list[SinkRequest]) -> None:
        if len(requests) == 1:
            await self._deliver(requests[0])
        else:
            await asyncio.gather(*map(self._deliver, requests))

    async def _find(self, topic: str) -> TopicQueues:
        return self._topic_queues_table.known.get(topic) or await self._topic_queues_table.find(
            topic, self._options.reaching.request_ms
        )

    async def _deliver(self, request: SinkRequest) -> None:
        if request.queue is None:
            await self._try_until_stored(request)
            return
        async with self._locks.setdefault(request.queue, asyncio.Lock()):
            await self._try_until_stored(request)

    async def _try_until_stored(self, request: SinkRequest) -> None:
        """Send until the request is stored. Raises SourceUnreachableError, and BrokerError for what no retry helps
        against.
        """
        window, last_broker = None, ""
        while True:
            queue = request.queue
            try:
                topic_queues = await self._find(request.topic)
                queue = queue or (topic_queues.next_elsewhere(last_broker) if last_broker else topic_queues.next())
                response = await self._attempt(request, topic_queues, queue)
                if response.code in UNSURE_CODES:
                    raise BrokerError(code=response.code, remark="stored, but the next master may lack it")
                self._note(request, queue, response)
                return
            except MQError as error:
                what = f"sending {len(request.keys)} rows to topic {request.topic}"
                window = window or RetryWindow(what, self._options.reaching.retry_ms, self._client.clock)
                pause_ms = window.failed(error)
                logger.info("rows not sent, trying again: topic=%s error=%s", request.topic, error)
                wire_name = self._client.wire_name(request.topic)
                self._topic_queues_table.route_changed(wire_name)
                self._client.routes.refresh_soon(wire_name)
                last_broker = queue.broker if queue is not None else ""
                if self._keeps_prepared and _may_have_arrived(error):
                    self._rename(request)
                if queue is not None and self._is_stored is not None and _may_have_arrived(error):
                    await asyncio.sleep(self._options.settle_ms / 1000)
                    if await asyncio.to_thread(self._is_stored, request, queue):
                        self._sent.rows += len(request.keys)
                        return
            await asyncio.sleep(pause_ms / 1000)

    def _rename(self, request: SinkRequest) -> None:
        """A prepared message that may have arrived is given up; its row is sent under another key."""
        old, new = request.key, next_run(request.key)
        self._sent.doubtful.append(old)
        request.keys, request.properties = [new], (request.properties or "").replace(old, new, 1)

    async def _attempt(self, request: SinkRequest, topic_queues: TopicQueues, queue: QueueId) -> Received[Any]:
        client, timeout_ms = self._client, self._options.reaching.request_ms
        is_batch = request.properties is None
        outgoing = OutgoingMessage(
            SEND_BATCH if is_batch else SEND,
            topic_queues.topic,
            request.body,
            request.properties or "",
            "",
            client.clock.now_ms(),
            0,
            request.flag,
            self._sys_flag,
        )
        template = (self._settings.template_topic, self._settings.new_topic_queues)
        link = topic_queues.links.get(queue.broker)
        return await send_raw(
            client, outgoing, queue, group=self._group, template=template, link=link, timeout_ms=timeout_ms
        )

    def _note(self, request: SinkRequest, queue: QueueId, response: Received[Any]) -> None:
        self._sent.rows += len(request.keys)
        if self._keeps_prepared:
            header = response.header_as(SendResponseHeader)
            position = decode_offset_id(header.msg_id)[1]
            place = PreparedRow(queue.broker, queue.topic, header.queue_offset, position, request.key)
            self._sent.prepared.append(place)


def _may_have_arrived(error: MQError) -> bool:
    """Whether a broker may have stored what it did not confirm."""
    if isinstance(error, BrokerError):
        return error.code == ResponseCode.SYSTEM_ERROR or error.code in UNSURE_CODES
    return isinstance(error, TransportError) and not isinstance(error, ConnectFailedError)
