"""Queues of tasks: what task frameworks call a queue is a topic here, consumed by a group of its own.

    put(queue, task) ──▶ topic of the queue ──▶ consumer of its group ──▶ a worker of the framework
                          │ due later: a timer of the broker            ├─ fails for good ──▶ %DLQ%group
                          └─ tasks wait there, not in workers           └─ comes again    ──▶ %RETRY%group

A topic that does not exist is created when its queue is first used, with ``topic_queues`` queues on every broker: so
many workers of a queue can work at the same time. Everything of one connection shares one client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final, Literal, NamedTuple, TypeAlias, Unpack, get_args

from pyromq.client.core.client import Client
from pyromq.client.core.options import ClientOptions, check_options, client_for
from pyromq.client.producer.producer import Producer
from pyromq.client.sync.faces import Face, blocking
from pyromq.errors import BrokerError, ConfigError, GroupNotFoundError, MQError, TopicNotFoundError
from pyromq.integrations.acknowledging import HANDOVER_MS, AcknowledgingConsumer, SyncAcknowledgingConsumer
from pyromq.integrations.broadcasts import BroadcastReader
from pyromq.integrations.popped_tasks import PoppedTasks
from pyromq.integrations.queue_names import group_of, keys_of, tag_of, topic_of
from pyromq.model.message import Message, SendReceipt
from pyromq.model.names import retry_topic
from pyromq.model.queue import QueueId
from pyromq.operate.admin import Admin

logger = logging.getLogger(__name__)

TOPIC_QUEUES: Final = 8
TaskMode: TypeAlias = Literal["queue", "pop"]
"""Whether workers share queues or messages."""
_CREATED_MS: Final = 5_000  # until name servers know a topic that was created
_LOOK_AGAIN_MS: Final = 20


class TaskQueueProgress(NamedTuple):
    """What a queue of a topic holds, and up to where its group is done with it."""

    queue: QueueId
    done: int
    end: int


class TaskQueues:
    """One connection of a framework; ``group`` is what the names of its groups begin with. Options: ClientOptions.

    Everything that asks a server raises TransportError, BrokerError or NoRouteError; sends raise SendFailedError and
    MessageRefusedError.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str,
        topic_queues: int = TOPIC_QUEUES,
        handover_ms: int = HANDOVER_MS,
        mode: TaskMode = "queue",
        **options: Unpack[ClientOptions],
    ) -> None:
        check_options(type(self).__name__, options, ClientOptions)
        if isinstance(topic_queues, bool) or not isinstance(topic_queues, int) or topic_queues < 1:
            raise ConfigError(f"topic_queues must be a whole number from 1 on, not {topic_queues!r}")
        if isinstance(handover_ms, bool) or not isinstance(handover_ms, int) or handover_ms < 0:
            raise ConfigError(f"handover_ms must be a whole number from 0 on, not {handover_ms!r}")
        if mode not in get_args(TaskMode):
            raise ConfigError(f'mode must be "queue" or "pop", not {mode!r}')
        self._group = group
        self._mode = mode
        self._topic_queues = topic_queues
        self._handover_ms = handover_ms
        self.client: Client = client_for(nameservers, None, options)
        self._producer = Producer(client=self.client, group=group_of(group, "tasks"))
        self._admin = Admin(client=self.client)
        self._stack = AsyncExitStack()
        self._declared: set[str] = set()  # topics that are known to exist

    # --- life ---

    async def open(self) -> None:
        """Open the client; servers are asked when there is something to ask. Raises ConfigError."""
        async with AsyncExitStack() as stack:
            await self.client.open()
            stack.push_async_callback(self.client.close)
            await stack.enter_async_context(self._producer)
            await stack.enter_async_context(self._admin)
            self._stack = stack.pop_all()

    async def close(self) -> None:
        """Close the client; consumers are closed before."""
        await self._stack.aclose()

    def group(self, queue: str) -> str:
        """The group that consumes a queue; ``pyromq group lag`` and ``pyromq dlq ls`` take it."""
        return group_of(self._group, queue)

    # --- queues ---

    async def check(self) -> None:
        """Whether a name server answers. Raises NameServersUnreachableError and the like."""
        await self._admin.brokers.cluster()

    async def declare(self, queue: str) -> str:
        """Its topic, which exists from now on. One that a broker refuses to create is left to an operator."""
        return await self._declare_topic(topic_of(queue), self._topic_queues)

    async def _declare_topic(self, topic: str, queues: int) -> str:
        if topic not in self._declared:
            try:
                await self._admin.topics.route(topic)
            except TopicNotFoundError:
                await self._create(topic, queues)
            self._declared.add(topic)
        return topic

    async def exists(self, queue: str) -> bool:
        """Whether brokers have its topic."""
        try:
            await self._admin.topics.route(topic_of(queue))
        except TopicNotFoundError:
            return False
        return True

    async def _create(self, topic: str, queues: int) -> None:
        try:
            await self._admin.topics.create(topic, queues=queues)
        except BrokerError as error:
            logger.warning("topic not created, an operator has to: topic=%s error=%s", topic, error)
            return
        logger.info("topic created: topic=%s queues=%d", topic, queues)
        for _ in range(_CREATED_MS // _LOOK_AGAIN_MS):
            try:
                await self._admin.topics.route(topic)
                return
            except TopicNotFoundError:
                await asyncio.sleep(_LOOK_AGAIN_MS / 1000)
        logger.warning("topic was created, but name servers do not know it yet: topic=%s", topic)

    async def put(
        self, queue: str, body: bytes, *, task: str = "", task_id: str = "", due_ms: int = 0, delay_ms: int = 0
    ) -> SendReceipt:
        """Sends a task: now, at a time (``due_ms``), or after a delay. Its id is a key and its name the tag."""
        topic = await self.declare(queue)
        if delay_ms > 0:
            due_ms = self.client.clock.now_ms() + delay_ms
        return await self._producer.send(
            Message(topic, body, tags=tag_of(task), keys=keys_of(task_id), deliver_at_ms=max(0, due_ms))
        )

    async def consume(self, queue: str, *, arrived: Callable[[], object] = lambda: None) -> AcknowledgingConsumer:
        """An open consumer of the queue's group; the caller closes it. A connection has one for each queue."""
        topic = await self.declare(queue)
        group = self.group(queue)
        consumer: AcknowledgingConsumer
        if self._mode == "pop":
            consumer = PoppedTasks(self.client, group=group, topics=topic, arrived=arrived)
        else:
            consumer = AcknowledgingConsumer(
                self.client, group=group, topics=topic, arrived=arrived, handover_ms=self._handover_ms
            )
        await consumer.open()
        return consumer

    # --- to all that listen ---

    async def publish(self, exchange: str, body: bytes, *, tag: str = "") -> SendReceipt:
        """Sends to everything that listens to the exchange at the moment, and to this tag or to all."""
        topic = await self._declare_topic(topic_of(f"exchange.{exchange}"), 1)
        return await self._producer.send(Message(topic, body, tags=tag_of(tag)))

    async def listen(
        self, exchange: str, *, tag: str = "", arrived: Callable[[], object] = lambda: None
    ) -> BroadcastReader:
        """An open reader of what is published from now on; the caller closes it."""
        topic = await self._declare_topic(topic_of(f"exchange.{exchange}"), 1)
        group = group_of(self._group, "broadcasts")
        reader = BroadcastReader(self.client, group=group, topic=topic, tags=tag_of(tag) or "*", arrived=arrived)
        await reader.open()
        return reader

    async def stop_listening(self, reader: BroadcastReader) -> None:
        """Close a reader of broadcasts."""
        await reader.close()

    # --- how many, and away with them ---

    async def progress(self, queue: str) -> list[TaskQueueProgress]:
        """How far its group is; nothing for a queue that was never used. Tasks that are due later do not count."""
        group, found = self.group(queue), []
        for topic in (topic_of(queue), retry_topic(group)):
            try:
                held = await self._admin.topics.stats(topic)
            except TopicNotFoundError:
                continue
            done = await asyncio.gather(*(self._admin.offsets.committed(group, each) for each in held))
            for (each, range_), offset in zip(held.items(), done, strict=True):
                found.append(
                    TaskQueueProgress(each, range_.min_offset if offset is None else offset, range_.max_offset)
                )
        return found

    async def size(self, queue: str) -> int:
        """How many tasks wait or run."""
        return sum(max(0, each.end - each.done) for each in await self.progress(queue))

    async def purge(self, queue: str) -> int:
        """Passes over all that waits in the queue, also what runs; returns how many. What is due later stays."""
        group, progress = self.group(queue), await self.progress(queue)
        if not any(each.end > each.done for each in progress):
            return 0
        try:
            await self._admin.groups.require(group)
        except GroupNotFoundError:
            await self._admin.groups.create(group)
        for each in progress:
            if each.end > each.done:
                await self._admin.offsets.reset(group, each.queue.topic, queue=each.queue, offset=each.end)
        return sum(max(0, each.end - each.done) for each in progress)

    async def join(self, queue: str, *, until_ms: int = 0, timeout_ms: int | None = None) -> bool:
        """Waits until nothing waits or runs, and not before that time; False when ``timeout_ms`` was not enough."""
        clock = self.client.clock
        deadline_ms = None if timeout_ms is None else clock.monotonic_ms() + timeout_ms
        while clock.now_ms() < until_ms or await self.size(queue):
            if deadline_ms is not None and clock.monotonic_ms() >= deadline_ms:
                return False
            await asyncio.sleep(_LOOK_AGAIN_MS / 1000)
        return True


class SyncTaskQueues(Face[TaskQueues]):
    """``TaskQueues`` for threads."""

    def __init__(self, inner: TaskQueues) -> None:
        super().__init__(inner)
        self.group = inner.group

    declare = blocking(TaskQueues.declare)
    exists = blocking(TaskQueues.exists)
    check = blocking(TaskQueues.check)
    put = blocking(TaskQueues.put)
    publish = blocking(TaskQueues.publish)
    listen = blocking(TaskQueues.listen)
    stop_listening = blocking(TaskQueues.stop_listening)
    size = blocking(TaskQueues.size)
    purge = blocking(TaskQueues.purge)
    join = blocking(TaskQueues.join)

    @property
    def is_usable(self) -> bool:
        """Open, and in the process that opened it: what was open before a fork is the parent's."""
        try:
            self._open_thread()
        except MQError:
            return False
        return True

    def consume(self, queue: str, *, arrived: Callable[[], object] = lambda: None) -> SyncAcknowledgingConsumer:
        """An open consumer of the queue's group; the caller closes it. ``arrived`` is called on the loop's thread."""
        return SyncAcknowledgingConsumer.opened(self._run(self.inner.consume(queue, arrived=arrived)))
