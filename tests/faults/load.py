"""The load of a round: every kind of message at once, and a ledger for each kind.

    plain          eight lanes; a concurrent consumer that fails with some: they are retried, and some of them die
    ordered        a lane for each queue, one message after the other; an orderly consumer, whose order is checked
    delayed        levels and times of their own
    transactions   most are committed, some rolled back, some left to the check
    batch          several messages in one request

A send that was answered SEND_OK is *promised*. One that was answered FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE is
stored at the master, and nobody promised that a replica has it: it is counted apart. A timeline has the moment of every
acknowledgement, and of every first delivery.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from time import monotonic
from typing import Final

from pyromq.aio import (
    Admin,
    Message,
    MQError,
    Producer,
    PushConsumer,
    QueueId,
    ReceivedMessage,
    TransactionOutcome,
    TransactionProducer,
)
from pyromq.client.core.transaction import Transaction
from pyromq.errors import SendFailedError
from pyromq.net import Backoff
from pyromq.results import SendReceipt, SendStatus
from pyromq.settings import ClientSettings, ProducerSettings, PushConsumerSettings
from pyromq.wire.message_id import decode_offset_id
from tests.faults.times import Timeline
from tests.integration.ledger import Account, Ledger
from tests.integration.ledger_worker import ATTEMPTS_MAX, SETTINGS, is_to_fail
from tests.integration.waiting import until

BROKER: Final = "broker-a"
KINDS = PLAIN, ORDERED, DELAYED, TRANSACTIONS, BATCH = ("plain", "ordered", "delayed", "transactions", "batch")
QUEUES: Final = 4
GROUP, ORDERLY_GROUP = "billing", "ledgers"
SENT: Final = tuple(f"{name} sent" for name in KINDS)  # names in the timeline
READ: Final = (f"{PLAIN} read", f"{ORDERED} read")  # of a concurrent and of an orderly consumer
_LANES: Final = {PLAIN: 8, ORDERED: QUEUES, DELAYED: 4, TRANSACTIONS: 3, BATCH: 2}
_BATCH: Final = 5
_FAIL_PERCENT: Final = 8
_PAUSE_S: Final = 0.02  # between two sends of a lane: the fault is the test, not the rate
_EASY_PAUSE_S: Final = 0.05
_ATTEMPT_MS: Final = 5_000  # a busy machine is no broken one
_SEND_MS: Final = 15_000
_GROWTH_S: Final = 120
_EASY: Final = PushConsumerSettings(start="earliest", attempts_max=ATTEMPTS_MAX, persist_ms=500)


@dataclass
class Kind:
    """What is known of one kind of messages."""

    ledger: Ledger
    positions: dict[str, int] = field(default_factory=dict)  # of what was promised, in the log of its master
    apart: set[str] = field(default_factory=set)  # stored at a master, and not promised

    @property
    def promised(self) -> set[str]:
        return self.ledger.acknowledged


class Load:
    """``async with running_load(nameserver) as load``; sends while ``sending``, consumes all the time."""

    def __init__(self, nameserver: str, *, defaults: bool = False) -> None:
        """``defaults``: clients have the settings that they have when nobody gives any, and send a little slower."""
        self.nameserver = nameserver
        self._defaults = defaults
        self.timeline = Timeline()
        self.errors: list[str] = []  # of sends that nobody acknowledged
        self.unknown = 0  # ordered sends that lost their response: repeating them would be the sender's decision
        self.slowest_send_s = 0.0  # since somebody set it back
        self.kinds = {
            name: Kind(Ledger(nameserver, name, ORDERLY_GROUP if name == ORDERED else GROUP, doubt_s=0.0))
            for name in KINDS
        }
        self.outcomes: dict[str, TransactionOutcome] = {}  # stands for a database
        self.order: dict[bytes, list[tuple[int, str]]] = {}  # by lane: number and id of first deliveries
        self._numbers = count()
        self._sending = asyncio.Event()
        self._under_way = 0

    # --- what tests see ---

    def counts(self) -> Counter[str]:
        """Promised so far, by kind."""
        return Counter({name: len(kind.promised) for name, kind in self.kinds.items()})

    @property
    def acknowledged(self) -> int:
        """Sends that were answered with any of the three statuses."""
        return sum(len(kind.promised) + len(kind.apart) for kind in self.kinds.values())

    async def grows(self, each: int, *, promised: bool = True) -> None:
        """Until of every kind so many more were acknowledged. Transactions are promised, or not there."""
        before = {name: self._known(name, promised) for name in KINDS}
        wanted = [name for name in KINDS if promised or name != TRANSACTIONS]
        await until(
            lambda: all(self._known(name, promised) >= before[name] + each for name in wanted),
            f"{each} more of every kind",
            _GROWTH_S,
        )

    def _known(self, name: str, promised: bool) -> int:
        kind = self.kinds[name]
        return len(kind.promised) + (0 if promised else len(kind.apart))

    async def send_on(self) -> None:
        self._sending.set()

    async def pause(self) -> None:
        """No send is under way any more."""
        self._sending.clear()
        await until(lambda: not self._under_way, "sends end")

    async def settled(self, timeout_s: float, stored_ids: Callable[[], Awaitable[set[str]]]) -> dict[str, Account]:
        """The account of each kind, once everything is consumed or dead, or time is over; the load must pause.

        What is missing is looked for until then, unless nothing is on its way and the master's log does not have it.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        while True:
            found = await self._accounts(until_s)
            if all(each.is_settled for each in found.values()) or loop.time() > until_s:
                return found
            lost = {each for account in found.values() for each in account.lost}
            if lost and not any(account.on_the_way for account in found.values()) and not lost & await stored_ids():
                return found
            await asyncio.sleep(0.1)

    async def _accounts(self, until_s: float) -> dict[str, Account]:
        """A master that name servers do not know yet is waited for."""
        while True:
            try:
                return {name: await kind.ledger.account() for name, kind in self.kinds.items()}
            except MQError:
                if asyncio.get_running_loop().time() > until_s:
                    raise
            await asyncio.sleep(0.1)

    def out_of_order(self) -> list[str]:
        """Of acknowledged messages: those that an orderly listener got for the first time after a later one."""
        found, promised = [], self.kinds[ORDERED].promised
        for lane, deliveries in self.order.items():
            highest = -1
            for number, message_id in deliveries:
                if message_id in promised:
                    if number < highest:
                        found.append(f"{lane.decode()}: {number} after {highest}")
                    highest = max(highest, number)
        return found

    async def delayed_twice(self) -> int:
        """How often delayed messages came to their topic again."""
        found: Counter[str] = Counter()
        async with Admin(self.nameserver) as admin:
            for queue, place in (await admin.topics.stats(DELAYED)).items():
                async for message in admin.messages.walk(queue, place.min_offset, place.max_offset):
                    found[message.message_id] += 1
        return found.total() - len(found)

    def wrongly_seen(self) -> set[str]:
        """Messages that were rolled back and reached a listener."""
        rolled_back = {each for each, outcome in self.outcomes.items() if outcome is TransactionOutcome.ROLLBACK}
        return rolled_back & self.kinds[TRANSACTIONS].ledger.consumed.keys()

    # --- senders ---

    def _note(self, kind: Kind, receipt: SendReceipt) -> None:
        if receipt.status is SendStatus.SEND_OK:
            kind.promised.add(receipt.message_id)
            kind.apart.discard(receipt.message_id)
            kind.positions[receipt.message_id] = decode_offset_id(receipt.offset_message_id)[1]
        elif receipt.message_id not in kind.promised:
            kind.apart.add(receipt.message_id)

    async def _lane(self, name: str, send: Callable[[int], Awaitable[None]]) -> None:
        for number in self._numbers:
            await self._sending.wait()
            self._under_way += 1
            begun_s = monotonic()
            try:
                await send(number)
                self.timeline.note(f"{name} sent")
            except MQError as error:
                if name == ORDERED and isinstance(error, SendFailedError) and error.maybe_stored:
                    self.unknown += 1
                else:
                    took_s = monotonic() - begun_s
                    self.errors.append(f"{name}: {type(error).__name__} after {took_s:.1f} s: {error}")
            finally:
                self._under_way -= 1
                self.slowest_send_s = max(self.slowest_send_s, monotonic() - begun_s)
            await asyncio.sleep(_EASY_PAUSE_S if self._defaults else _PAUSE_S)

    async def send_plain(self, producer: Producer) -> None:
        kind = self.kinds[PLAIN]

        async def send(number: int) -> None:
            self._note(kind, await producer.send(Message(PLAIN, b"%d" % number + b"x" * (number * 37 % 700))))

        await self._lane(PLAIN, send)

    async def send_in_order(self, producer: Producer, lane: int) -> None:
        kind = self.kinds[ORDERED]

        async def send(number: int) -> None:
            queue = QueueId(ORDERED, BROKER, lane)
            self._note(kind, await producer.send(Message(ORDERED, b"%d %d" % (lane, number)), queue=queue))

        await self._lane(ORDERED, send)

    async def send_delayed(self, producer: Producer) -> None:
        kind = self.kinds[DELAYED]

        async def send(number: int) -> None:
            body = b"%d" % number
            message = (
                Message(DELAYED, body, delay_level=1 + number % 18)
                if number % 2
                else Message(DELAYED, body, delay_ms=50 + number % 700)
            )
            self._note(kind, await producer.send(message))

        await self._lane(DELAYED, send)

    async def send_transactions(self, producer: TransactionProducer) -> None:
        kind = self.kinds[TRANSACTIONS]

        async def execute(transaction: Transaction) -> TransactionOutcome:
            wanted = TransactionOutcome.COMMIT if transaction.argument % 4 else TransactionOutcome.ROLLBACK
            outcome = self.outcomes.setdefault(transaction.id, wanted)  # a check may have come first
            if outcome is TransactionOutcome.COMMIT:
                self._note(kind, transaction.prepared)
            return outcome if transaction.argument % 5 else TransactionOutcome.UNKNOWN

        async def send(number: int) -> None:
            how = {} if self._defaults else {"timeout_ms": _SEND_MS}
            await producer.send(Message(TRANSACTIONS, b"%d" % number), execute, number, **how)

        await self._lane(TRANSACTIONS, send)

    async def send_batches(self, producer: Producer) -> None:
        kind = self.kinds[BATCH]

        async def send(number: int) -> None:
            messages = [Message(BATCH, b"%d %d" % (number, each)) for each in range(_BATCH)]
            for receipt in await producer.send_batch(messages):
                self._note(kind, receipt)

        await self._lane(BATCH, send)

    async def check(self, message: ReceivedMessage) -> TransactionOutcome:
        """A transaction that never reached the database was not carried out."""
        return self.outcomes.setdefault(message.message_id, TransactionOutcome.ROLLBACK)

    # --- consumers ---

    async def consume(self, message: ReceivedMessage) -> None:
        if is_to_fail(message, _FAIL_PERCENT):
            raise ValueError("this one fails")
        consumed = self.kinds[message.topic].ledger.consumed
        if message.message_id not in consumed:
            self.timeline.note(f"{message.topic} read")
        consumed[message.message_id] += 1

    async def consume_in_order(self, message: ReceivedMessage) -> None:
        consumed = self.kinds[ORDERED].ledger.consumed
        if message.message_id not in consumed:
            self.timeline.note(f"{ORDERED} read")
            lane, number = message.body.split()
            self.order.setdefault(lane, []).append((int(number), message.message_id))
        consumed[message.message_id] += 1

    # --- its life ---

    def _client(self, name: str) -> ClientSettings:
        if self._defaults:
            return ClientSettings(nameservers=self.nameserver, instance_name=name)
        return ClientSettings(
            nameservers=self.nameserver,
            instance_name=name,
            heartbeat_ms=500,
            backoff=Backoff(first_ms=20, ceiling_ms=200),
        )

    def _producer(self) -> Producer:
        client = self._client("sender")
        if self._defaults:
            return Producer(client_settings=client, group="makers")
        settings = ProducerSettings(compress_from_bytes=1 << 20, attempt_timeout_ms=_ATTEMPT_MS)
        return Producer(client_settings=client, group="makers", settings=settings, timeout_ms=_SEND_MS)

    def _consumers(self) -> tuple[PushConsumer, PushConsumer]:
        settings, lock_ms = (_EASY, _EASY.lock_ms) if self._defaults else (SETTINGS, 300)
        concurrent = PushConsumer(
            listener=self.consume, settings=settings, client_settings=self._client("concurrent"), group=GROUP
        )
        for name in KINDS:
            if name != ORDERED:
                concurrent.subscribe(name)
        orderly = PushConsumer(
            listener=self.consume_in_order,
            settings=replace(settings, orderly=True, attempts_max=-1, lock_ms=lock_ms),
            client_settings=self._client("orderly"),
            group=ORDERLY_GROUP,
        )
        orderly.subscribe(ORDERED)
        return concurrent, orderly

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Load]:
        async with Admin(self.nameserver) as admin:
            for name in KINDS:
                await admin.topics.create(name, queues=QUEUES)
        async with AsyncExitStack() as stack:
            producer = await stack.enter_async_context(self._producer())
            transactions = await stack.enter_async_context(
                TransactionProducer(
                    client_settings=self._client("shop"), group="shop", topics=TRANSACTIONS, check=self.check
                )
            )
            for consumer in self._consumers():
                await stack.enter_async_context(consumer)
            lanes = [
                *(self.send_plain(producer) for _ in range(_LANES[PLAIN])),
                *(self.send_in_order(producer, lane) for lane in range(_LANES[ORDERED])),
                *(self.send_delayed(producer) for _ in range(_LANES[DELAYED])),
                *(self.send_transactions(transactions) for _ in range(_LANES[TRANSACTIONS])),
                *(self.send_batches(producer) for _ in range(_LANES[BATCH])),
            ]
            tasks = [asyncio.ensure_future(lane) for lane in lanes]
            try:
                yield self
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
