"""Store and forward: a producer whose failed sends are kept in the application's database and sent later.

    send ──▶ a broker confirms ──▶ SendReceipt
       └──▶ none can now ──▶ row of the outbox, committed ──▶ KeptReceipt ··· forwarder ──▶ broker ──▶ row deleted

A message never overtakes those of its lane (topic, or topic and sharding key) that this process kept before: it is kept
behind them. The same forwarder sends what ``Outbox.begin`` committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Self, Unpack, overload

import msgspec

from pyromq.client.core.client import Client as AsyncClient
from pyromq.client.core.options import SendOptions
from pyromq.client.core.settings import ProducerSettings
from pyromq.client.producer.producer import Producer
from pyromq.client.producer.send_arguments import TimeLimit, ValueRequestArguments
from pyromq.client.sync.faces import Client, Face, blocking, inner_client
from pyromq.errors import ClientClosedError, ConfigError, MQError
from pyromq.model.message import Message, SendReceipt
from pyromq.model.times import Span, given_ms, given_timeout_ms
from pyromq.outbox.forwarder import LEASE_MS, POLL_MS, Forwarder, may_be_taken_later
from pyromq.outbox.kept import KeptMessage, OutboxFullError, lane_of
from pyromq.outbox.outbox import Outbox
from pyromq.typed.messages import NO_VALUE, MessageOptions

logger = logging.getLogger(__name__)

_LANES_MAX: Final = 1 << 20  # of the messages that wait when a producer is opened


class KeptReceipt(msgspec.Struct, frozen=True):
    """No broker has the message yet: it is kept in the outbox under ``id`` and will be sent later.

    ``error`` is what its send failed with; None when it was not tried, because others of its topic or sharding key
    wait before it. If ``error.maybe_stored``, consumers may see the message twice.
    """

    id: str
    topic: str
    kept_ms: int
    error: MQError | None = None


class ForwardingCounts(msgspec.Struct, frozen=True):
    """Since the producer was made: ``sent`` at once, ``kept`` for later, kept ones ``forwarded``, ``refused`` ones."""

    sent: int
    kept: int
    forwarded: int
    refused: int


class AsyncForwardingProducer:
    """``ForwardingProducer`` for asyncio: ``async with``, and every method awaited."""

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str,
        outbox: Outbox,
        poll_ms: int = POLL_MS,
        settings: ProducerSettings | None = None,
        client: AsyncClient | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        if not isinstance(outbox, Outbox):
            raise ConfigError(f"outbox must be an Outbox, not {type(outbox).__name__}")
        if poll_ms < 1:
            raise ConfigError(f"poll_ms must be positive: {poll_ms}")
        self.outbox = outbox
        settings = settings or ProducerSettings(restart_wait_ms=0)  # what a broker cannot take now is kept instead
        self.producer = Producer(nameservers, group=group, settings=settings, client=client, **options)
        self._poll_ms = poll_ms
        self._forwarder: Forwarder | None = None
        self._closed: Forwarder | None = None
        self._stop_listening: Callable[[], None] | None = None
        self._lanes: set[str] = set()  # in which this process may have kept messages
        self._sent = self._kept = 0

    # --- life ---

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def open(self) -> Self:
        """Creates the tables, and begins to forward. Raises what the database and ``Producer.open`` raise."""
        await asyncio.to_thread(self.outbox.create)
        self._lanes.update(await asyncio.to_thread(self.outbox.kept.lanes, _LANES_MAX))
        await self.producer.open()
        loop = asyncio.get_running_loop()
        lease_ms = max(LEASE_MS, 4 * self.producer.settings.longest_ms)
        clock = self.producer.client.clock
        forwarder = Forwarder(self.outbox.kept, self.producer.send, clock, poll_ms=self._poll_ms, lease_ms=lease_ms)

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(forwarder.wake)

        self._stop_listening = self.outbox.on_kept(wake)
        forwarder.start()
        self._forwarder = forwarder
        return self

    async def close(self) -> None:
        """First the forwarder, then the producer. What still waits is sent by another process, or the next time."""
        forwarder, self._forwarder = self._forwarder, None
        if forwarder is None:
            return
        self._closed = forwarder
        if self._stop_listening is not None:
            self._stop_listening()
        try:
            await forwarder.close()
        finally:
            await self.producer.close()

    # --- sending ---

    @overload
    async def send(self, message: Message, **how: Unpack[TimeLimit]) -> SendReceipt | KeptReceipt: ...

    @overload
    async def send(
        self, topic: str, value: object, /, **how: Unpack[ValueRequestArguments]
    ) -> SendReceipt | KeptReceipt: ...

    async def send(
        self,
        message: Any,
        value: object = NO_VALUE,
        *,
        timeout_ms: int | None = None,
        timeout: Span | None = None,
        **options: Unpack[MessageOptions],
    ) -> SendReceipt | KeptReceipt:
        """A message, or a topic and a value: a SendReceipt when a broker has it, a KeptReceipt when the outbox has it.

        Raises what ``Producer.send`` raises when no broker would ever take it (MessageRefusedError,
        NoPermissionError in a SendFailedError), OutboxFullError when there is no room to keep it, and the send's own
        error when the database fails, too.
        """
        self._require_open()
        timeout_ms = given_timeout_ms(timeout_ms, timeout)
        message = await self.producer.values.made(message, value, options)
        if (lane := lane_of(message)) in self._lanes:
            if await asyncio.to_thread(self.outbox.kept.is_waiting, lane):
                return await self._keep(message, None)
            self._lanes.discard(lane)
        try:
            receipt = await self.producer.send(message, timeout_ms=timeout_ms)
        except MQError as error:
            if not may_be_taken_later(error):
                raise
            return await self._keep(message, error)
        self._sent += 1
        return receipt

    async def flush(self, timeout_ms: int | None = None, *, timeout: Span | None = None) -> int:
        """Waits until nothing waits in the outbox, or the time is over; how many messages wait then.

        ``timeout`` is a timedelta, or seconds. Raises ConfigError without either.
        """
        timeout_ms = given_ms("timeout", timeout_ms, timeout)
        if timeout_ms is None:
            raise ConfigError("flush needs a time: flush(timeout=5)")
        forwarder = self._require_open()
        clock = self.producer.client.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        forwarder.retry_now()
        while (left := await self.waiting()) and (left_ms := deadline_ms - clock.monotonic_ms()) > 0:
            await forwarder.progress(min(left_ms, self._poll_ms))
        return left

    async def waiting(self) -> int:
        """How many messages wait in the outbox, those of other processes included."""
        return await asyncio.to_thread(self.outbox.kept.waiting)

    @property
    def counts(self) -> ForwardingCounts:
        forwarder = self._forwarder or self._closed
        forwarded, refused = (forwarder.forwarded, forwarder.refused) if forwarder else (0, 0)
        return ForwardingCounts(self._sent, self._kept, forwarded, refused)

    def _require_open(self) -> Forwarder:
        if self._forwarder is None:
            raise ClientClosedError("the ForwardingProducer is not open: use it inside its with block")
        return self._forwarder

    async def _keep(self, message: Message, error: MQError | None) -> KeptReceipt:
        self._lanes.add(lane_of(message))  # before the row is there: whoever asks meanwhile is behind it
        try:
            row = await asyncio.to_thread(self._write, message)
        except OutboxFullError as full:
            raise full from error
        except Exception as failure:  # any driver's
            if error is None:
                raise
            error.add_note(f"it could not be kept in the outbox either: {failure!r}")
            raise error from failure
        self._kept += 1
        if error is not None:
            logger.warning("send failed, message kept: topic=%s id=%s error=%s", message.topic, row.id, error)
        self.outbox.notify()
        return KeptReceipt(row.id, message.topic, row.kept_ms, error)

    def _write(self, message: Message) -> KeptMessage:
        with self.outbox.database.begin() as connection:
            return self.outbox.add(connection, message)[0]


class ForwardingProducer(Face[AsyncForwardingProducer]):
    """A producer with store and forward: what no broker can take now is kept in the outbox and sent in the background.

    ``with ForwardingProducer("10.0.0.1:9876", group="shop", outbox=Outbox("shop.db")) as producer``. ``send`` gives a
    SendReceipt, or a KeptReceipt when the message was kept. Kept messages are sent in order per topic, or per topic and
    sharding key, at least once, also after a restart, by one process at a time; it also sends what ``outbox.begin``
    committed, which it looks for every ``poll_ms``. The other arguments are those of ``Producer``.

    Raises ConfigError, InvalidNameError, and TypeError for an unknown option.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        group: str,
        outbox: Outbox,
        poll_ms: int = POLL_MS,
        settings: ProducerSettings | None = None,
        client: Client | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        inner = AsyncForwardingProducer(
            nameservers,
            group=group,
            outbox=outbox,
            poll_ms=poll_ms,
            settings=settings,
            client=inner_client(client),
            **options,
        )
        super().__init__(inner)
        self.outbox = outbox

    @property
    def counts(self) -> ForwardingCounts:
        return self.inner.counts

    send = blocking(AsyncForwardingProducer.send)
    flush = blocking(AsyncForwardingProducer.flush)
    waiting = blocking(AsyncForwardingProducer.waiting)
