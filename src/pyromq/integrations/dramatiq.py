"""Dramatiq's tasks on PyroMQ: delays, dead letters and crashes are the broker's business.

    broker = PyroMQBroker("127.0.0.1:9876")
    dramatiq.set_broker(broker)

    @dramatiq.actor
    def greet(name): ...

    greet.send("Ada")                                    # then: dramatiq my_module
    greet.send_with_options(args=("Ada",), delay=3_600_000)

A queue is a topic of the same name, consumed by the group ``dramatiq-<queue>``. A message that is delayed, by its
sender or by the Retries middleware, waits at the broker (there are no ``.DQ`` queues). One that failed for good is a
dead letter of that group: ``pyromq dlq ls dramatiq-default``, ``pyromq dlq redrive``.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Unpack, cast

from pyromq.client.core.options import ClientOptions, check_options
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ClientClosedError, MessageRefusedError, MQError
from pyromq.integrations.acknowledging import HANDOVER_MS, SyncAcknowledgingConsumer
from pyromq.integrations.queue_names import group_of
from pyromq.integrations.task_queues import TOPIC_QUEUES, SyncTaskQueues, TaskMode, TaskQueues

try:
    from dramatiq import Broker, Message, MessageProxy, Middleware
    from dramatiq.broker import Consumer
    from dramatiq.errors import ConnectionClosed, ConnectionFailed, DecodeError, QueueJoinTimeout, QueueNotFound
except ImportError as error:
    raise ImportError("pyromq.integrations.dramatiq needs Dramatiq: pip install 'pyromq[dramatiq]'") from error

logger = logging.getLogger(__name__)

GROUP: Final = "dramatiq"


class PyroMQBroker(Broker):
    """A Dramatiq broker. It connects when it is first used, in whatever process that is; options: ClientOptions.

    ``group`` is what the names of the groups begin with; ``topic_queues`` is how many queues a topic gets that is
    created: no more workers can work on it at the same time; ``handover_ms`` is how long a worker may finish tasks of a
    queue that moves to another one; ``mode="pop"`` shares messages instead of queues: any number of workers, and no
    queue moves. Raises ConfigError, and TypeError for an unknown option.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str = GROUP,
        topic_queues: int = TOPIC_QUEUES,
        handover_ms: int = HANDOVER_MS,
        mode: TaskMode = "queue",
        middleware: list[Middleware] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(middleware=middleware)
        check_options("PyroMQBroker", options, ClientOptions)
        self._group = group
        self._make = lambda: TaskQueues(
            nameservers, group=group, topic_queues=topic_queues, handover_ms=handover_ms, mode=mode, **options
        )
        self._make()  # mistakes are reported here
        self._connection: SyncTaskQueues | None = None
        self._lock = threading.Lock()  # of the process in which it was made
        self._pid = os.getpid()
        self._due_ms: dict[str, int] = {}  # of each queue: when the last message that was delayed here is due

    # --- life ---

    def _open(self) -> SyncTaskQueues:
        """What this process uses: a child of a fork opens its own."""
        if self._pid != os.getpid():
            self._connection, self._lock, self._pid = None, threading.Lock(), os.getpid()
        with self._lock:
            if self._connection is None:
                connection = SyncTaskQueues(self._make())
                connection.open()
                self._connection = connection
            return self._connection

    def close(self) -> None:
        """Closes the connection; the next use opens another one."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # --- queues ---

    def declare_queue(self, queue_name: str) -> None:
        """Its topic is created when the queue is used."""
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues[queue_name] = None
            self.emit_after("declare_queue", queue_name)

    def _require(self, queue_name: str) -> None:
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)

    def group(self, queue_name: str) -> str:
        """The group that consumes a queue, as ``pyromq group`` and ``pyromq dlq`` take it."""
        return group_of(self._group, queue_name)

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        """Returns when the broker has it on disk.

        Raises QueueNotFound; ConnectionFailed when no broker confirmed it; MessageRefusedError for what none takes.
        """
        queue_name = message.queue_name
        self._require(queue_name)
        self.emit_before("enqueue", message, delay)
        connection = self._open()
        try:
            connection.put(
                queue_name,
                message.encode(),
                task=message.actor_name,
                task_id=message.message_id,
                delay_ms=max(0, int(delay or 0)),
            )
        except MessageRefusedError:
            raise
        except MQError as error:
            raise ConnectionFailed(str(error)) from error
        if delay:
            now_ms = connection.inner.client.clock.now_ms()
            self._due_ms[queue_name] = max(self._due_ms.get(queue_name, 0), now_ms + int(delay))
        self.emit_after("enqueue", message, delay)
        return message

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 30_000) -> Consumer:
        """Return a consumer of a queue. Raises QueueNotFound; ConnectionFailed, after which Dramatiq tries again."""
        self._require(queue_name)
        try:
            return _Consumer(self._open().consume(queue_name), max(1, prefetch), timeout)
        except MQError as error:
            raise ConnectionFailed(str(error)) from error

    def flush(self, queue_name: str) -> None:
        """Passes over what waits in a queue; what is due later stays."""
        self._require(queue_name)
        self._open().purge(queue_name)

    def flush_all(self) -> None:
        """Pass over what waits in every queue; what is due later stays."""
        for queue_name in self.get_declared_queues():
            self.flush(queue_name)

    def join(self, queue_name: str, *, timeout: int | None = None) -> None:
        """For tests: waits until nothing waits, runs or is due later, as far as it was sent by this process.

        Raises QueueNotFound, QueueJoinTimeout.
        """
        self._require(queue_name)
        due_ms = self._due_ms.get(queue_name, 0)
        while True:
            if not self._open().join(queue_name, until_ms=due_ms, timeout_ms=timeout):
                raise QueueJoinTimeout(queue_name)
            if self._due_ms.get(queue_name, 0) == due_ms:
                return
            due_ms = self._due_ms[queue_name]  # one that failed meanwhile


class _Message(MessageProxy):
    """With what came from the broker, and the consumer it came through: both are what gets acknowledged."""

    def __init__(self, message: Message[Any], received: ReceivedMessage, home: _Consumer) -> None:
        super().__init__(message)
        self.received = received
        self.home = home  # Dramatiq may have another one by now


class _Consumer(Consumer):
    """At most ``prefetch`` messages are out. Dramatiq asks on one thread, and acknowledges on others."""

    def __init__(self, inner: SyncAcknowledgingConsumer, prefetch: int, timeout_ms: int) -> None:
        self._inner = inner
        self._prefetch = prefetch
        self._timeout_ms = timeout_ms
        self._ready: deque[ReceivedMessage] = deque()  # taken, and not handed out yet
        self._out = 0  # both of these and those that are handed out
        self._changed = threading.Condition()

    def __next__(self) -> MessageProxy | None:
        if not self._ready and not self._fill():
            return None
        received = self._ready.popleft()
        try:
            return _Message(Message.decode(received.body), received, self)
        except DecodeError as error:  # it would fail here for ever
            logger.error("message is no task, dead letter: id=%s error=%s", received.message_id, error)
            self._end(partial(self._inner.dead, error=error), received)
            return None

    def _fill(self) -> bool:
        with self._changed:
            if self._out >= self._prefetch and not self._changed.wait(self._timeout_ms / 1000):
                return False
            free = self._prefetch - self._out
        if free <= 0:
            return False
        try:
            batch = self._inner.take(free, self._timeout_ms)
        except ClientClosedError as error:
            raise ConnectionClosed(str(error)) from error
        with self._changed:
            self._out += len(batch)
        self._ready.extend(batch)
        return bool(batch)

    def ack(self, message: MessageProxy) -> None:
        """It is done."""
        home = cast(_Message, message).home
        home._end(home._inner.ack, cast(_Message, message).received)

    def nack(self, message: MessageProxy) -> None:
        """It is a dead letter, with what its actor raised last."""
        home = cast(_Message, message).home
        error = getattr(message, "_exception", None)  # Dramatiq keeps it there until the message is done with
        home._end(partial(home._inner.dead, error=error), cast(_Message, message).received)

    def _end(self, say: Callable[[ReceivedMessage], None], received: ReceivedMessage) -> None:
        try:
            say(received)
        except ClientClosedError:
            logger.warning("task ended after its consumer was closed, it may run again: id=%s", received.message_id)
        with self._changed:
            self._out -= 1
            self._changed.notify()

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """They wait again, for this worker or another."""
        for message in reversed([cast(_Message, each) for each in messages]):
            message.home._end(message.home._release, message.received)

    def _release(self, received: ReceivedMessage) -> None:
        self._inner.release([received])

    def close(self) -> None:
        """Whatever is not acknowledged is delivered again."""
        self._inner.close()
