"""The same clients for code without asyncio: every method a line over the asyncio one, on the process's loop thread.

    with Producer("10.0.0.1:9876", group="orders-service") as producer:
        receipt = producer.send(Message("orders", b"42"))

Threads may share a client. Ctrl-C ends a call at once; whether the message was stored is then not known. What was
opened before a fork cannot be used in the child: open another one there.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from pyromq.client.core import client as aio_client
from pyromq.client.core.options import SendOptions
from pyromq.client.core.settings import ClientSettings, Compression, ProducerSettings
from pyromq.client.producer import producer as aio_producer
from pyromq.client.producer.pending_sends import SendCallback
from pyromq.client.producer.selectors import QueueSelector
from pyromq.client.producer.send_arguments import (
    ChosenQueue,
    NowaitArguments,
    SendArguments,
    ValueNowaitArguments,
    ValueSendArguments,
)
from pyromq.client.sync.loop_thread import LoopThread, Waiter, loop_thread
from pyromq.errors import ClientClosedError, ConfigError
from pyromq.model.message import Message, SendReceipt
from pyromq.model.queue import QueueId
from pyromq.model.times import Span, given_timeout_ms
from pyromq.typed.messages import NO_VALUE, MessageOptions

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Inner(Protocol):
    """What a sync client wraps."""

    async def open(self) -> object: ...

    async def close(self) -> None: ...


InnerT = TypeVar("InnerT", bound=Inner)
InnerT_co = TypeVar("InnerT_co", bound=Inner, covariant=True)  # a method of a base class is one of the class itself


class LoopFace:
    """A sync client: its asyncio client, and the thread whose loop that lives on. ``with``, or open() and close()."""

    inner: Inner

    def __init__(self, inner: Inner) -> None:
        self.inner = inner  # touch it on the loop's thread only
        self._thread: LoopThread | None = None
        self._was_open = False
        self._pid = os.getpid()

    @classmethod
    def over(cls, inner: Inner, thread: LoopThread) -> Self:
        """A face of a client that is open already, on that thread's loop; who has opened it closes it."""
        face = cls.__new__(cls)
        LoopFace.__init__(face, inner)
        face._thread, face._was_open = thread, True
        return face

    def let_go(self) -> None:
        """Detach a face that ``over`` made: it cannot be used any more, and nothing is closed."""
        self._thread = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def open(self) -> Self:
        """Open the client on its loop thread. Raises what the asyncio client raises, ClientClosedError in a forked
        child.
        """
        self._require_own_process()
        thread = loop_thread()
        thread.acquire()
        self._thread = thread  # before it is open: what it calls back may use this face at once
        try:
            thread.call(self.inner.open())
        except BaseException:  # also Ctrl-C must not keep the thread alive; raised again
            self._thread = None
            thread.release()
            raise
        self._was_open = True
        return self

    def close(self) -> None:
        """Does nothing the second time, nor in a forked child: the parent's connections are the parent's."""
        thread, self._thread = self._thread, None
        if thread is None or os.getpid() != self._pid:
            return
        try:
            thread.call(self.inner.close())
        finally:
            thread.release()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            thread = self._open_thread()
        except ClientClosedError:
            work.close()
            raise
        return thread.call(work)

    def _on_loop(self, function: Callable[[], T]) -> T:
        if self._thread is None:
            return function()

        async def call() -> T:
            return function()

        return self._run(call())

    def _open_thread(self) -> LoopThread:
        self._require_own_process()
        if self._thread is None:
            state = (
                "was closed; make a new one" if self._was_open else "is not open: use it inside with, or call open()"
            )
            raise ClientClosedError(f"the {type(self).__name__} {state}")
        return self._thread

    def _require_own_process(self) -> None:
        if os.getpid() != self._pid:
            text = f"the {type(self).__name__} belongs to process {self._pid}, and this is {os.getpid()}"
            raise ClientClosedError(f"{text}: connections do not survive a fork, open a new one here")


class Face(LoopFace, Generic[InnerT_co]):
    """A sync client whose type says which asyncio client it wraps, for ``blocking`` and ``on_loop``."""

    inner: InnerT_co

    def __init__(self, inner: InnerT_co) -> None:
        super().__init__(inner)


