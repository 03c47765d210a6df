"""The producer on asyncio.

    async with Producer("10.0.0.1:9876", group="orders-service") as producer:
        receipt = await producer.send(Message("orders", b"42", tags="new"))

One ``send`` has one time for all its attempts; ``attempts`` says what is tried again, and where. The usual case takes a
short way: route known, connection open, nothing special about the message. Then a send is one encoded frame and one
future, awaited by the caller itself: no task, no lock. Whatever is special, and every failure, takes the long way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any, ClassVar, Final, Self

import msgspec

from pyromq.client.client import Client
from pyromq.client.delivery import Delivery
from pyromq.client.errors import NoReplyError, SendFailedError
from pyromq.client.fault import TABLE_5, LatencyTable
from pyromq.client.hooks import SendHook
from pyromq.client.letters import (
    SEND,
    SEND_BATCH,
    SEND_REPLY,
    Letter,
    check_batch,
    check_body,
    pack_body,
    properties_text,
    split_batch,
    system_text,
)
from pyromq.client.publication import Publication
from pyromq.client.publications import Publications
from pyromq.client.received_message import ReceivedMessage
from pyromq.client.replies import Replies, reply_of, request_properties
from pyromq.client.roles import ProducerRole
from pyromq.client.selectors import QueueSelector, by_sharding_key
from pyromq.client.settings import ClientSettings, ProducerSettings
from pyromq.client.trace import ProducerTrace, TraceDispatcher, trace_topic_of, tracing_settings
from pyromq.errors import (
    ClientClosedError,
    MessageRefusedError,
    MQError,
    RemoteProtocolError,
    TransportError,
)
from pyromq.model import property_names as names
from pyromq.model.message import Message, SendReceipt
from pyromq.model.queue import QueueId
from pyromq.model.route import TopicRoute
from pyromq.net import Connection, TooManyRequestsError
from pyromq.net.nameserver_list import parse_nameservers
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

SendCallback = Callable[[SendReceipt | None, BaseException | None], None]

_LONG_COMPRESSION_BYTES: Final = 64 * 1024  # larger bodies are compressed on a thread: it would hold up the loop
_Begun = tuple[Letter, QueueId, Connection, asyncio.Future[Received[Any]]]
"""A send on the short way."""


class Producer(ProducerRole):
    """Sends messages in the name of a group.

    ``client`` is what it shares with other producers and consumers; without one it has its own, made from
    ``nameservers`` or ``client_settings``. ``trace`` writes what was sent to RocketMQ's trace topic, or to the topic
    it names. Every way of sending raises InvalidNameError or MessageRefusedError for what
    no broker takes, NoRouteError when it is not known where to send, ClientClosedError.
    """

    _sends_halves: ClassVar = False  # all its messages are prepared ones

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str = "",
        settings: ProducerSettings | None = None,
        client_settings: ClientSettings | None = None,
        client: Client | None = None,
        hooks: Sequence[SendHook] = (),
        latency_table: LatencyTable = TABLE_5,
        trace: bool | str = False,
    ) -> None:
        settings = settings or ProducerSettings()
        self.settings = settings if not group else _with_group(settings, group)
        self._owns_client = client is None
        self.client = client or Client(client_settings_of(nameservers, client_settings))
        super().__init__(self.client.wire_name(self.settings.group))
        self._clock, self._hooks = self.client.clock, tuple(hooks)
        self.tracer: ProducerTrace | None = None
        self._tracing = self._trace_to(topic) if (topic := trace_topic_of(trace)) else None
        self._publications = Publications(self.client, self.settings)
        self._delivery = Delivery(self.client, self.settings, self._publications, self.group, latency_table)
        self._replies = Replies(self.client.rng)
        self._under_way: set[asyncio.Future[SendReceipt]] = set()
        self._told: set[str] = set()  # brokers that heard a heartbeat before a request was sent
        self._system = system_text([(names.INSTANCE_ID, ns)]) if (ns := self.client.settings.namespace) else ""
        self._is_plain = not (self._hooks or self.settings.avoid_slow_brokers or self.settings.retry_unless_ok)
        self._is_open = self._takes_short_way = False
        # what the short way needs of others, looked up once
        self._known, self._ext_of, self._receipt_of = (
            self._publications.known,
            self._delivery.ext,
            self._delivery.receipt,
        )
        self._next_id, self._short_bytes_max = self.client.message_ids.next, _bytes_max_uncompressed(self.settings)
        self._timeout_ms, self._attempt_timeout_ms = self.settings.timeout_ms, self.settings.attempt_timeout_ms

    # --- life ---

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connects to nobody yet. Raises ConfigError, ClientClosedError."""
        if self._owns_client:
            await self.client.open()
        self.client.join(self)
        if self._tracing is not None:
            await self._tracing.open()
        self._is_open, self._takes_short_way = True, self._is_plain

    def _trace_to(self, topic: str) -> TraceDispatcher:
        dispatcher = trace_dispatcher(self.client, self.settings.group, topic)
        self.tracer = ProducerTrace(dispatcher, self.client, self.settings.group, sends_halves=self._sends_halves)
        self._hooks = (*self._hooks, self.tracer)
        return dispatcher

    async def close(self) -> None:
        """Waits a while for sends that were begun with ``send_nowait``, then leaves."""
        self._is_open = self._takes_short_way = False
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=self.client.settings.close_timeout_ms / 1000)
        self._replies.close()
        for future in list(self._under_way):
            if not future.done():
                future.set_exception(ClientClosedError("the producer was closed before the answer came"))
        if self._tracing is not None:
            await self._tracing.close()
        if self.client.is_open:
            await self.client.leave(self)
        if self._owns_client:
            await self.client.close()

    # --- sending ---

    async def send(
        self,
        message: Message,
        *,
        queue: QueueId | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int = 0,
    ) -> SendReceipt:
        """Sends and waits for the broker's word. ``queue`` or ``selector`` fix the queue, as a sharding key does.

        Raises SendFailedError with all attempts when no broker confirmed it in time.
        """
        begun = self._begin(message, timeout_ms) if queue is None and selector is None else None
        if begun is None:
            self._require_open()
            return await self._send_long_way(message, queue, selector, timeout_ms)
        letter, chosen, connection, answer = begun
        try:
            received = await answer
        except TransportError as error:
            return await self._delivery.after_failure(letter, chosen, error)
        if received.code == 0:
            return self._receipt_of(letter, chosen, received)
        return await self._delivery.after_answer(letter, chosen, connection, received)

    def send_nowait(
        self, message: Message, *, callback: SendCallback | None = None, timeout_ms: int = 0
    ) -> asyncio.Future[SendReceipt]:
        """Begins a send; the future has its receipt, or raises what ``send`` raises.

        ``callback(receipt, error)`` is called when it is over. Raises TooManyRequestsError at once when too many are
        under way: await some of them.
        """
        if len(self._under_way) >= self.settings.in_flight_max:
            raise TooManyRequestsError(peer=f"topic {message.topic}", in_flight_max=self.settings.in_flight_max)
        outcome: asyncio.Future[SendReceipt] = asyncio.get_running_loop().create_future()
        begun = self._begin(message, timeout_ms)
        if begun is None:
            self._require_open()
            self._continue(self._send_long_way(message, None, None, timeout_ms), outcome)
        else:
            begun[3].add_done_callback(partial(self._on_answer, begun, outcome))
        self._under_way.add(outcome)
        outcome.add_done_callback(partial(self._over, callback))
        return outcome

    async def send_oneway(
        self, message: Message, *, queue: QueueId | None = None, selector: QueueSelector | None = None
    ) -> None:
        """Sends and hopes: no answer comes, so nothing is known and nothing is tried again."""
        self._require_open()
        letter = await self._letter(message, 0)
        publication = await self._publications.find(message.topic, self.settings.timeout_ms)
        chosen = self._pinned(message, publication, queue, selector) or publication.next()
        connection = await self._delivery.connection(publication, chosen, self.settings.timeout_ms)
        connection.request_oneway(letter.code, self._ext_of(letter, chosen), letter.body)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: QueueId | None = None, timeout_ms: int = 0
    ) -> list[SendReceipt]:
        """Sends messages of one topic in as few requests as fit; one receipt each, in order.

        A request is stored whole or not at all. Raises SendFailedError; its ``sent`` are receipts of requests before.
        """
        self._require_open()
        check_batch(messages)
        if len(messages) == 1:  # an ordinary message may be compressed, an item of a batch may not
            return [await self.send(messages[0], queue=queue, timeout_ms=timeout_ms)]
        self._ask_hooks(messages)
        timeout_ms, started_ms = timeout_ms or self.settings.timeout_ms, self._clock.monotonic_ms()
        now_ms, deadline_ms = self._clock.now_ms(), started_ms + timeout_ms
        ids = [self._next_id(now_ms) for _ in messages]
        wait = "" if messages[0].wait_stored else system_text([(names.WAIT, "false")])
        topic, receipts = self.client.wire_name(messages[0].topic), list[SendReceipt]()
        for part in split_batch(messages, ids, self._system, self.settings.body_bytes_max):
            letter = Letter(SEND_BATCH, topic, part.body, wait, ",".join(part.unique_ids), now_ms, deadline_ms)
            publication = await self._publications.find(messages[0].topic, timeout_ms)
            pinned = self._pinned(messages[0], publication, queue, None)
            try:
                receipt = await self._delivery.deliver(letter, messages[0].topic, pinned)
            except SendFailedError as error:
                self._tell_hooks(messages, receipts, error, started_ms)
                raise SendFailedError(topic, error.attempts, sent=receipts) from error
            receipts += _receipts_of_batch(receipt, part.unique_ids)
        self._tell_hooks(messages, receipts, None, started_ms)
        return receipts

    def _ask_hooks(self, messages: Sequence[Message]) -> None:
        for hook in self._hooks:
            for message in messages:
                hook.before_send(message)

    def _tell_hooks(
        self, messages: Sequence[Message], receipts: Sequence[SendReceipt], error: MQError | None, started_ms: int
    ) -> None:
        """Of a batch: those without receipt failed."""
        elapsed_ms = self._clock.monotonic_ms() - started_ms
        for hook in self._hooks:
            for message, receipt in zip_longest(messages, receipts):
                _call_after(hook, message, receipt, None if receipt else error, elapsed_ms)

    # --- request and reply ---

    async def request(self, message: Message, *, timeout_ms: int = 0) -> ReceivedMessage:
        """Sends a message and waits for the reply of whoever consumes it.

        Raises NoReplyError when none comes in time, and what ``send`` raises.
        """
        self._require_open()
        timeout_ms = timeout_ms or self._timeout_ms
        correlation_id, waiter = self._replies.expect()
        system = request_properties(correlation_id, self.client.id, timeout_ms)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._tell_brokers(message.topic, timeout_ms)
                await self._send_long_way(message, None, None, timeout_ms, system)
                return await waiter
        except TimeoutError as error:
            raise NoReplyError(f"no reply to a request of topic {message.topic} within {timeout_ms} ms") from error
        finally:
            self._replies.forget(correlation_id)

    async def reply(self, request: ReceivedMessage, body: bytes, *, tags: str = "", timeout_ms: int = 0) -> SendReceipt:
        """Answers a request that a consumer received. Raises MessageRefusedError if it is none."""
        self._require_open()
        topic, system = reply_of(request)
        message = Message(topic, body, tags=tags)
        return await self._send_long_way(message, None, None, timeout_ms, system, code=SEND_REPLY)

    async def _tell_brokers(self, topic: str, timeout_ms: int) -> None:
        """The reply may come through any broker, so all of them must know this client."""
        await self._publications.find(topic, timeout_ms)
        addresses = set(self.client.brokers.addresses(masters_only=True))
        if not addresses <= self._told:
            await self.client.heartbeat_now()
            self._told = addresses

    # --- as a role of the client ---

    def topics(self) -> list[str]:
        return self._publications.topics()

    def route_changed(self, topic: str, route: TopicRoute) -> None:
        self._publications.route_changed(topic)

    def reply_arrived(self, message: ReceivedMessage) -> bool:
        return self._replies.arrived(message)

    # --- the short way ---

    def _begin(self, message: Message, timeout_ms: int) -> _Begun | None:
        """Sends at once, or None if that takes more than a moment."""
        publication = self._known.get(message.topic)
        body = message.body
        if (
            publication is None
            or publication.is_borrowed
            or message.sharding_key
            or not self._takes_short_way
            or len(body) > self._short_bytes_max
        ):
            return None
        queue = publication.next()
        link = publication.links.get(queue.broker)
        connection = link.ready if link is not None else None
        if connection is None or connection.is_congested:
            return None
        timeout_ms = timeout_ms or self._timeout_ms
        now_ms = self._clock.now_ms()
        unique_id = self._next_id(now_ms)
        text = properties_text(message, unique_id, self._system)
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        letter = Letter(SEND, publication.topic, body, text, unique_id, now_ms, deadline_ms, message.flag)
        ext = self._ext_of(letter, queue)
        try:
            answer = connection.request_nowait(SEND, ext, body, timeout_ms=self._attempt_timeout_ms or timeout_ms)
        except TransportError:
            return None  # the long way knows what to do
        return letter, queue, connection, answer

    def _on_answer(
        self, begun: _Begun, outcome: asyncio.Future[SendReceipt], answer: asyncio.Future[Received[Any]]
    ) -> None:
        if outcome.done() or answer.cancelled():
            return
        letter, queue, connection, _ = begun
        error = answer.exception()
        if isinstance(error, TransportError):
            self._continue(self._delivery.after_failure(letter, queue, error), outcome)
        elif error is not None:
            outcome.set_exception(error)
        elif (received := answer.result()).code == 0:
            try:
                outcome.set_result(self._receipt_of(letter, queue, received))
            except MQError as unreadable:
                outcome.set_exception(unreadable)
        else:
            work = self._delivery.after_answer(letter, queue, connection, received)
            self._continue(work, outcome)

    def _continue(self, work: Any, outcome: asyncio.Future[SendReceipt]) -> None:
        """The rest of a send that was begun without waiting, as a task."""
        try:
            task = self.client.tasks.start(_settle(work, outcome), name="send")
        except ClientClosedError as error:
            work.close()
            outcome.set_exception(error)
        else:
            outcome.add_done_callback(lambda done: task.cancel() if done.cancelled() else None)
            task.add_done_callback(partial(_left_behind, outcome))

    def _over(self, callback: SendCallback | None, outcome: asyncio.Future[SendReceipt]) -> None:
        self._under_way.discard(outcome)
        if callback is None:
            return
        error = asyncio.CancelledError() if outcome.cancelled() else outcome.exception()
        try:
            callback(None if error else outcome.result(), error)
        except Exception:
            logger.exception("callback of a send failed")

    # --- the long way ---

    async def _send_long_way(
        self,
        message: Message,
        queue: QueueId | None,
        selector: QueueSelector | None,
        timeout_ms: int,
        system: str = "",
        code: int = SEND,
        sys_flag: int = 0,
    ) -> SendReceipt:
        for hook in self._hooks:
            hook.before_send(message)
        started_ms = self._clock.monotonic_ms()
        receipt: SendReceipt | None = None
        error: MQError | None = None
        try:
            letter = await self._letter(message, timeout_ms, system, code, sys_flag)
            publication = await self._publications.find(message.topic, letter.deadline_ms - self._clock.monotonic_ms())
            pinned = self._pinned(message, publication, queue, selector)
            receipt = await self._delivery.deliver(letter, message.topic, pinned)
            return receipt
        except MQError as caught:
            error = caught
            raise
        finally:
            for hook in self._hooks:
                _call_after(hook, message, receipt, error, self._clock.monotonic_ms() - started_ms)

    async def _letter(
        self, message: Message, timeout_ms: int, system: str = "", code: int = SEND, sys_flag: int = 0
    ) -> Letter:
        now_ms = self._clock.now_ms()
        deadline_ms = self._clock.monotonic_ms() + (timeout_ms or self.settings.timeout_ms)
        unique_id = self._next_id(now_ms)
        text = properties_text(message, unique_id, self._system + system)
        body, packing = message.body, 0
        if len(body) >= self.settings.compress_from_bytes:
            if len(body) > _LONG_COMPRESSION_BYTES:
                body, packing = await asyncio.to_thread(pack_body, body, self.settings)
            else:
                body, packing = pack_body(body, self.settings)
        check_body(body, self.settings.body_bytes_max)
        topic = message.topic if code == SEND_REPLY else self.client.wire_name(message.topic)
        return Letter(code, topic, body, text, unique_id, now_ms, deadline_ms, message.flag, sys_flag | packing)

    # --- where to ---

    def _pinned(
        self, message: Message, publication: Publication, queue: QueueId | None, selector: QueueSelector | None
    ) -> QueueId | None:
        if queue is not None:
            if queue.topic != publication.topic and queue.topic != message.topic:
                raise MessageRefusedError(f"a message to {message.topic} cannot go to a queue of {queue.topic}")
            return queue
        if selector is None and message.sharding_key:
            selector = by_sharding_key
        return selector(message, publication.queues) if selector else None

    # --- helpers ---

    def _require_open(self) -> None:
        if not self._is_open:
            self.client.require_open()
            raise ClientClosedError("the producer is closed; use it inside async with")


