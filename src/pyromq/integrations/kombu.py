"""Kombu's transport, and with it Celery's: ``broker_url = "pyromq://127.0.0.1:9876//"``.

    app = Celery("shop", broker="pyromq://127.0.0.1:9876//")
    app.conf.broker_transport = "pyromq.integrations.kombu:Transport"   # or: import pyromq.integrations.kombu

    Celery                          RocketMQ
    queue                           topic of the same name, consumed by the group ``celery-<queue>``
    acknowledge                     per message (``integrations.acknowledging``)
    countdown, eta, retry           the message waits at the broker and arrives when it is due, not before
    reject                          dead letter: %DLQ%celery-<queue>
    reject, requeue=True            send-back: comes again a second later; too often: dead letter
    fanout, remote control, events  a topic for each exchange, which listeners read from now on

Tables of exchanges and bindings are those of a connection, as in most of Kombu's transports: a producer that publishes
to an exchange by name declares the queues that are bound to it, as Celery does.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from queue import Empty
from time import monotonic
from typing import Any, Final

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ClientClosedError, MQError, NoRouteError, SendFailedError, TransportError
from pyromq.integrations.acknowledging import HANDOVER_MS, SyncAcknowledgingConsumer
from pyromq.integrations.broadcasts import BroadcastReader
from pyromq.integrations.queue_names import tag_of
from pyromq.integrations.task_queues import TOPIC_QUEUES, SyncTaskQueues, TaskQueues
from pyromq.settings import ClientOptions, Credentials, TlsSettings

try:
    from kombu.exceptions import ChannelError
    from kombu.transport import TRANSPORT_ALIASES, virtual
    from kombu.utils.json import dumps, loads
except ImportError as error:
    raise ImportError("pyromq.integrations.kombu needs Kombu: pip install 'pyromq[celery]'") from error

logger = logging.getLogger(__name__)

GROUP: Final = "celery"
DEFAULT_PORT: Final = 9876
REQUEUE_MS: Final = 1_000
"""Until a task comes again that was rejected with ``requeue=True``."""
EVENT_EXCHANGES: Final = ("celeryev",)
"""Exchanges that are listened to, besides those of type fanout and Kombu's own for replies."""
_BATCH_MAX: Final = 16  # messages that are taken at once
_DELIVERED_MAX: Final = 100  # before whatever else waits in the event loop
_TICK_S: Final = 0.1  # how long an acknowledgement of another thread may wait for the event loop
_GET_MS: Final = 10_000  # until a queue is ours that is asked for a single message; others may have to hand it over
_is_reply = re.compile(r"reply\..+\.pidbox").fullmatch

_CONNECTION_ERRORS: Final = (TransportError, NoRouteError, SendFailedError, ClientClosedError)

TRANSPORT_ALIASES["pyromq"] = "pyromq.integrations.kombu:Transport"


class QoS(virtual.QoS):
    """What was delivered and not acknowledged; the broker delivers it again if nothing is said about it."""

    def ack(self, delivery_tag: str) -> None:
        self.channel.finish(delivery_tag, "ack")
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self.channel.finish(delivery_tag, "retry" if requeue else "dead")
        super().ack(delivery_tag)

    def restore_unacked(self) -> list[Any]:
        self._flush()
        while self._delivered:
            self.channel.finish(self._delivered.popitem()[0], "release")
        return []