def blocking(
    method: Callable[Concatenate[InnerT, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Face[InnerT], P], T]:
    """The sync form of a method of the asyncio client."""

    @wraps(method)
    def call(self: Face[InnerT], /, *arguments: P.args, **named: P.kwargs) -> T:
        return self._run(method(self.inner, *arguments, **named))

    return call


def on_loop(method: Callable[Concatenate[InnerT, P], T]) -> Callable[Concatenate[Face[InnerT], P], T]:
    """The sync form of a method that does not wait: it runs on the loop's thread while the client is open, because
    everything in it belongs to the loop, and here before.
    """

    @wraps(method)
    def call(self: Face[InnerT], /, *arguments: P.args, **named: P.kwargs) -> T:
        bound: Callable[P, T] = getattr(self.inner, method.__name__)  # a subclass may have its own
        return self._on_loop(lambda: bound(*arguments, **named))

    return call


class Client(Face[aio_client.Client]):
    """What producers, consumers and Admin may share: hand it to them with ``client=``, inside its own ``with`` block.

    ``Client("10.0.0.1:9876")``, or with ClientSettings instead of the address. One client is one member of each of its
    groups: two consumers of the same group need two clients. Raises ConfigError.
    """

    def __init__(self, settings: ClientSettings | str | Sequence[str] = ()) -> None:
        super().__init__(aio_client.Client(settings))


def inner_client(client: Client | None) -> aio_client.Client | None:
    """What a shared client wraps. Raises ConfigError for one of ``pyromq.aio``."""
    if client is None or isinstance(client, Client):
        return client.inner if client else None
    raise ConfigError(f"client must be a pyromq.Client, not {type(client).__module__}.{type(client).__qualname__}")


class Producer(Face[aio_producer.Producer]):
    """Sends messages in the name of a group: ``pyromq.aio.Producer`` for code without asyncio. Threads may share it.

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
        inner = aio_producer.Producer(
            nameservers,
            group=group,
            timeout_ms=timeout_ms,
            retries=retries,
            compression=compression,
            settings=settings,
            client=inner_client(client),
            **options,
        )
        super().__init__(inner)

    @overload
    def send(self, message: Message, **how: Unpack[SendArguments]) -> SendReceipt: ...

    @overload
    def send(self, topic: str, value: object, /, **how: Unpack[ValueSendArguments]) -> SendReceipt: ...

    def send(
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
            made = self.inner.values.made_now(message, value, options)
            message = made if made is not None else self._run(self.inner.values.made(message, value, options))
        if queue is not None or selector is not None:
            return self._run(self.inner.send(message, queue=queue, selector=selector, timeout_ms=timeout_ms))
        thread, waiter = self._open_thread(), Waiter[SendReceipt]()
        begun: list[asyncio.Future[SendReceipt]] = []
        thread.soon(self._begin, self.inner.begin_send, message, timeout_ms, waiter, begun)
        return thread.wait_for(waiter, lambda: [future.cancel() for future in begun])

    @overload
    def send_nowait(self, message: Message, **how: Unpack[NowaitArguments]) -> Future[SendReceipt]: ...

    @overload
    def send_nowait(self, topic: str, value: object, /, **how: Unpack[ValueNowaitArguments]) -> Future[SendReceipt]: ...

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
    ) -> Future[SendReceipt]:
        """Begins a send and returns at once; the future has the receipt, or raises what ``send`` raises.

        ``callback(receipt, error)`` runs on a thread for callbacks. Those of the future itself run on the loop's thread
        and must be quick. ``queue`` or ``selector`` fix the queue, but no order in it. Messages with a sharding key are
        refused, as in ``pyromq.aio``.
        """
        if timeout is not None or options or type(message) is not Message or value is not NO_VALUE:
            timeout_ms = given_timeout_ms(timeout_ms, timeout)
            made = self.inner.values.made_now(message, value, options)
            message = made if made is not None else self._run(self.inner.values.made(message, value, options))
        thread, outcome = self._open_thread(), Future[SendReceipt]()
        waiter = _Relay(outcome)
        if callback is not None:
            outcome.add_done_callback(lambda done: thread.pool().submit(_call_back, callback, done))
        start = self._nowait
        if queue is not None or selector is not None:
            start = partial(self._nowait, queue=queue, selector=selector)
        thread.soon(self._begin, start, message, timeout_ms, waiter, [])
        return outcome

    def _nowait(
        self, message: Message, timeout_ms: int | None, **chosen: Unpack[ChosenQueue]
    ) -> asyncio.Future[SendReceipt]:
        return self.inner.send_nowait(message, timeout_ms=timeout_ms, **chosen)

    def _begin(
        self,
        start: Callable[[Message, int | None], asyncio.Future[SendReceipt]],
        message: Message,
        timeout_ms: int | None,
        waiter: Waiter[SendReceipt] | _Relay,
        begun: list[asyncio.Future[SendReceipt]],
    ) -> None:
        """On the loop: without a task, unless the message takes the slow path."""
        try:
            future = start(message, timeout_ms)
        except Exception as error:  # on the loop: the caller hears only what it is handed here
            waiter.fail(error)
        else:
            begun.append(future)
            future.add_done_callback(waiter.settle)

    send_oneway = blocking(aio_producer.Producer.send_oneway)
    send_batch = blocking(aio_producer.Producer.send_batch)
    request = blocking(aio_producer.Producer.request)
    reply = blocking(aio_producer.Producer.reply)


class _Relay:
    """Brings an outcome to a future of threads."""

    def __init__(self, outcome: Future[SendReceipt]) -> None:
        self._outcome = outcome

    def settle(self, future: asyncio.Future[SendReceipt]) -> None:
        if future.cancelled():
            self.fail(ClientClosedError("the client was closed before the send was over"))
        elif (error := future.exception()) is not None:
            self.fail(error)
        elif self._outcome.set_running_or_notify_cancel():
            self._outcome.set_result(future.result())

    def fail(self, error: BaseException) -> None:
        if self._outcome.set_running_or_notify_cancel():
            self._outcome.set_exception(error)


def _call_back(callback: SendCallback, outcome: Future[SendReceipt]) -> None:
    """On a thread for callbacks."""
    error = None if outcome.cancelled() else outcome.exception()
    try:
        callback(None if error or outcome.cancelled() else outcome.result(), error)
    except Exception:  # the callback is the application's, and no caller is left to hear of it
        logger.exception("callback of a send failed")
