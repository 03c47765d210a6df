"""Consumers for code without asyncio: every method a line over the asyncio one, on the process's loop thread.

    with PullConsumer("10.0.0.1:9876", group="reports", topics="orders") as consumer:
        for message in consumer: ...

Listeners are functions here and run on threads of their own, so a slow one holds up neither heartbeats nor locks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TypeVar, Unpack

from pyromq.client.consumer import pull_consumer as aio_pull
from pyromq.client.consumer import push_consumer as aio_push
from pyromq.client.consumer.base.consume_stats import Totals
from pyromq.client.consumer.base.listeners import SyncMessageListener
from pyromq.client.consumer.base.rebalance_listener import QueueListener
from pyromq.client.consumer.base.running_info import HeadOfLine
from pyromq.client.consumer.base.settings import (
    ConsumerOptions,
    PullConsumerOptions,
    PullConsumerSettings,
    PushConsumerSettings,
    SimpleConsumerOptions,
    SimpleConsumerSettings,
    Start,
    SyncPushConsumerOptions,
)
from pyromq.client.consumer.group_member import GroupMember, Topics
from pyromq.client.consumer.popping import simple_consumer as aio_simple
from pyromq.client.consumer.popping.leases import LeasedMessage
from pyromq.client.consumer.rules.flow_control import Hold
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.stop_signals import stop_signals
from pyromq.client.sync.faces import Client, Face, blocking, inner_client, on_loop
from pyromq.errors import ConfigError, NoPermissionError, require
from pyromq.model.queue import QueueId
from pyromq.model.times import Span, given_ms
from pyromq.typed.listeners import is_coroutine_function

MemberT = TypeVar("MemberT", bound=GroupMember)


def _queue_listeners(options: ConsumerOptions) -> list[QueueListener | None]:
    return [options.get("on_assigned"), options.get("on_revoked")]


class ConsumerFace(Face[MemberT]):
    """What both consumers have in common."""

    subscribe = on_loop(GroupMember.subscribe)
    unsubscribe = on_loop(GroupMember.unsubscribe)

    @property
    def assignment(self) -> frozenset[QueueId]:
        """The queues that are ours at the moment."""
        return self._on_loop(lambda: self.inner.assignment)

    @property
    def refusal(self) -> NoPermissionError | None:
        """Why access control lets this consumer read nothing; None once a broker has let it in."""
        return self._on_loop(lambda: self.inner.refusal)


class PushConsumer(ConsumerFace[aio_push.PushConsumer]):
    """Consumes as a member of a group: ``listener`` is called with every message, on a pool of threads.

    ``topics`` is a topic, several topics, or topics with their tags (``{"orders": "new || changed"}``); ``subscribe``
    adds others, and SQL filters. ``start`` says where a group begins that has no offset yet: ``"earliest"``,
    ``"latest"``, or a datetime with time zone. ``orderly=True`` keeps the order of every queue, ``broadcast=True``
    gives every member every message, ``threads`` says how many listeners run at once, ``batch_listener`` gets several
    messages at a time: see ``PushConsumerOptions``, and ``PushConsumerSettings`` for the rest. A keyword wins over
    ``settings``; None means what ``settings`` or the default says. ``client`` is shared with producers and consumers of
    other groups; without one the consumer has its own. ``pyromq.aio.PushConsumer`` is for coroutines.

    A listener whose parameter is annotated with another type than ReceivedMessage gets the body decoded as that
    (``def bill(order: Order)``), with the message as second parameter if it has one. What does not decode is a dead
    letter at once, and so is what a listener raises DeadLetterError for.

    Raises ConfigError, InvalidNameError, InvalidExpressionError, and TypeError for an unknown option.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str,
        listener: SyncMessageListener | None = None,
        topics: Topics = (),
        start: Start | None = None,
        settings: PushConsumerSettings | None = None,
        client: Client | None = None,
        **options: Unpack[SyncPushConsumerOptions],
    ) -> None:
        for given in (listener, options.get("batch_listener"), *_queue_listeners(options)):
            text = "a listener of pyromq.PushConsumer is a function; use pyromq.aio.PushConsumer for async def"
            require(given is None or not is_coroutine_function(given), text)
        inner = aio_push.PushConsumer(
            nameservers,
            group=group,
            listener=listener,
            topics=topics,
            start=start,
            settings=settings,
            client=inner_client(client),
            **options,
        )
        super().__init__(inner)

    def run(self, *, messages: int | None = None, timeout_ms: int | None = None, timeout: Span | None = None) -> int:
        """Consumes until Ctrl-C, SIGTERM or ``close()``; then finishes what runs, commits and leaves the group.

        With ``messages`` it also ends when listeners have succeeded with that many, with ``timeout`` (a timedelta, or
        seconds) or ``timeout_ms`` when that time is over. Opens the consumer unless it is open. Returns how many
        messages listeners have succeeded with since the consumer was made. Signals are heard on the main thread only.
        Raises what ``open`` raises, and NoPermissionError when access control lets the consumer read nothing.
        """
        timeout_ms = given_ms("timeout", timeout_ms, timeout)
        if self._thread is None:
            self.open()
        thread = self._open_thread()
        try:
            with stop_signals(lambda: thread.soon(self.inner.stop)):
                thread.call(self.inner.run_open(messages, timeout_ms))
        finally:
            self.close()
        return self.inner.counts.ok

    @property
    def counts(self) -> Totals:
        """What was pulled, consumed and failed since the consumer was made."""
        return self._on_loop(lambda: self.inner.counts)

    @property
    def flow_counts(self) -> Mapping[Hold, int]:
        """How often each rule of flow control held a pull back since the consumer was made."""
        return self._on_loop(lambda: self.inner.flow_counts)

    @property
    def heads(self) -> list[HeadOfLine]:
        """For each of our queues with messages the one that holds up its offset, and what its listener does."""
        return self._on_loop(lambda: self.inner.heads)

    @property
    def consume_timeout_ms(self) -> int:
        """How long a listener may take before its message is given back; a change counts for those that run, too."""
        return self._on_loop(lambda: self.inner.consume_timeout_ms)

    @consume_timeout_ms.setter
    def consume_timeout_ms(self, timeout_ms: int) -> None:
        self._on_loop(lambda: setattr(self.inner, "consume_timeout_ms", timeout_ms))

    pause = on_loop(aio_push.PushConsumer.pause)
    resume = on_loop(aio_push.PushConsumer.resume)