class Channel(virtual.Channel):
    """Of a connection; queues and their consumers belong to the connection."""

    QoS = QoS
    supports_fanout = True
    do_restore = False  # what was not acknowledged is still at the broker

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._unacknowledged: dict[str, tuple[_Source, ReceivedMessage]] = {}  # by delivery tag
        self._no_ack: set[str] = set()  # queues whose messages are done when they are delivered

    # --- queues ---

    def _new_queue(self, queue: str, exclusive: bool = False, auto_delete: bool = False, **kwargs: Any) -> None:
        if exclusive or auto_delete:
            self.connection.transient.add(queue)
        else:
            self.connection.queues.declare(queue)

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return queue in self.connection.transient or bool(self.connection.queues.exists(queue))

    def _size(self, queue: str) -> int:
        return 0 if queue in self.connection.transient else int(self.connection.queues.size(queue))

    def _purge(self, queue: str) -> int:
        return 0 if queue in self.connection.transient else int(self.connection.queues.purge(queue))

    def _delete(self, queue: str, *args: Any, **kwargs: Any) -> None:
        self.connection.stop_listening(queue)
        self._purge(queue)

    def after_reply_message_received(self, queue: str) -> None:
        """The queue for replies stays: the next question may be answered before it could be there again."""

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        if self._is_listened_to(exchange):
            if queue not in self.connection.transient:
                text = "queue is bound to an exchange that is listened to, it gets what is sent while it is consumed"
                logger.warning("%s: queue=%s exchange=%s", text, queue, exchange)
            kind = self.state.exchanges[exchange]["type"]
            tag = routing_key if kind == "direct" else ""
            self.connection.listen(queue, exchange, tag, re.compile(pattern) if kind == "topic" else None)

    def _is_listened_to(self, exchange: str) -> bool:
        known = self.state.exchanges.get(exchange, {})
        return known.get("type") == "fanout" or exchange in EVENT_EXCHANGES or bool(_is_reply(exchange))

    # --- sending ---

    def basic_publish(self, message: dict[str, Any], exchange: str, routing_key: str, **kwargs: Any) -> None:
        """Returns when the broker has it on disk."""
        if exchange and self._is_listened_to(exchange):
            self._inplace_augment_message(message, exchange, routing_key)
            self._put_fanout(exchange, message, routing_key)
        else:
            super().basic_publish(message, exchange, routing_key, **kwargs)

    def _put_fanout(self, exchange: str, message: dict[str, Any], routing_key: str, **kwargs: Any) -> None:
        self.connection.queues.publish(exchange, dumps(message).encode(), tag=routing_key)

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        headers = message.get("headers") or {}
        self.connection.queues.put(
            queue,
            dumps(message).encode(),
            task=headers.get("task") or "",
            task_id=headers.get("id") or message.get("properties", {}).get("correlation_id") or "",
            due_ms=_due_ms(headers.get("eta")),
        )

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> list[str]:
        found: list[str] = super()._lookup(exchange, routing_key, default)
        if not found:
            text = f"no queue is bound to exchange {exchange!r} with key {routing_key!r} in this process"
            raise ChannelError(f"{text}: the message would be lost. Declare the queue, or publish to it by its name")
        return found

    # --- receiving ---

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> None:
        if no_ack:
            self._no_ack.add(queue)
        self.connection.consume(queue, listens_only=queue in self.connection.transient)
        super().basic_consume(queue, no_ack, *args, **kwargs)

    def basic_cancel(self, consumer_tag: str) -> None:
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is not None:
            self._no_ack.discard(queue)
            self.connection.cancel(queue)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """A single message; the queue is ours until it is acknowledged, unless it is consumed anyway."""
        is_consumed = self.connection.is_consumed(queue)
        if not is_consumed:
            if not self._size(queue):
                return None
            self.connection.consume(queue, wait_ms=_GET_MS)
        message = super().basic_get(queue, no_ack=no_ack, **kwargs)
        if message is not None and no_ack:
            self.finish(message.delivery_tag, "ack")
        if not is_consumed:
            self.connection.cancel(queue)
        return message

    def basic_qos(self, *args: Any, **kwargs: Any) -> None:
        super().basic_qos(*args, **kwargs)
        self.connection.wake()

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        found = self.connection.next_of(queue, self.qos.can_consume_max_estimate())
        if found is None:
            raise Empty
        source, message = found
        payload = _payload_of(message, self.connection.now_ms())
        if payload is None:
            if source is not None:
                logger.error("message is none of Kombu's, dead letter: queue=%s id=%s", queue, message.message_id)
                source.finish("dead", message)
            raise Empty
        properties = payload["properties"]
        properties["delivery_tag"] = tag = self._next_delivery_tag()
        if source is not None:
            properties.setdefault("delivery_info", {})["redelivered"] = source.may_be_repeated(message)
            self._unacknowledged[tag] = (source, message)
            if queue in self._no_ack:
                self.finish(tag, "ack")
        return payload

    def finish(self, delivery_tag: str, word: str) -> None:
        """What becomes of a delivered message: ack, retry, dead or release; the first word counts."""
        source, message = self._unacknowledged.pop(delivery_tag, (None, None))
        if source is not None and message is not None:
            source.finish(word, message)

    def close(self) -> None:
        """What was not acknowledged is delivered again, to whoever consumes its queue."""
        was_closed = self.closed
        super().close()
        if not was_closed:
            for tag in list(self._unacknowledged):
                self.finish(tag, "release")


