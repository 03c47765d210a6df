"""Mixed load at a modest rate: every kind of producer and of consumer, on one event loop, with default settings.

    plain          ─▶ billing (push), reports (pull), tower-0 and tower-1 (broadcasting)
    batch          ─▶ billing, poppers (simple consumer), pop-push (push consumer that pops)
    ordered        ─▶ ledgers (orderly), in the order of its lanes
    delayed        ─▶ billing, not before they are due
    transactions   ─▶ billing, those that were committed

The listener of billing fails with some messages: they are retried, and some of them die. Simple consumers release some
messages and forget others, which come again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from pyromq.aio import (
    Admin,
    Message,
    MQError,
    Producer,
    PullConsumer,
    PushConsumer,
    QueueId,
    ReceivedMessage,
    SimpleConsumer,
    TransactionOutcome,
    TransactionProducer,
)
from pyromq.client.consumer.popping.leases import LeasedMessage
from pyromq.client.core.transaction import Transaction
from pyromq.errors import LeaseLostError, SendFailedError, TopicNotFoundError
from pyromq.model.names import dead_letter_topic
from pyromq.results import SendReceipt, SendStatus
from pyromq.settings import ClientSettings, PushConsumerSettings
from tests.faults.load import BROKER
from tests.grpc.consumer import popped_ms
from tests.integration.ledger_worker import ATTEMPTS_MAX, is_to_fail
from tests.integration.waiting import until
from tests.soak.book import DeliveryBook, OrderBook

KINDS = PLAIN, BATCH, ORDERED, DELAYED, TRANSACTIONS = ("plain", "batch", "ordered", "delayed", "transactions")
BILLING, REPORTS, POPPERS, POP_PUSH, LEDGERS = "billing", "reports", "poppers", "pop-push", "ledgers"
TOWERS: Final = ("tower-0", "tower-1")
EXPECTED: Final = {
    PLAIN: (BILLING, REPORTS, *TOWERS),
    BATCH: (BILLING, POPPERS, POP_PUSH),
    ORDERED: (LEDGERS,),
    DELAYED: (BILLING,),
    TRANSACTIONS: (BILLING,),
}
TIMED: Final = (REPORTS, LEDGERS, *TOWERS)  # groups whose messages come at once
QUEUES: Final = 4
_LANES: Final = {PLAIN: 4, BATCH: 1, ORDERED: 2, DELAYED: 2, TRANSACTIONS: 1}
_SHARES: Final = {PLAIN: 0.4, BATCH: 0.25, ORDERED: 0.15, DELAYED: 0.12, TRANSACTIONS: 0.08}  # of messages
_BATCH: Final = 5
_FAIL_PERCENT: Final = 6
_FORGOTTEN, _RELEASED = 0.02, 0.04
_EARLY_MS: Final = 100
K = TypeVar("K")
V = TypeVar("V")
_KEPT: Final = 20_000  # outcomes, acknowledgements and so on that are remembered: what is older is over


class Recent(dict[K, V]):
    """The last entries of a table; older ones are dropped, so that hours do not fill the memory."""

    def put(self, key: K, value: V) -> None:
        self[key] = value
        if len(self) > _KEPT:
            del self[next(iter(self))]


@dataclass(frozen=True, slots=True)
class Waits:
    """How long messages wait by intent."""

    delay_ms_max: int = 60_000
    levels: tuple[tuple[int, int], ...] = (
        (1, 1_000),
        (2, 5_000),
        (3, 10_000),
        (4, 30_000),
        (5, 60_000),
    )  # with their time
    invisible_s: float = 20.0  # what a simple consumer forgets comes again
    retry_level: int = 0  # of messages that fail; 0: the broker chooses


QUICK: Final = Waits(1_500, ((1, 1_000),), 3.0, 1)  # for runs of seconds


class SoakLoad:
    """``async with load.running()``; sends while ``send_on`` was called last, consumes all the time."""

    def __init__(
        self, nameserver: str, folder: Path, rate: float, rng: Random, book: DeliveryBook, waits: Waits
    ) -> None:
        """``rate``: messages a second, all kinds together."""
        self._waits = waits
        self.nameserver, self.book = nameserver, book
        self.order = OrderBook()
        self._folder, self._rate, self._rng = folder, rate, rng
        self._ordered_acks = Recent[str, None]()
        self._outcomes = Recent[str, TransactionOutcome]()
        self._popped = Recent[tuple[str, int, int], float]()  # acknowledged: topic, queue and offset; since when
        self._letters: dict[QueueId, int] = {}  # dead letters that were counted
        self._sending = asyncio.Event()
        self._under_way = 0
        self._last_s = dict.fromkeys(KINDS, time.monotonic())
        self.send_times_s: deque[float] = deque(maxlen=_KEPT)  # since they were taken
        self.longest_gap_s = 0.0  # without an acknowledgement of some kind, since it was set back
        self.one_copy = 0  # answered FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE, or without an answer and so on
        self.unknown = 0  # ordered sends that lost their response
        self.failed: Counter[str] = Counter()  # sends that ended with an error, by kind and error
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()  # of what is worth a column

    # --- what the run asks ---

    def send_on(self) -> None:
        now_s = time.monotonic()
        self._last_s = dict.fromkeys(KINDS, now_s)
        self._sending.set()

    async def pause(self) -> None:
        """No send is under way any more."""
        self._sending.clear()
        await until(lambda: not self._under_way, "sends end")

    async def grow(self, each: int = 3, timeout_s: float = 120.0) -> None:
        """Until so many more of every kind were acknowledged. Raises AssertionError."""
        wanted = {kind: self.book.acknowledged[kind] + each for kind in KINDS}
        acknowledged = self.book.acknowledged
        await until(
            lambda: all(acknowledged[kind] >= count for kind, count in wanted.items()), "sends go on", timeout_s
        )

    def judge_order(self) -> None:
        self.problems += [f"out of order: {each}" for each in self.order.judge(self._ordered_acks.__contains__)]

    async def count_letters(self) -> None:
        """Dead letters that came since: their messages are not waited for."""
        async with Admin(self.nameserver) as admin:
            try:
                stats = await admin.topics.stats(dead_letter_topic(BILLING))
            except (TopicNotFoundError, MQError):
                return
            for queue, held in stats.items():
                begin = max(self._letters.get(queue, 0), held.min_offset)
                async for message in admin.messages.walk(queue, begin, held.max_offset):
                    self.book.bury(BILLING, message.message_id)
                self._letters[queue] = held.max_offset

    # --- senders ---

    def _note(self, kind: str, receipt: SendReceipt) -> None:
        if receipt.status is not SendStatus.SEND_OK:
            self.one_copy += 1
            return
        if kind == ORDERED:
            self._ordered_acks.put(receipt.message_id, None)
        self.book.acknowledge(kind, receipt.message_id)

    async def _lane(self, kind: str, send: Callable[[int], Awaitable[None]]) -> None:
        messages_a_send = _BATCH if kind == BATCH else 1
        pause_s = _LANES[kind] * messages_a_send / (self._rate * _SHARES[kind])
        number = 0
        await asyncio.sleep(self._rng.random() * pause_s)
        while True:
            await self._sending.wait()
            begun_s = time.monotonic()
            self._under_way += 1
            try:
                await send(number)
                self._sent(kind, begun_s)
            except MQError as error:
                self._failed(kind, error)
            finally:
                self._under_way -= 1
            number += 1
            await asyncio.sleep(max(0.0, pause_s * self._rng.uniform(0.7, 1.3) - (time.monotonic() - begun_s)))

    def _sent(self, kind: str, begun_s: float) -> None:
        now_s = time.monotonic()
        self.send_times_s.append(now_s - begun_s)
        self.longest_gap_s = max(self.longest_gap_s, now_s - self._last_s[kind])
        self._last_s[kind] = now_s

    def _failed(self, kind: str, error: MQError) -> None:
        if kind == ORDERED and isinstance(error, SendFailedError) and error.maybe_stored:
            self.unknown += 1
        else:
            self.failed[f"{kind}: {type(error).__name__}"] += 1

    async def _send_plain(self, producer: Producer) -> None:
        async def send(number: int) -> None:
            body = b"%d " % number + b"x" * self._rng.randrange(700)
            self._note(PLAIN, await producer.send(Message(PLAIN, body, tags="new")))

        await self._lane(PLAIN, send)

    async def _send_ordered(self, producer: Producer, lane: int) -> None:
        async def send(number: int) -> None:
            queue = QueueId(ORDERED, BROKER, lane)
            self._note(ORDERED, await producer.send(Message(ORDERED, b"%d %d" % (lane, number)), queue=queue))

        await self._lane(ORDERED, send)

    async def _send_delayed(self, producer: Producer) -> None:
        async def send(number: int) -> None:
            level, level_ms = self._rng.choice(self._waits.levels)
            delay_ms = self._rng.randrange(200, self._waits.delay_ms_max)
            wait_ms = delay_ms if number % 2 else level_ms
            body = b"%d" % (time.time_ns() // 1_000_000 + wait_ms)
            message = (
                Message(DELAYED, body, delay_ms=delay_ms) if number % 2 else Message(DELAYED, body, delay_level=level)
            )
            self._note(DELAYED, await producer.send(message))

        await self._lane(DELAYED, send)

    async def _send_batches(self, producer: Producer) -> None:
        async def send(number: int) -> None:
            messages = [Message(BATCH, b"%d %d" % (number, each) + b"y" * 200) for each in range(_BATCH)]
            for receipt in await producer.send_batch(messages):
                self._note(BATCH, receipt)

        await self._lane(BATCH, send)

    async def _send_transactions(self, producer: TransactionProducer) -> None:
        async def execute(transaction: Transaction) -> TransactionOutcome:
            wanted = TransactionOutcome.COMMIT if transaction.argument % 4 else TransactionOutcome.ROLLBACK
            if transaction.id not in self._outcomes:  # a check may have come first
                self._outcomes.put(transaction.id, wanted)
            outcome = self._outcomes[transaction.id]
            if outcome is TransactionOutcome.COMMIT:
                self._note(TRANSACTIONS, transaction.prepared)
            return outcome if transaction.argument % 5 else TransactionOutcome.UNKNOWN

        async def send(number: int) -> None:
            await producer.send(Message(TRANSACTIONS, b"%d" % number), execute, number)

        await self._lane(TRANSACTIONS, send)

    async def _check(self, message: ReceivedMessage) -> TransactionOutcome:
        """A transaction that never reached the database was not carried out."""
        if message.message_id not in self._outcomes:
            self._outcomes.put(message.message_id, TransactionOutcome.ROLLBACK)
        return self._outcomes[message.message_id]

    # --- consumers ---

    async def _bill(self, message: ReceivedMessage) -> None:
        if message.topic == DELAYED and time.time_ns() // 1_000_000 < int(message.body) - _EARLY_MS:
            self.problems.append(f"delayed, and early: {message.message_id}")
        if message.topic == TRANSACTIONS and self._outcomes.get(message.message_id) is TransactionOutcome.ROLLBACK:
            self.problems.append(f"rolled back, and seen: {message.message_id}")
        if is_to_fail(message, _FAIL_PERCENT):
            self.counts["failed deliveries"] += 1
            raise ValueError("this one fails")
        self.book.deliver(BILLING, message.message_id)

    async def _file(self, message: ReceivedMessage) -> None:
        lane, number = message.body.decode().split()
        self.order.deliver(lane, int(number), message.message_id)
        self.book.deliver(LEDGERS, message.message_id)

    def _listener(self, group: str) -> Callable[[ReceivedMessage], Awaitable[None]]:
        async def listen(message: ReceivedMessage) -> None:
            self.book.deliver(group, message.message_id)

        return listen

    async def _poll(self, consumer: PullConsumer) -> None:
        while True:
            try:
                for message in await consumer.poll():
                    self.book.deliver(REPORTS, message.message_id)
            except MQError as error:
                self.counts[f"poll: {type(error).__name__}"] += 1
                await asyncio.sleep(1)

    async def _receive(self, consumer: SimpleConsumer) -> None:
        while True:
            try:
                for message in await consumer.receive(16, wait=10):
                    place = message.topic, message.queue_id, message.offset
                    popped_s, acked_s = popped_ms(message.receipt) / 1000, self._popped.get(place)
                    if acked_s is not None and popped_s > acked_s + 0.001:
                        self.problems.append(f"acknowledged, and popped again: {place} {message.message_id}")
                    luck = self._rng.random()
                    if luck < _FORGOTTEN:
                        continue
                    if luck < _RELEASED:
                        await consumer.release(message)
                        continue
                    await self._acknowledge(consumer, message)
                    self._popped.put(place, time.time())
            except LeaseLostError:
                self.counts["leases of pops lost"] += 1
            except MQError as error:
                self.counts[f"receive: {type(error).__name__}"] += 1
                await asyncio.sleep(1)

    async def _acknowledge(self, consumer: SimpleConsumer, message: LeasedMessage) -> None:
        """An acknowledgement whose response was lost may have been made: then the message does not come again."""
        try:
            await consumer.ack(message)
        except LeaseLostError:
            raise  # it comes again
        except MQError:
            self.book.deliver(POPPERS, message.message_id)
            raise
        self.book.deliver(POPPERS, message.message_id)

    # --- its life ---

    def _client(self, name: str) -> ClientSettings:
        return ClientSettings(nameservers=self.nameserver, instance_name=name)

    def _consumers(self) -> list[PushConsumer]:
        level = self._waits.retry_level
        levels = dict.fromkeys(range(1, ATTEMPTS_MAX + 1), level) if level else {}
        attempts = PushConsumerSettings(start="earliest", attempts_max=ATTEMPTS_MAX, retry_levels=levels)
        billing = PushConsumer(
            listener=self._bill, settings=attempts, client_settings=self._client(BILLING), group=BILLING
        )
        for kind in (PLAIN, BATCH, DELAYED, TRANSACTIONS):
            billing.subscribe(kind)
        ledgers = PushConsumer(
            listener=self._file,
            settings=PushConsumerSettings(start="earliest", orderly=True),
            client_settings=self._client(LEDGERS),
            group=LEDGERS,
            topics=ORDERED,
        )
        popping = PushConsumer(
            listener=self._listener(POP_PUSH),
            settings=PushConsumerSettings(start="earliest", mode="pop"),
            client_settings=self._client(POP_PUSH),
            group=POP_PUSH,
            topics=BATCH,
        )
        towers = [
            PushConsumer(
                listener=self._listener(tower),
                settings=PushConsumerSettings(start="earliest", broadcast=True, offsets_folder=self._folder / tower),
                client_settings=self._client(tower),
                group="towers",
                topics=PLAIN,
            )
            for tower in TOWERS
        ]
        return [billing, ledgers, popping, *towers]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Clients of every kind; one that ends by itself is noted as a problem."""
        async with Admin(self.nameserver) as admin:
            for kind in KINDS:
                await admin.topics.create(kind, queues=QUEUES)
        async with AsyncExitStack() as stack:
            producer = await stack.enter_async_context(Producer(client_settings=self._client("shop"), group="shop"))
            transactions = await stack.enter_async_context(
                TransactionProducer(
                    client_settings=self._client("bank"), group="bank", topics=TRANSACTIONS, check=self._check
                )
            )
            for consumer in self._consumers():
                await stack.enter_async_context(consumer)
            reports = await stack.enter_async_context(
                PullConsumer(client_settings=self._client(REPORTS), group=REPORTS, topics=PLAIN, start="earliest")
            )
            poppers = await stack.enter_async_context(
                SimpleConsumer(
                    client_settings=self._client(POPPERS),
                    group=POPPERS,
                    topics=BATCH,
                    start="earliest",
                    invisible=self._waits.invisible_s,
                )
            )
            work = [
                *(self._send_plain(producer) for _ in range(_LANES[PLAIN])),
                *(self._send_ordered(producer, lane) for lane in range(_LANES[ORDERED])),
                *(self._send_delayed(producer) for _ in range(_LANES[DELAYED])),
                *(self._send_transactions(transactions) for _ in range(_LANES[TRANSACTIONS])),
                *(self._send_batches(producer) for _ in range(_LANES[BATCH])),
                self._poll(reports),
                self._receive(poppers),
            ]
            tasks = [asyncio.ensure_future(each) for each in work]
            for task in tasks:
                task.add_done_callback(self._ended)
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Future[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.problems.append(f"a client ended: {error!r}")