async def _settle(work: Any, outcome: asyncio.Future[SendReceipt]) -> None:
    try:
        receipt = await work
    except Exception as error:
        if not outcome.done():
            outcome.set_exception(error)
    else:
        if not outcome.done():
            outcome.set_result(receipt)


def _left_behind(outcome: asyncio.Future[SendReceipt], task: asyncio.Task[None]) -> None:
    """A client that is closed ends the sends of those who share it, and they must hear of it."""
    if task.cancelled() and not outcome.done():
        outcome.set_exception(ClientClosedError("the client was closed before the answer came"))


def _receipts_of_batch(receipt: SendReceipt, unique_ids: Sequence[str]) -> list[SendReceipt]:
    offset_ids = receipt.offset_message_id.split(",")
    if len(offset_ids) != len(unique_ids):
        raise RemoteProtocolError(f"{len(unique_ids)} messages were sent, the answer names {len(offset_ids)}")
    return [
        msgspec.structs.replace(
            receipt, message_id=unique_id, offset_message_id=offset_id, offset=receipt.offset + number
        )
        for number, (unique_id, offset_id) in enumerate(zip(unique_ids, offset_ids, strict=True))
    ]


def _call_after(
    hook: SendHook, message: Message, receipt: SendReceipt | None, error: MQError | None, elapsed_ms: int
) -> None:
    try:
        hook.after_send(message, receipt, error, elapsed_ms)
    except Exception:
        logger.exception("hook failed after a send: topic=%s", message.topic)


def _bytes_max_uncompressed(settings: ProducerSettings) -> int:
    compressed_from = settings.compress_from_bytes if settings.compression.value else settings.body_bytes_max + 1
    return min(compressed_from - 1, settings.body_bytes_max)


def _with_group(settings: ProducerSettings, group: str) -> ProducerSettings:
    return replace(settings, group=group)


def trace_dispatcher(client: Client, group: str, topic: str) -> TraceDispatcher:
    """Sends the traces of a group through a producer of its own."""
    return TraceDispatcher(Producer(client=client, settings=tracing_settings(group)), client, topic)


def client_settings_of(nameservers: str | Sequence[str], given: ClientSettings | None) -> ClientSettings:
    """The settings given, or default ones, with these name servers if there are any."""
    if given is None:
        return ClientSettings(nameservers=parse_nameservers(nameservers))
    return replace(given, nameservers=parse_nameservers(nameservers)) if nameservers else given
