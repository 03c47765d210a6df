"""Kombu's transport: a connection is one client of ours, with the queues it consumes and the exchanges it hears."""

from __future__ import annotations

import re
import socket
import threading
from queue import Empty
from time import monotonic
from typing import Any, Final

from kombu.transport import virtual

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ClientClosedError, MQError, NoRouteError, SendFailedError, TransportError
from pyromq.integrations.acknowledging import HANDOVER_MS
from pyromq.integrations.celery.channel import Channel
from pyromq.integrations.celery.connection_options import client_options
from pyromq.integrations.celery.event_loop import EventLoopWaker
from pyromq.integrations.celery.sources import ExchangeListener, QueueSource
from pyromq.integrations.task_queues import TOPIC_QUEUES, SyncTaskQueues, TaskQueues

GROUP: Final = "celery"
DEFAULT_PORT: Final = 9876
REQUEUE_MS: Final = 1_000
"""Until a task comes again that was rejected with ``requeue=True``."""
_DELIVERED_MAX: Final = 100  # before whatever else waits in the event loop

_CONNECTION_ERRORS: Final = (TransportError, NoRouteError, SendFailedError, ClientClosedError)


class Transport(virtual.Transport):
    """A connection: one client of PyroMQ, made when it is established, so that children of a fork make their own.

    The URL names a name server, the user and the password are access key and secret key, the virtual host is the
    namespace. ``transport_options``: ``nameservers`` ("a:9876;b:9876") where there are several, ``group`` and
    ``topic_queues``, ``handover_ms`` and ``mode`` as for the other frameworks, ``requeue_ms``.
    """

    Channel = Channel
    default_port = DEFAULT_PORT
    driver_type = "pyromq"
    driver_name = "pyromq"
    polling_interval = None
    connection_errors = (*virtual.Transport.connection_errors, *_CONNECTION_ERRORS)
    channel_errors = (*virtual.Transport.channel_errors, MQError)
    recoverable_connection_errors = connection_errors
    recoverable_channel_errors = ()
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset(("direct", "topic", "fanout"))
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self._queues: SyncTaskQueues | None = None  # while it is established
        self.transient: set[str] = set()  # queues that live as long as the connection
        self._sources: dict[str, QueueSource] = {}  # by queue
        self._readers: dict[str, list[ExchangeListener]] = {}  # by queue
        self._news = threading.Event()  # a message arrived, or there is room for one
        self._waker: EventLoopWaker | None = None  # while Kombu's event loop runs the connection
        self._requeue_ms = int(client.transport_options.get("requeue_ms", REQUEUE_MS))

    def driver_version(self) -> str:
        import pyromq

        return pyromq.__version__

    # --- life ---

    @property
    def queues(self) -> SyncTaskQueues:
        """Queues of the open connection. Raises ClientClosedError, which is one of ``connection_errors``."""
        if self._queues is None:
            raise ClientClosedError("the connection is closed")
        return self._queues

    def now_ms(self) -> int:
        """By the clock of the client, which tests may move."""
        return self.queues.inner.client.clock.now_ms()

    def establish_connection(self) -> Any:
        """Connect the client. Raises ConfigError; TransportError when no name server answers."""
        options = self.client.transport_options
        nameservers = options.get("nameservers") or f"{self.client.hostname}:{self.client.port or DEFAULT_PORT}"
        queues = SyncTaskQueues(
            TaskQueues(
                nameservers,
                group=options.get("group", GROUP),
                topic_queues=options.get("topic_queues", TOPIC_QUEUES),
                handover_ms=options.get("handover_ms", HANDOVER_MS),
                mode=options.get("mode", "queue"),
                **client_options(self.client),
            )
        )
        queues.open()
        try:
            queues.check()
        except BaseException:  # raised again
            queues.close()
            raise
        self._queues = queues
        return super().establish_connection()

    def verify_connection(self, connection: Any) -> bool:
        """In a child of a fork it is the parent's, and Kombu makes another one."""
        return self._queues is not None and self._queues.is_usable

    def close_connection(self, connection: Any) -> None:
        super().close_connection(connection)
        if self._waker is not None:
            self._waker.close()
            self._waker = None
        queues, self._queues = self._queues, None
        if queues is None or not queues.is_usable:
            return
        for source in self._sources.values():
            source.close()
        for queue in list(self._readers):
            self._stop_listening(queues, queue)
        self._sources.clear()
        queues.close()

    # --- queues that are consumed ---

    def consume(self, queue: str, *, listens_only: bool = False, wait_ms: int = 0) -> None:
        """From now on ``next_of`` may have messages; ``wait_ms`` waits for the first one of a queue that is new."""
        if listens_only and queue in self._readers:
            return
        source = self._sources.get(queue)
        if source is not None and source.resume():
            return
        self._sources[queue] = source = QueueSource(self.queues, queue, self.wake, self._requeue_ms)
        if wait_ms:
            source.fill(1, wait_ms)

    def is_consumed(self, queue: str) -> bool:
        source = self._sources.get(queue)
        return queue in self._readers or (source is not None and not source.is_cancelled)

    def cancel(self, queue: str) -> None:
        """No more messages; what is out may still be acknowledged."""
        source = self._sources.get(queue)
        if source is not None:
            source.cancel()

    def listen(self, queue: str, exchange: str, tag: str, pattern: re.Pattern[str] | None) -> None:
        """The queue gets what is published to the exchange from now on."""
        reader = self.queues.listen(exchange, tag=tag, arrived=self.wake)
        self._readers.setdefault(queue, []).append(ExchangeListener(reader, tag, pattern))

    def stop_listening(self, queue: str) -> None:
        self._stop_listening(self.queues, queue)

    def _stop_listening(self, queues: SyncTaskQueues, queue: str) -> None:
        for listening in self._readers.pop(queue, []):
            queues.stop_listening(listening.reader)

    def next_of(self, queue: str, count_max: int | None) -> tuple[QueueSource | None, ReceivedMessage] | None:
        """The next message, and what it is acknowledged to; broadcasts are not."""
        for listening in self._readers.get(queue, ()):
            if (broadcast := listening.next()) is not None:
                return None, broadcast
        source = self._sources.get(queue)
        message = None if source is None else source.next(count_max)
        return None if message is None else (source, message)

    # --- waiting for messages ---

    def wake(self) -> None:
        """There may be a message to deliver; on any thread."""
        self._news.set()
        if (waker := self._waker) is not None:
            waker.wake()

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """A worker of Celery waits for messages and for its pool at the same time."""
        self._waker = EventLoopWaker(loop, self._deliver_some)
        self.wake()

    def _deliver_some(self) -> None:
        for _ in range(_DELIVERED_MAX):
            try:
                self.cycle.get(self._deliver)
            except Empty:
                return
        self.wake()  # after whatever else waits

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Delivers one message, as soon as there is one. Raises socket.timeout."""
        deadline_s = None if timeout is None else monotonic() + timeout
        while True:
            self._news.clear()
            try:
                self.cycle.get(self._deliver, timeout=timeout)
                return
            except Empty:
                pass
            rest_s = None if deadline_s is None else deadline_s - monotonic()
            if (rest_s is not None and rest_s <= 0) or not self._news.wait(rest_s):
                raise socket.timeout from None  # noqa: UP041  # what Kombu expects by this name
