"""The producer on asyncio.

    async with Producer("10.0.0.1:9876", group="orders-service") as producer:
        receipt = await producer.send(Message("orders", b"42", tags="new"))
        receipt = await producer.send("orders", order, tags="new")     # any value that pyromq.typed can write

One ``send`` has one time for all its attempts; ``attempts`` says what is tried again, and where. The usual case takes
the fast path (``fast_path``): route known, connection open, nothing special about the message. Then a send is one
encoded frame and one future, awaited by the caller itself. Whatever is special takes the slow path (``slow_path``), and
after a failure of the first attempt ``retrying_sender`` makes the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any, ClassVar, Final, Self, Unpack, overload

from pyromq.client.core.client import Client
from pyromq.client.core.hooks import SendHook, SendHooks, with_installed
from pyromq.client.core.options import SendOptions, check_options, checked_group, client_for, with_given
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.roles import ProducerRole
from pyromq.client.core.settings import Compression, ProducerSettings
from pyromq.client.producer.batches import BatchSender
from pyromq.client.producer.fast_path import FastPath
from pyromq.client.producer.outgoing import check_batch
from pyromq.client.producer.pending_sends import PendingSends, SendCallback
from pyromq.client.producer.request_reply import RequestReply
from pyromq.client.producer.retrying_sender import RetryingSender
from pyromq.client.producer.selectors import QueueSelector
from pyromq.client.producer.send_arguments import (
    BatchArguments,
    ChosenQueue,
    NowaitArguments,
    SendArguments,
    TimeLimit,
    ValueBatchArguments,
    ValueNowaitArguments,
    ValueOnewayArguments,
    ValueRequestArguments,
    ValueSendArguments,
)
from pyromq.client.producer.send_context import SendContext
from pyromq.client.producer.send_log import SendLog, results
from pyromq.client.producer.slow_path import SlowPath
from pyromq.client.producer.topic_queues_table import TopicQueuesTable
from pyromq.client.producer.trace import ProducerTrace, TraceDispatcher, trace_topic_of, tracing_group
from pyromq.client.producer.value_messages import ValueMessages
from pyromq.errors import ClientClosedError, MessageRefusedError, TransportError
from pyromq.model import property_names as names
from pyromq.model.message import Message, SendReceipt
from pyromq.model.queue import QueueId
from pyromq.model.route import TopicRoute
from pyromq.model.times import Span, given_timeout_ms
from pyromq.typed.messages import NO_VALUE, MessageOptions
from pyromq.wire.property_text import join_items

_ORDERED: Final = (
    "send_nowait cannot keep the order of messages with a sharding key: one that is tried again is overtaken by the "
    "next; use send, which waits for each"
)


class Producer(ProducerRole):
    """Sends messages in the name of a group.

    ``nameservers`` is ``"host:port"``, several of them with ``;`` between, or a sequence; without it the environment
    decides (PYROMQ_NAMESERVER, NAMESRV_ADDR), then 127.0.0.1:9876. ``timeout_ms`` is for a send with all its attempts
    (without it 3 s, and 15 s where a broker is away; ``timeout`` is the same as timedelta or seconds, here and
    wherever there is a ``timeout_ms``), ``retries`` counts the attempts after the first; for the rest there is
    ``settings``. A keyword wins over ``settings``, and None means what ``settings`` or the default says. ``client`` is
    shared with other producers and consumers; without one the producer has its own. Other options: ``SendOptions``.

    Every way of sending takes a Message, or a topic and a value with what ``Message`` takes besides
    (``MessageOptions``): ``send("orders", order, keys="42", delay=timedelta(minutes=30))``. A value is written by the
    schema of its topic, if it has one (``pyromq topic schema``): SchemaMismatchError where it does not fit.

    The constructor raises ConfigError, InvalidNameError, and TypeError for an unknown option. Every way of sending
    raises InvalidNameError or MessageRefusedError for what no broker takes, NoRouteError when it is not known where to
    send, WrongServerError when the name server's address is that of a broker, ClientClosedError outside of the block.
    """

    _sends_prepared: ClassVar = False  # all its messages are prepared ones
    _is_watched: ClassVar = True  # by hooks

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str,
        timeout_ms: int | None = None,
        retries: int | None = None,
        compression: Compression | None = None,
        settings: ProducerSettings | None = None,
        client: Client | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        check_options("Producer", options, SendOptions, ProducerSettings)
        timeout_ms = given_timeout_ms(timeout_ms, options.get("timeout"))
        given = {"timeout_ms": timeout_ms, "retries": retries, "compression": compression}
        self.settings = with_given(ProducerSettings, settings, {**options, **given})
        name = checked_group(group)
        self._owns_client = client is None
        self.client = client_for(nameservers, client, options)
        super().__init__(self.client.wire_name(name))
        self.values = ValueMessages(self.client)
        hooks = with_installed(SendHook, options.get("hooks", ())) if self._is_watched else ()
        self.tracer: ProducerTrace | None = None
        self._tracing: TraceDispatcher | None = None
        if topic := trace_topic_of(options.get("trace", False)):
            self._tracing = trace_dispatcher(self.client, name, topic)
            self.tracer = ProducerTrace(self._tracing, self.client, name, sends_prepared=self._sends_prepared)
            hooks = (*hooks, self.tracer)
        if results.isEnabledFor(logging.DEBUG):
            hooks = (*hooks, SendLog())
        self._is_open = False
        self._was_open = False
        self._is_plain = not (hooks or self.settings.latency_fault or self.settings.retry_unless_ok)
        self._compose(SendHooks(hooks, self.client.clock, name))

    def _compose(self, hooks: SendHooks) -> None:
        client, settings = self.client, self.settings
        system = join_items([(names.INSTANCE_ID, ns)]) if (ns := client.settings.namespace) else ""
        self._topic_queues_table = table = TopicQueuesTable(client, settings)
        self._retrying_sender = sender = RetryingSender(client, settings, table, self.group)
        context = SendContext(client, settings, table, sender, hooks, system)
        self._fast_path = FastPath(context)
        self._slow_path = SlowPath(context)
        self._slow_path_nowait = SlowPath(context, settings.nowait_retries)
        self._batches = BatchSender(context)
        self._requests = RequestReply(client, table, self._slow_path)
        self._under_way = PendingSends(sender, lambda: client.tasks, settings.in_flight_max)
        self._begin = self._fast_path.begin  # this and the next two are looked up once, for speed
        self._receipt_of = sender.receipt
        self._receipt_of_facts = sender.receipt_of_facts

    # --- life ---

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def open(self) -> Self:
        """Joins the group; connections are opened when they are needed. Raises ConfigError, ClientClosedError."""
        if self._was_open:
            raise ClientClosedError("a producer cannot be opened twice; make a new one")
        if self._owns_client:
            await self.client.open()
        self.client.join(self)
        if self._tracing is not None:
            await self._tracing.open()
        self._is_open = self._was_open = True
        self._fast_path.is_open = self._is_plain
        return self

    async def close(self) -> None:
        """Waits a while for sends that were begun with ``send_nowait``, then leaves."""
        self._is_open = self._fast_path.is_open = False
        async with AsyncExitStack() as stack:  # from the last to the first, also when this is cancelled on the way
            if self._owns_client:
                stack.push_async_callback(self.client.close)
            stack.push_async_callback(self.client.leave, self)
            if self._tracing is not None:
                stack.push_async_callback(self._tracing.close)
            stack.callback(self._under_way.give_up)
            stack.callback(self._requests.close)
            await self._under_way.close(self.client.settings.close_timeout_ms)

    # --- sending ---

    @overload
    async def send(self, message: Message, **how: Unpack[SendArguments]) -> SendReceipt: ...

    @overload
    async def send(self, topic: str, value: object, /, **how: Unpack[ValueSendArguments]) -> SendReceipt: ...

    async def send(
        self,
        message: Any,
        value: object = NO_VALUE,
        *,
        queue: QueueId | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
        timeout: Span | None = None,
        **options: Unpack[MessageOptions],
    ) -> SendReceipt:
        """Sends and waits for the broker's receipt. ``queue`` or ``selector`` fix the queue, as a sharding key does.

        ``timeout_ms`` is for all attempts together; None means that of the producer. Raises SendFailedError with all
        attempts when no broker confirmed it in time.
        """
        if timeout is not None or options or type(message) is not Message or value is not NO_VALUE:
            timeout_ms = given_timeout_ms(timeout_ms, timeout)
            message = await self.values.made(message, value, options)
        begun = self._begin(message, timeout_ms) if queue is None and selector is None else None
        if begun is None:
            self._require_open()
            return await self._slow_path.send(message, queue, selector, timeout_ms)
        outgoing, chosen, connection, response = begun
        try:
            received = await response
        except TransportError as error:
            return await self._retrying_sender.after_failure(outgoing, chosen, error)
        if isinstance(received, tuple):
            return self._receipt_of_facts(outgoing, chosen, received)
        if received.code == 0:
            return self._receipt_of(outgoing, chosen, received)
        return await self._retrying_sender.after_response(outgoing, chosen, connection, received)

    @overload
    def send_nowait(self, message: Message, **how: Unpack[NowaitArguments]) -> asyncio.Future[SendReceipt]: ...

    @overload
    def send_nowait(
        self, topic: str, value: object, /, **how: Unpack[ValueNowaitArguments]
    ) -> asyncio.Future[SendReceipt]: ...

    def send_nowait(
        self,
        message: Any,
        value: object = NO_VALUE,
        *,
        queue: QueueId | None = None,
        selector: QueueSelector | None = None,
        callback: SendCallback | None = None,
        timeout_ms: int | None = None,
        timeout: Span | None = None,
        **options: Unpack[MessageOptions],
    ) -> asyncio.Future[SendReceipt]:
        """Begins a send; the future has its receipt, or raises what ``send`` raises.

        ``callback(receipt, error)`` is called when it is over. ``queue`` or ``selector`` fix the queue, but no order in
        it. Raises TooManyRequestsError at once when too many are under way: await some of them. Raises
        MessageRefusedError for a message with a sharding key: while one of them waits for its broker the next would
        overtake it.
        """
        if timeout is not None or options or type(message) is not Message or value is not NO_VALUE:
            timeout_ms = given_timeout_ms(timeout_ms, timeout)
            made = self.values.made_now(message, value, options)
            if made is None:
                return self._send_value_nowait(message, value, options, (queue, selector, timeout_ms), callback)
            message = made
        if message.sharding_key:
            raise MessageRefusedError(_ORDERED)
        self._under_way.require_room(message.topic)
        begun = self._begin(message, timeout_ms) if queue is None and selector is None else None
        if begun is not None:
            begun[0].retries = self.settings.nowait_retries
            return self._under_way.add_begun(begun, callback)
        self._require_open()
        return self._under_way.add(self._slow_path_nowait.send(message, queue, selector, timeout_ms), callback)

    def _send_value_nowait(
        self, topic: str, value: object, options: MessageOptions, where: Any, callback: SendCallback | None
    ) -> asyncio.Future[SendReceipt]:
        """The schema of the topic is asked for first."""
        if options.get("sharding_key"):
            raise MessageRefusedError(_ORDERED)
        self._under_way.require_room(topic)

        async def send() -> SendReceipt:
            return await self._slow_path_nowait.send(await self.values.made(topic, value, options), *where)

        return self._under_way.add(send(), callback)

    def begin_send(self, message: Message, timeout_ms: int | None) -> asyncio.Future[SendReceipt]:
        """``send`` as a future, for the sync face: its caller waits for it, so order does not suffer."""
        _require_message(message)
        self._under_way.require_room(message.topic)
        begun = self._begin(message, timeout_ms)
        if begun is not None:
            return self._under_way.add_begun(begun, None)
        self._require_open()
        return self._under_way.add(self._slow_path.send(message, None, None, timeout_ms), None)

    @overload
    async def send_oneway(self, message: Message, **how: Unpack[ChosenQueue]) -> None: ...

    @overload
    async def send_oneway(self, topic: str, value: object, /, **how: Unpack[ValueOnewayArguments]) -> None: ...

    async def send_oneway(
        self,
        message: Any,
        value: object = NO_VALUE,
        *,
        queue: QueueId | None = None,
        selector: QueueSelector | None = None,
        **options: Unpack[MessageOptions],
    ) -> None:
        """Sends without a response: whether the message arrived stays unknown, and nothing is tried again."""
        self._require_open()
        await self._slow_path.send_oneway(await self.values.made(message, value, options), queue, selector)

    @overload
    async def send_batch(self, messages: Sequence[Message], **how: Unpack[BatchArguments]) -> list[SendReceipt]: ...

    @overload
    async def send_batch(
        self, topic: str, values: Iterable[object], /, **how: Unpack[ValueBatchArguments]
    ) -> list[SendReceipt]: ...

    async def send_batch(
        self,
        messages: Any,
        values: object = NO_VALUE,
        *,
        queue: QueueId | None = None,
        timeout_ms: int | None = None,
        timeout: Span | None = None,
        **options: Unpack[MessageOptions],
    ) -> list[SendReceipt]:
        """Sends messages of one topic in as few requests as fit; one receipt each, in order.

        Or a topic and values: the options are for each of them.

        A request is stored whole or not at all. Raises SendFailedError; its ``sent`` are receipts of requests before.
        """
        self._require_open()
        timeout_ms = given_timeout_ms(timeout_ms, timeout)
        messages = await self.values.made_batch(messages, values, options)
        if isinstance(messages, Message) or not isinstance(messages, Sequence):
            raise MessageRefusedError(f"send_batch takes a list of messages, not {type(messages).__name__}")
        try:
            check_batch(messages)
        except AttributeError:
            for message in messages:
                _require_message(message)
            raise
        if len(messages) == 1:  # an ordinary message may be compressed, an item of a batch may not
            return [await self.send(messages[0], queue=queue, timeout_ms=timeout_ms)]
        return await self._batches.send(messages, queue, timeout_ms)

    @overload
    async def request(self, message: Message, **how: Unpack[TimeLimit]) -> ReceivedMessage: ...

    @overload
    async def request(self, topic: str, value: object, /, **how: Unpack[ValueRequestArguments]) -> ReceivedMessage: ...

    async def request(
        self,
        message: Any,
        value: object = NO_VALUE,
        *,
        timeout_ms: int | None = None,
        timeout: Span | None = None,
        **options: Unpack[MessageOptions],
    ) -> ReceivedMessage:
        """Sends a message and waits for the reply of its consumer; ``reply.decode(Price)`` makes a value of it.

        Raises NoReplyError when none comes in time, and what ``send`` raises.
        """
        self._require_open()
        timeout_ms = given_timeout_ms(timeout_ms, timeout)
        message = await self.values.made(message, value, options)
        return await self._requests.ask(message, timeout_ms or self.settings.answer_ms)

    async def reply(
        self,
        request: ReceivedMessage,
        body: object,
        *,
        tags: str = "",
        timeout_ms: int | None = None,
        timeout: Span | None = None,
    ) -> SendReceipt:
        """Replies to a request that a consumer received, with bytes or any value. Raises MessageRefusedError if it is
        none, or if the value cannot be written."""
        self._require_open()
        timeout_ms = given_timeout_ms(timeout_ms, timeout)
        return await self._requests.reply(request, body, tags, timeout_ms or 0)

    def _require_open(self) -> None:
        if not self._is_open:
            state = "was closed; make a new one" if self._was_open else "is not open: use it inside async with"
            raise ClientClosedError(f"the Producer {state}")

    # --- as a role of the client ---

    def topics(self) -> list[str]:
        return self._topic_queues_table.topics()

    def route_changed(self, topic: str, route: TopicRoute) -> None:
        self._topic_queues_table.route_changed(topic)

    def reply_arrived(self, message: ReceivedMessage) -> bool:
        return self._requests.arrived(message)


def _require_message(message: object) -> None:
    if not isinstance(message, Message):
        raise MessageRefusedError(f"a producer sends Message(topic, body), not {type(message).__name__}")


class _TraceProducer(Producer):
    """Traces are not traced."""

    _is_watched = False


def trace_dispatcher(client: Client, group: str, topic: str) -> TraceDispatcher:
    """Sends the traces of a group through a producer of its own."""
    return TraceDispatcher(_TraceProducer(client=client, group=tracing_group(group), timeout_ms=5_000), client, topic)
