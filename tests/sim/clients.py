"""Clients of a simulation: every kind of producer and consumer, each a process on a machine of its own.

A body is the key of its message, which no other message of the simulation has. What a client sends, what it is told of
that, and what listeners get and finish is written into the history at that very moment: it survives the client.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final
from zlib import crc32

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
from pyromq.client.core.transaction import Transaction
from pyromq.errors import SendFailedError
from pyromq.net import Backoff
from pyromq.outbox import Outbox
from pyromq.outbox.forwarding_producer import AsyncForwardingProducer, KeptReceipt
from pyromq.results import SendReceipt, SendStatus
from pyromq.settings import ClientSettings, ProducerSettings, PushConsumerSettings
from tests.sim.cluster import World
from tests.sim.credentials import CLIENTS, GUESTS_TOPIC
from tests.sim.history import Delivery, Sent
from tests.sim.loop import Process
from tests.sim.plan import LONG_DELAYS_S, POPPERS, ClientPlan
from tests.sim.poppers import Popper, pop_by_grpc, pop_by_remoting

TOPICS: Final = ("plain", "batch", "ordered", "delayed", "transactions", "outbox")
QUEUES: Final = 2
ATTEMPTS_MAX: Final = 4
GROUPS: Final = {
    "push": "work",
    "orderly": "line",
    "pull": "audit",
    "broadcast": "news",
    "pop": "pops",
    "popper": "pops4",
    "popper5": "pops5",
    "shared popper": "shared",
    "shared popper5": "shared",
}
READS: Final = {  # which topics each kind of consumer subscribes
    "push": ("plain", "batch", "delayed", "transactions", "outbox"),
    "orderly": ("ordered",),
    "pull": ("plain",),
    "broadcast": ("batch",),
    "pop": ("plain",),
    **dict.fromkeys(POPPERS, ("plain",)),
}
_INVISIBLE_S: Final = 12.0
_QUIET_GAPS: Final = 100  # what lies between two sends of a quiet phase, against those of a burst
_FOREVER: Final = 1 << 30
_BODY_PAD: Final = b"." * 40


def key_of(body: bytes) -> str:
    return body.partition(b"|")[0].decode(errors="replace")


def body_of(key: str) -> bytes:
    return key.encode() + b"|" + _BODY_PAD


def failures_of(key: str, percent: int) -> int:
    """How often listeners fail with a message: some once or twice, few always."""
    number = crc32(key.encode())
    return 0 if number % 100 >= percent else (1, 2, 1, 1, _FOREVER)[number // 100 % 5]


class SimClient:
    """One client, over all its lives."""

    def __init__(self, world: World, plan: ClientPlan, nameserver: str, scratch: Path) -> None:
        self.world = world
        self.plan = plan
        self.nameserver = nameserver
        self.machine = world.machine(plan.name, f"10.0.3.{plan.number + 1}")
        self.process: Process | None = None
        self._work: asyncio.Task[Any] | None = None
        self._is_stopping = False
        self.lives = 0
        self.is_sending = True
        self.in_burst = asyncio.Event()  # not set: little is sent
        self.in_burst.set()
        self.under_way = 0
        self._numbers = 0
        self._file = scratch / f"{plan.name}.db"
        self._offsets: dict[Any, int] = {}  # of a broadcasting consumer: they survive

    @property
    def is_producer(self) -> bool:
        return self.plan.kind in TOPICS

    def start(self) -> None:
        if self.process is not None:
            return
        self.lives += 1
        self._is_stopping = False
        self.under_way = 0
        self.process = self.world.process(f"{self.plan.name}.{self.lives}", self.machine)
        work: dict[str, Callable[[], Awaitable[None]]] = {
            "plain": self._send_plain,
            "batch": self._send_batches,
            "ordered": self._send_in_order,
            "delayed": self._send_delayed,
            "transactions": self._send_transactions,
            "outbox": self._send_by_outbox,
            "push": self._consume,
            "orderly": self._consume_in_order,
            "pull": self._pull,
            "broadcast": self._listen_to_all,
            "pop": self._pop,
            "popper": self._pop_by_remoting,
            "shared popper": self._pop_by_remoting,
            "popper5": self._pop_by_grpc,
            "shared popper5": self._pop_by_grpc,
        }
        self._work = self.world.loop.spawn(self.process, self._run(work[self.plan.kind]), self.plan.name)

    async def _run(self, work: Callable[[], Any]) -> None:
        while not self._is_stopping:
            try:
                await work()
                return
            except MQError as error:  # nobody could be reached at the start
                self.world.history.note("client starts again", self.plan.name, type(error).__name__)
                await asyncio.sleep(1.0)

    def kill(self) -> None:
        if self.process is not None:
            process, self.process = self.process, None
            self.world.kill(process)

    def stop(self) -> None:
        """In order: what it does is cancelled, and its producer or consumer closed."""
        process, work = self.process, self._work
        if process is None or work is None or self._is_stopping:
            return
        self._is_stopping = True

        def exits() -> None:
            if self.process is process:
                self.world.history.note("client stopped", self.plan.name)
                self.world.history.counts["stopped in order"] += 1
                self.kill()

        work.add_done_callback(lambda _: self.world.loop.call_for(None, self.world.loop.true_s, exits))
        work.cancel()

    def start_again(self) -> None:
        """If it has not ended yet it is killed."""
        if self._is_stopping:
            self.kill()
        self.start()

    # --- sending ---

    def _client(self) -> ClientSettings:
        return ClientSettings(
            nameservers=self.nameserver,
            instance_name=f"{self.plan.name}.{self.lives}",
            client_ip=self.machine.ip,
            credentials=CLIENTS if self.world.plan.has_access else None,
            **({} if self.world.plan.is_usual else {"heartbeat_ms": 5_000, "route_poll_ms": 5_000}),
            backoff=Backoff(first_ms=50, ceiling_ms=1_000),
        )

    def _producer(self) -> Producer:
        return Producer(client_settings=self._client(), group=f"makers-{self.plan.name}", settings=_SENDING)

    def _new(self, topic: str) -> Sent:
        self._numbers += 1
        key = f"{self.plan.name}.{self.lives}-{self._numbers}"
        sent = Sent(key, topic, self.plan.kind, self.world.loop.true_s)
        self.world.history.sent[key] = sent
        return sent

    def _message(self, sent: Sent, **more: Any) -> Message:
        return Message(sent.topic, body_of(sent.key), keys=[sent.key], **more)

    def _answered(self, sent: Sent, receipt: SendReceipt) -> None:
        sent.status = "ok" if receipt.status is SendStatus.SEND_OK else "stored"
        sent.message_id, sent.offset, sent.done_s = receipt.message_id, receipt.offset, self.world.loop.true_s
        sent.queue = (receipt.queue.topic, receipt.queue.broker, receipt.queue.number)
        self.world.history.note("sent", sent.key, sent.status, *sent.queue, sent.offset)
        if sent.status == "ok":
            self.world.witness.acknowledged(sent, receipt.offset_message_id, receipt.queue.broker)

    def _failed(self, sent: Sent, error: MQError) -> None:
        sent.status = "unknown" if not isinstance(error, SendFailedError) or error.maybe_stored else "refused"
        self.world.history.note("not sent", sent.key, sent.status, type(error).__name__)

    async def _pause(self) -> None:
        gap_s = self.world.loop.rng.expovariate(1 / self.plan.gap_s)
        await asyncio.sleep(gap_s)
        if not self.in_burst.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(gap_s * _QUIET_GAPS):
                    await self.in_burst.wait()
        while not self.is_sending:  # noqa: ASYNC110 - the simulator sets it from outside
            await asyncio.sleep(1.0)

    async def _send_each(self, send: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._pause()
            self.under_way += 1
            await send()
            self.under_way -= 1

    async def _send_plain(self) -> None:
        async with self._producer() as producer:

            async def send() -> None:
                sent = self._new("plain")
                await self._tried([sent], producer.send(self._message(sent)))

            await self._send_each(send)

    async def _tried(self, sent: list[Sent], sending: Awaitable[Any]) -> None:
        try:
            found = await sending
        except MQError as error:
            for each in sent:
                self._failed(each, error)
            return
        for each, receipt in zip(sent, found if isinstance(found, list) else [found], strict=True):
            self._answered(each, receipt)

    async def _send_batches(self) -> None:
        async with self._producer() as producer:

            async def send() -> None:
                sent = [self._new("batch") for _ in range(self.world.plan.batch)]
                await self._tried(sent, producer.send_batch([self._message(each) for each in sent]))

            await self._send_each(send)

    async def _send_in_order(self) -> None:
        async with self._producer() as producer:
            broker = next(iter(self.world.plan.sets))

            async def send() -> None:
                sent = self._new("ordered")
                lane = self._numbers % QUEUES
                sent.lane, sent.number = f"{self.plan.name}/{lane}", self._numbers
                queue = QueueId("ordered", broker, lane)
                await self._tried([sent], producer.send(self._message(sent), queue=queue))

            await self._send_each(send)

    async def _send_delayed(self) -> None:
        async with self._producer() as producer:

            async def send() -> None:
                sent = self._new("delayed")
                delay_s, properties = self._delay()
                sent.due_s = sent.at_s + delay_s
                await self._tried([sent], producer.send(self._message(sent, **properties)))
                sent.queue = None  # the place where it waits is not its own

            await self._send_each(send)

    def _delay(self) -> tuple[float, dict[str, int]]:
        """How long the next message waits at least, and what says so: a level or a time of its own, in turn."""
        longest_s = self.world.plan.delays_s
        if not longest_s:
            return (2.0, {"delay_level": 2}) if self._numbers % 2 else (5.0, {"delay_ms": 5_000})
        rng = Random(f"{self.world.plan.seed}/{self.plan.name}/{self._numbers}")
        if self._numbers % 2:
            level = rng.choice([at for at, lasts_s in enumerate(LONG_DELAYS_S, start=1) if lasts_s <= longest_s])
            return float(LONG_DELAYS_S[level - 1]), {"delay_level": level}
        delay_ms = round(1_000 * rng.uniform(1.0, longest_s))
        return delay_ms / 1_000, {"delay_ms": delay_ms}

    async def _send_transactions(self) -> None:
        history = self.world.history

        async def check(message: ReceivedMessage) -> TransactionOutcome:
            sent = history.sent[key_of(message.body)]
            if not sent.outcome:
                sent.outcome = "rollback"  # it never came to the database
            history.note("checked", sent.key, sent.outcome)
            return TransactionOutcome.COMMIT if sent.outcome == "commit" else TransactionOutcome.ROLLBACK

        async def execute(transaction: Transaction) -> TransactionOutcome:
            sent: Sent = transaction.argument
            if not sent.outcome:
                sent.outcome = "commit" if self._numbers % 4 else "rollback"
            if transaction.prepared.status is SendStatus.SEND_OK:
                sent.status = "ok"
            sent.message_id = transaction.id
            if self._numbers % 3 == 0:
                return TransactionOutcome.UNKNOWN
            return TransactionOutcome.COMMIT if sent.outcome == "commit" else TransactionOutcome.ROLLBACK

        async with TransactionProducer(
            client_settings=self._client(), group="tx", topics="transactions", check=check
        ) as producer:

            async def send() -> None:
                sent = self._new("transactions")
                sent.status = "refused"
                try:
                    await producer.send(self._message(sent), execute, sent)
                except MQError as error:
                    history.note("not sent", sent.key, sent.status, type(error).__name__)
                else:
                    history.note("sent", sent.key, sent.status, sent.outcome)

            await self._send_each(send)

    async def _send_by_outbox(self) -> None:
        outbox = Outbox(self._file)
        producer = AsyncForwardingProducer(client_settings=self._client(), group="outbox", outbox=outbox, poll_ms=500)
        self._note_lone_confirmations(producer.producer)
        async with producer:

            async def send() -> None:
                sent = self._new("outbox")
                try:
                    receipt = await producer.send(self._message(sent))
                except MQError as error:
                    self._failed(sent, error)
                    return
                if isinstance(receipt, KeptReceipt):
                    sent.status = "kept"
                    self.world.history.note("kept", sent.key)
                else:
                    self._answered(sent, receipt)

            await self._send_each(send)

    def _note_lone_confirmations(self, producer: Producer) -> None:
        """Of messages that an outbox sends by itself: nobody else hears how they were confirmed."""
        send, alone = producer.send, self.world.history.alone

        async def noted(message: Message, **how: Any) -> SendReceipt:
            receipt = await send(message, **how)
            if receipt.status is SendStatus.SLAVE_NOT_AVAILABLE:
                alone.add(key_of(message.body))
            return receipt

        producer.send = noted  # type: ignore[method-assign, assignment]

    # --- consuming ---

    def _got(self, message: ReceivedMessage, group: str) -> str:
        key = key_of(message.body)
        queue = (message.queue.topic, message.queue.broker, message.queue.number)
        history = self.world.history
        member = f"{self.plan.name}.{self.lives}"
        attempt = message.delivery_attempt
        history.deliveries.append(
            Delivery(key, group, member, self.world.loop.true_s, queue, message.offset, attempt, message.topic)
        )
        history.note("got", group, member, key, *queue, message.offset, attempt)
        self.world.witness.read(key, group, message)
        return key

    def _finished(self, key: str, group: str) -> None:
        self.world.history.consumed[group][key] += 1

    def _settings(self, **more: Any) -> PushConsumerSettings:
        if not self.world.plan.is_usual:
            more |= {"rebalance_ms": 5_000, "persist_ms": 2_000}
        return PushConsumerSettings(
            start="earliest",
            error_wait_ms=500,
            retry_wait_ms=500,
            attempts_max=ATTEMPTS_MAX,
            **more,
        )

    async def _listen(self, settings: PushConsumerSettings, **more: Any) -> None:
        group = GROUPS[self.plan.kind]
        percent = self.world.plan.fail_percent if self.plan.kind == "push" else 0

        async def listener(message: ReceivedMessage) -> None:
            key = self._got(message, group)
            if self.plan.kind != "broadcast":
                self.world.witness.begun(group, message)
            await asyncio.sleep(self.world.loop.rng.uniform(0.0, 0.05))
            self.world.witness.ended(group, message)
            failures = failures_of(key, percent)
            if self.world.plan.keeps_ms:
                failures = min(failures, 2)  # dead letters that nobody reads expire
            if message.delivery_attempt < failures:
                raise ValueError("this one fails")
            self._finished(key, group)

        consumer = PushConsumer(
            client_settings=self._client(), group=group, listener=listener, settings=settings, **more
        )
        for topic in READS[self.plan.kind]:
            consumer.subscribe(topic)
        async with consumer:
            await asyncio.Event().wait()

    async def _consume(self) -> None:
        await self._listen(self._settings())

    async def _consume_in_order(self) -> None:
        locks = {} if self.world.plan.is_usual else {"lock_ms": 5_000}
        await self._listen(self._settings(orderly=True, rest_ms=500, **locks))

    async def _listen_to_all(self) -> None:
        await self._listen(self._settings(broadcast=True), offset_store=_Offsets(self._offsets))

    async def _pull(self) -> None:
        group = GROUPS["pull"]
        async with PullConsumer(
            client_settings=self._client(), group=group, topics=READS["pull"], start="earliest"
        ) as consumer:
            while True:
                try:
                    for message in await consumer.poll(timeout_ms=3_000):
                        self._finished(self._got(message, group), group)
                except MQError as error:
                    self.world.history.note("poll failed", self.plan.name, type(error).__name__)
                    await asyncio.sleep(0.5)

    async def _pop(self) -> None:
        group = GROUPS["pop"]
        async with SimpleConsumer(
            client_settings=self._client(), group=group, topics=READS["pop"], start="earliest", invisible=_INVISIBLE_S
        ) as consumer:
            while True:
                try:
                    for message in await consumer.receive(8, wait=3.0):
                        self._finished(self._got(message, group), group)
                        await consumer.ack(message)
                except MQError as error:
                    self.world.history.note("pop failed", self.plan.name, type(error).__name__)
                    await asyncio.sleep(0.5)

    async def _pop_by_remoting(self) -> None:
        await pop_by_remoting(self._popper("remoting"), self._client())

    async def _pop_by_grpc(self) -> None:
        await pop_by_grpc(self._popper("gRPC"), f"{self.plan.name}.{self.lives}")

    def _popper(self, protocol: str) -> Popper:
        return Popper(self.world, self.plan.name, GROUPS[self.plan.kind], protocol, lambda: not self.is_sending)


class _Offsets:
    """Offsets of a broadcasting consumer, on its own machine."""

    def __init__(self, kept: dict[Any, int]) -> None:
        self._kept = kept

    async def load(self, queue: QueueId) -> int | None:
        return self._kept.get(queue)

    async def save(self, offsets: Any) -> None:
        self._kept.update(offsets)


_SENDING: Final = ProducerSettings(timeout_ms=6_000, attempt_timeout_ms=2_500, compress_from_bytes=1 << 20)


async def make_topics(nameserver: str, ip: str, sets: Collection[str], *, has_access: bool = False) -> None:
    """Until every broker set has every topic."""
    settings = ClientSettings(nameservers=nameserver, instance_name="operator", client_ip=ip)
    topics = (*TOPICS, GUESTS_TOPIC) if has_access else TOPICS
    left = [(topic, broker) for topic in topics for broker in sets]
    async with Admin(client_settings=settings) as admin:
        while left:
            try:
                await admin.topics.create(left[0][0], broker=left[0][1], queues=QUEUES)
                left.pop(0)
            except MQError:  # it is no master yet, or name servers do not know it
                await asyncio.sleep(0.3)


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """In memory where that can be: outboxes write often."""
    return tempfile.TemporaryDirectory(prefix="sim", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
