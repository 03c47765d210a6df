"""Taskiq's tasks on PyroMQ: delays are kept by the broker, and a task that no worker knows is not lost.

    broker = PyroMQBroker("127.0.0.1:9876")

    @broker.task
    async def greet(name: str) -> None: ...

    await greet.kiq("Ada")                                         # then: taskiq worker my_module:broker
    await greet.kicker().with_labels(delay=3_600).kiq("Ada")       # in an hour
    await greet.kicker().with_labels(queue_name="slow").kiq("Ada")

A queue is a topic of the same name, consumed by the group ``taskiq-<queue>``. Taskiq acknowledges a task when its
result is saved, unless set otherwise (``--ack-type``, label ``ack_type``); what a worker did not acknowledge
before it died runs again. Taskiq itself drops what it cannot read or has no function for; here the first is a dead
letter, and the second comes again later, to a worker that may know it, and is a dead letter in the end.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final, Unpack

from pyromq.client.core.options import ClientOptions, check_options
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ClientClosedError, ConfigError
from pyromq.integrations.acknowledging import HANDOVER_MS, AcknowledgingConsumer
from pyromq.integrations.queue_names import group_of
from pyromq.integrations.task_queues import TOPIC_QUEUES, TaskMode, TaskQueues

try:
    from taskiq import AckableMessage, AsyncBroker, BrokerMessage
except ImportError as error:
    raise ImportError("pyromq.integrations.taskiq needs Taskiq: pip install 'pyromq[taskiq]'") from error

logger = logging.getLogger(__name__)

GROUP: Final = "taskiq"
DELAY_LABEL: Final = "delay"
"""Seconds until a task may run."""
QUEUE_LABEL: Final = "queue_name"
"""The queue of a task, where it is not the broker's first."""
_UNUSED_LABELS: Final = ("priority",)


class PyroMQBroker(AsyncBroker):
    """A Taskiq broker. Its first queue is where tasks go; workers listen to all of them. Options: ClientOptions.

    ``group`` is what the names of the groups begin with; ``topic_queues`` is how many queues a topic gets that is
    created: no more workers can work on it at the same time; ``handover_ms`` is how long a worker may finish tasks of a
    queue that moves to another one; ``mode="pop"`` shares messages instead of queues: any number of workers, and no
    queue moves. Raises ConfigError, and TypeError for an unknown option.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        queues: str | Sequence[str] = "taskiq",
        group: str = GROUP,
        topic_queues: int = TOPIC_QUEUES,
        handover_ms: int = HANDOVER_MS,
        mode: TaskMode = "queue",
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__()
        check_options("PyroMQBroker", options, ClientOptions)
        self.queues = tuple(dict.fromkeys([queues] if isinstance(queues, str) else queues))
        if not self.queues or not all(isinstance(queue, str) and queue for queue in self.queues):
            raise ConfigError(f"queues must be a name, or several, not {queues!r}")
        self._group = group
        self._make = partial(
            TaskQueues,
            nameservers,
            group=group,
            topic_queues=topic_queues,
            handover_ms=handover_ms,
            mode=mode,
            **options,
        )
        self._make()  # mistakes are reported here
        self._connection: TaskQueues | None = None  # between startup and shutdown
        self._stack = AsyncExitStack()
        self._warned: set[str] = set()  # labels that are not used

    # --- life ---

    async def startup(self) -> None:
        """Opens the connection, then does what brokers do. Raises ConfigError when it was done already."""
        if self._connection is not None:
            raise ConfigError("the broker was started already; call shutdown() first")
        connection = self._make()
        await connection.open()
        self._stack.push_async_callback(connection.close)
        self._connection = connection
        try:
            await super().startup()
        except BaseException:  # what was opened must not outlive a failed start; raised again
            await self._close()
            raise

    async def shutdown(self) -> None:
        """Tells handlers and middleware, then closes; what was not acknowledged comes again. Twice is fine."""
        try:
            await super().shutdown()
        finally:
            await self._close()

    async def _close(self) -> None:
        self._connection = None
        await self._stack.aclose()

    def _open(self) -> TaskQueues:
        if self._connection is None:
            raise ClientClosedError("the broker is not started: await broker.startup() first")
        return self._connection

    def group(self, queue: str = "") -> str:
        """The group that consumes a queue, the first one if none is named: what ``pyromq group`` and ``dlq`` take."""
        return group_of(self._group, queue or self.queues[0])

    # --- sending ---

    async def kick(self, message: BrokerMessage) -> None:
        """Returns when the broker has it on disk. Raises MQError, which Taskiq wraps in a SendTaskError."""
        labels = message.labels
        self._warn_of(labels)
        await self._open().put(
            str(labels.get(QUEUE_LABEL) or self.queues[0]),
            message.message,
            task=message.task_name,
            task_id=message.task_id,
            delay_ms=_delay_ms(labels.get(DELAY_LABEL)),
        )

    def _warn_of(self, labels: dict[str, Any]) -> None:
        for name in _UNUSED_LABELS:
            if labels.get(name) and name not in self._warned:
                self._warned.add(name)
                logger.warning("label not used, tasks of a queue run in turn; use a queue of its own: label=%s", name)

    # --- receiving ---

    async def listen(self) -> AsyncGenerator[bytes | AckableMessage, None]:
        """Tasks of all queues in turn. Ends at shutdown."""
        connection, news = self._open(), asyncio.Event()
        consumers: list[AcknowledgingConsumer] = []
        for queue in self.queues:
            consumer = await connection.consume(queue, arrived=news.set)
            self._stack.push_async_callback(consumer.close)
            consumers.append(consumer)
        self._stack.callback(news.set)
        while self._connection is connection:
            news.clear()
            for consumer in consumers:
                for message in consumer.take_nowait(1):
                    news.set()  # look at all of them again
                    if self._is_known(consumer, message):
                        yield AckableMessage(data=message.body, ack=partial(_ack, consumer, message))
            await news.wait()

    def _is_known(self, consumer: AcknowledgingConsumer, message: ReceivedMessage) -> bool:
        """Taskiq would acknowledge these, and they would be gone."""
        try:
            task = self.formatter.loads(message.body).task_name
        except Exception as error:  # whatever a formatter raises
            logger.error("message is no task, dead letter: id=%s error=%s", message.message_id, error)
            consumer.dead(message, error=error)
            return False
        if self.find_task(task) is not None:
            return True
        facts = (task, message.message_id, message.delivery_attempt + 1)
        logger.error("no function for a task, it comes again later: task=%s id=%s attempt=%d", *facts)
        consumer.retry(message, error=f"no function for the task {task}")
        return False


def _ack(consumer: AcknowledgingConsumer, message: ReceivedMessage) -> None:
    consumer.ack(message)


def _delay_ms(label: object) -> int:
    """Labels travel as text or numbers. Raises ConfigError."""
    if label is None or label == "":
        return 0
    try:
        seconds = float(label)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise ConfigError(f"label {DELAY_LABEL} must be a number of seconds, not {label!r}")
    return max(0, math.ceil(seconds * 1000))