class Transport(virtual.Transport):
    """A connection: one client of PyroMQ, made when it is established, so that children of a fork make their own.

    The URL names a name server, the user and the password are access key and secret key, the virtual host is the
    namespace. ``transport_options``: ``nameservers`` ("a:9876;b:9876") where there are several, ``group`` and
    ``topic_queues`` and ``handover_ms`` as for the other frameworks, ``requeue_ms``.
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
        self._sources: dict[str, _Source] = {}  # by queue
        self._readers: dict[str, list[_Listening]] = {}  # by queue
        self._news = threading.Event()  # a message arrived, or there is room for one
        self._waker: _Waker | None = None  # while Kombu's event loop runs the connection
        self._requeue_ms = int(client.transport_options.get("requeue_ms", REQUEUE_MS))

    def driver_version(self) -> str:
        import pyromq

        return pyromq.__version__

    # --- life ---

    @property
    def queues(self) -> SyncTaskQueues:
        """Raises ClientClosedError, which is one of ``connection_errors``."""
        if self._queues is None:
            raise ClientClosedError("the connection is closed")
        return self._queues

    def now_ms(self) -> int:
        """By the clock of the client, which tests may move."""
        return self.queues.inner.client.clock.now_ms()

    def establish_connection(self) -> Any:
        """Raises ConfigError; TransportError when no name server answers."""
        options = self.client.transport_options
        nameservers = options.get("nameservers") or f"{self.client.hostname}:{self.client.port or DEFAULT_PORT}"
        queues = SyncTaskQueues(
            TaskQueues(
                nameservers,
                group=options.get("group", GROUP),
                topic_queues=options.get("topic_queues", TOPIC_QUEUES),
                handover_ms=options.get("handover_ms", HANDOVER_MS),
                **_client_options(self.client),
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
        self._sources[queue] = source = _Source(self.queues, queue, self.wake, self._requeue_ms)
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
        self._readers.setdefault(queue, []).append(_Listening(reader, tag, pattern))

    def stop_listening(self, queue: str) -> None:
        self._stop_listening(self.queues, queue)

    def _stop_listening(self, queues: SyncTaskQueues, queue: str) -> None:
        for listening in self._readers.pop(queue, []):
            queues.stop_listening(listening.reader)

    def next_of(self, queue: str, count_max: int | None) -> tuple[_Source | None, ReceivedMessage] | None:
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
        self._waker = _Waker(loop, self._deliver_some)
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


class _Waker:
    """Wakes Kombu's event loop from other threads: a byte through a pair of sockets."""

    def __init__(self, loop: Any, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self._there.setblocking(False)
        loop.add_reader(self._here, self._woken)
        self._tick = loop.call_repeatedly(_TICK_S, _nothing)

    def wake(self) -> None:
        with suppress(OSError):  # full: it is awake already; or closed a moment ago
            self._there.send(b"\0")

    def _woken(self) -> None:
        with suppress(BlockingIOError):
            while self._here.recv(4096):
                pass
        self._callback()

    def close(self) -> None:
        self._tick.cancel()
        self._loop.remove(self._here)
        self._here.close()
        self._there.close()


def _nothing() -> None:
    """Pools of threads leave acknowledgements to the event loop without waking it."""


class _Listening:
    """A queue that is bound to an exchange which is listened to; a pattern chooses among routing keys."""

    def __init__(self, reader: BroadcastReader, tag: str, pattern: re.Pattern[str] | None) -> None:
        self.reader = reader
        self._tag = tag_of(tag)
        self._pattern = pattern

    def next(self) -> ReceivedMessage | None:
        while (message := self.reader.take_nowait()) is not None:
            if self._tag and message.tags != self._tag:
                continue
            if self._pattern is None or self._pattern.match(message.tags):
                return message
        return None


class _Source:
    """A queue that is consumed: one thread asks, any thread finishes. Once cancelled, it closes when nothing is out."""

    def __init__(self, queues: SyncTaskQueues, queue: str, news: Callable[[], None], requeue_ms: int) -> None:
        self._news = news
        self._requeue_ms = requeue_ms
        self._ready: deque[ReceivedMessage] = deque()  # taken and not delivered
        self._has_news = True
        self._lock = threading.Lock()
        self._out = 0  # delivered and not finished
        self.is_cancelled = False
        self._is_closed = False
        self._consumer: SyncAcknowledgingConsumer = queues.consume(queue, arrived=self._arrived)
        self._opened_ms = queues.inner.client.clock.now_ms()

    def _arrived(self) -> None:
        """On the loop."""
        self._has_news = True
        self._news()

    def next(self, count_max: int | None) -> ReceivedMessage | None:
        if not self._ready:
            self.fill(_BATCH_MAX if count_max is None else min(max(1, count_max), _BATCH_MAX), 0)
        with self._lock:
            if self.is_cancelled or not self._ready:
                return None
            self._out += 1
            return self._ready.popleft()

    def fill(self, count: int, wait_ms: int) -> None:
        """Takes messages from the loop, if there may be some."""
        if self.is_cancelled or self._is_closed or not self._has_news:
            return
        self._has_news = False  # first: what arrives from now on sets it again
        batch = self._consumer.take(count, wait_ms)
        if len(batch) == count or wait_ms:
            self._has_news = True
        self._ready.extend(batch)

    def may_be_repeated(self, message: ReceivedMessage) -> bool:
        """False only if no other worker can have had it before."""
        return message.delivery_attempt > 0 or message.stored_ms <= self._opened_ms

    def finish(self, word: str, message: ReceivedMessage) -> None:
        try:
            match word:
                case "ack":
                    self._consumer.ack(message)
                case "retry":
                    self._consumer.retry(message, self._requeue_ms)
                case "dead":
                    self._consumer.dead(message)
                case _:
                    self._consumer.release([message])
        except ClientClosedError:
            logger.warning("task ended after its connection was closed, it may run again: id=%s", message.message_id)
        with self._lock:
            self._out -= 1
        self._news()  # there may be room for another one
        self._close_when_done()

    def cancel(self) -> None:
        """Whatever is not delivered yet goes back at once; the queue goes to others when the rest is finished."""
        with self._lock:
            self.is_cancelled = True
            ready, self._ready = list(self._ready), deque()
        if not self._is_closed:
            self._consumer.pause()
            if ready:
                self._consumer.release(ready)
        self._close_when_done()

    def resume(self) -> bool:
        """Goes on after ``cancel``; False when it is closed."""
        with self._lock:
            if self._is_closed:
                return False
            was_cancelled, self.is_cancelled = self.is_cancelled, False
        if was_cancelled:
            self._consumer.resume()
            self._has_news = True
        return True

    def _close_when_done(self) -> None:
        with self._lock:
            if self._is_closed or not self.is_cancelled or self._out:
                return
            self._is_closed = True
        self._consumer.close()

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = self.is_cancelled = True
        self._consumer.close()


def _client_options(client: Any) -> ClientOptions:
    """What a Kombu connection says about users, TLS and virtual hosts."""
    options: ClientOptions = {}
    if client.userid:
        options["credentials"] = Credentials(client.userid, client.password or "")
    if client.ssl:
        options["tls"] = _tls_of(client.ssl)
    if (namespace := (client.virtual_host or "").strip("/")) != "":
        options["namespace"] = namespace
    return options


def _tls_of(ssl: object) -> TlsSettings | bool:
    """``broker_use_ssl`` is True, or has the names of the ``ssl`` module."""
    if not isinstance(ssl, Mapping):
        return True
    return TlsSettings(ca_file=ssl.get("ca_certs"), certificate_file=ssl.get("certfile"), key_file=ssl.get("keyfile"))


def _payload_of(message: ReceivedMessage, now_ms: int) -> dict[str, Any] | None:
    """What Kombu put into a message, without an ETA that is over: the worker has nothing to wait for."""
    try:
        payload = loads(message.body)
    except (ValueError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    if not isinstance(payload, dict) or not isinstance(payload.get("properties"), dict):
        return None
    headers = payload.get("headers")
    if isinstance(headers, dict) and headers.get("eta"):
        if 0 < _due_ms(headers["eta"]) <= now_ms:
            headers["eta"] = None
    return payload


def _due_ms(eta: object) -> int:
    """When a task is due; 0 for one without a time, or with one that Celery itself has to make sense of."""
    if not eta:
        return 0
    try:
        moment = eta if isinstance(eta, datetime) else datetime.fromisoformat(str(eta))
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1000))