class PullConsumer(ConsumerFace[aio_pull.PullConsumer]):
    """Hands out messages when it is asked for them: ``poll``, or ``for message in consumer``; ``seek``, ``commit``.

    Arguments are those of PushConsumer, without a listener; ``broadcast``, ``auto_commit``, ``poll_batch`` and
    ``poll_timeout_ms`` are its own options, ``PullConsumerSettings`` has the rest. A message counts as dealt with when
    the next one is asked for; a block that ends without an exception commits everything that was handed out.

    Raises ConfigError, InvalidNameError, InvalidExpressionError, and TypeError for an unknown option. What asks a
    broker raises TransportError or BrokerError; what needs an open consumer raises ClientClosedError.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str,
        topics: Topics = (),
        start: Start | None = None,
        settings: PullConsumerSettings | None = None,
        client: Client | None = None,
        **options: Unpack[PullConsumerOptions],
    ) -> None:
        for given in _queue_listeners(options):
            text = "a listener of pyromq.PullConsumer is a function; use pyromq.aio.PullConsumer for async def"
            require(given is None or not is_coroutine_function(given), text)
        inner = aio_pull.PullConsumer(
            nameservers,
            group=group,
            topics=topics,
            start=start,
            settings=settings,
            client=inner_client(client),
            **options,
        )
        super().__init__(inner)
        self._fetched: deque[ReceivedMessage] = deque()  # by a loop that has not come to them
        self._current: ReceivedMessage | None = None  # of a loop

    def __exit__(self, *exc_info: object) -> None:
        if exc_info[0] is not None and self._thread is not None:
            if self._current is not None:
                self._fetched.appendleft(self._current)
            else:
                self._on_loop(self.inner.repeat_last)
        self.close()

    def close(self) -> None:
        """Commits what was handed out, but not what a loop has fetched and not come to."""
        if self._fetched and self._thread is not None:
            first = self._fetched[0]
            self._on_loop(lambda: self.inner.repeat_from(first))
            self._fetched.clear()
        super().close()

    def poll(
        self, timeout_ms: int | None = None, *, timeout: Span | None = None, count_max: int | None = None
    ) -> list[ReceivedMessage]:
        """The next messages, all of one queue; empty when none came in time. Those before count as dealt with.

        Without ``timeout_ms`` or ``timeout`` (a timedelta, or seconds) it is ``poll_timeout_ms`` of the settings; 0
        asks for what is there already. ``count_max`` None means ``poll_batch``. Raises ConfigError when nothing is
        subscribed or assigned, ExpressionRefusedError when brokers cannot use the SQL expression of a subscription,
        NoPermissionError when access control lets the consumer read nothing.
        """
        if timeout is not None:
            timeout_ms = given_ms("timeout", timeout_ms, timeout)
        self._current = None
        if self._fetched:
            fetched = list(self._fetched)
            self._fetched.clear()
            return fetched
        return self._run(self.inner.poll(timeout_ms, count_max=count_max))

    def __iter__(self) -> PullConsumer:
        return self

    def __next__(self) -> ReceivedMessage:
        """Ends when the consumer is closed. Fetches several at once: to ask the loop costs more than a message."""
        while not self._fetched:
            if self._thread is None:
                raise StopIteration
            self._fetched.extend(self.poll())
        self._current = self._fetched.popleft()
        return self._current

    position = on_loop(aio_pull.PullConsumer.position)
    pause = on_loop(aio_pull.PullConsumer.pause)
    resume = on_loop(aio_pull.PullConsumer.resume)
    assign = blocking(aio_pull.PullConsumer.assign)
    queues = blocking(aio_pull.PullConsumer.queues)
    seek = blocking(aio_pull.PullConsumer.seek)
    seek_to_time = blocking(aio_pull.PullConsumer.seek_to_time)
    offset_at = blocking(aio_pull.PullConsumer.offset_at)
    commit = blocking(aio_pull.PullConsumer.commit)
    committed = blocking(aio_pull.PullConsumer.committed)


class SimpleConsumer(Face[aio_simple.SimpleConsumer]):
    """Receives messages that are invisible to others for a time: ``receive``, ``ack``, ``release``.

        with SimpleConsumer("10.0.0.1:9876", group="billing", topics="orders") as consumer:
            for message in consumer.receive():
                with message:                    # acknowledged at the end, released when the block raises
                    bill(message.body)

    ``topics`` is a topic, several topics, or topics with their tags. ``start`` is ``"earliest"`` or ``"latest"``, for a
    group that never received. ``invisible`` (60 s) is how long a message is this consumer's, ``wait`` (15 s) how long
    ``receive`` waits for one; ``orderly=True`` gets no message before the one ahead of it in its message group
    (``sharding_key``) is settled. ``SimpleConsumerSettings`` has the rest.

    Raises ConfigError, InvalidNameError, InvalidExpressionError, and TypeError for an unknown option. What asks a
    broker raises TransportError or BrokerError; what needs an open consumer raises ClientClosedError.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str,
        topics: Topics = (),
        start: Start | None = None,
        settings: SimpleConsumerSettings | None = None,
        client: Client | None = None,
        **options: Unpack[SimpleConsumerOptions],
    ) -> None:
        inner = aio_simple.SimpleConsumer(
            nameservers,
            group=group,
            topics=topics,
            start=start,
            settings=settings,
            client=inner_client(client),
            **options,
        )
        super().__init__(inner)
        inner.hand_to(self)

    subscribe = on_loop(aio_simple.SimpleConsumer.subscribe)
    unsubscribe = on_loop(aio_simple.SimpleConsumer.unsubscribe)
    receive = blocking(aio_simple.SimpleConsumer.receive)
    ack = blocking(aio_simple.SimpleConsumer.ack)
    change_invisible = blocking(aio_simple.SimpleConsumer.change_invisible)
    release = blocking(aio_simple.SimpleConsumer.release)

    # --- ``with message:`` ---

    def call(self, message: LeasedMessage, *, failed: bool | None) -> None:
        """What a block does at its beginning (None) and at its end."""
        if failed is None:
            self._on_loop(lambda: self.inner.entered(message))
        else:
            self._run(self.inner.left(message, failed=failed))

    def entered(self, message: LeasedMessage) -> None:
        raise ConfigError("messages of pyromq.SimpleConsumer are for with message: …, without async")

    async def left(self, message: LeasedMessage, *, failed: bool) -> None:
        self.entered(message)
