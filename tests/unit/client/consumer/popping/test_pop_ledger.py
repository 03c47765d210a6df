"""The ledger of popped messages: brokers are killed under load, and what clients were told stays true.

A broker in this process, on virtual time and on a disk that forgets what was not flushed, is killed while
producers send, simple consumers acknowledge one by one and a push consumer pops. ``PYROMQ_POP_KILLS`` says how often.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from pyromq.aio import Message, MQError, PushConsumer, ReceivedMessage, SimpleConsumer
from pyromq.broker.base.settings import BrokerSettings
from pyromq.store.settings import Flush
from pyromq.testing import FaultyDisk
from pyromq.testing.faulty_disk import CrashMode
from pyromq.testing.loopback import SMALL_FILES_IN_MEMORY
from tests.unit.client.consumer.popping.pop_world import TOPIC, World, in_world

pytestmark = pytest.mark.usefixtures("quiet")

KILLS = int(os.environ.get("PYROMQ_POP_KILLS", "4"))
KILLS_OF_A_LIFE = 25  # then a new broker: a log that only grows is slow to recover
SIMPLE, PUSH = "simple", "push"


class Book:
    """What clients were told: sends that were confirmed, and for each group what was received and acknowledged."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.maybe: set[bytes] = set()  # sent, and never answered
        self.seen: dict[str, Counter[bytes]] = {SIMPLE: Counter(), PUSH: Counter()}
        self.acked: set[bytes] = set()
        self.after_ack: list[bytes] = []

    def received(self, body: bytes) -> None:
        self.seen[SIMPLE][body] += 1
        if body in self.acked:
            self.after_ack.append(body)

    def missing(self, group: str) -> set[bytes]:
        return self.sent - self.seen[group].keys()


async def send_on(world: World, book: Book, rng: Random) -> None:
    number = 0
    while True:
        number += 1
        body = b"%d-%d" % (number, rng.getrandbits(32))
        try:
            await world.producer.send(Message(TOPIC, body), timeout=20)
            book.sent.add(body)
        except MQError:
            book.maybe.add(body)
        await asyncio.sleep(rng.random() * 0.1)


async def receive_on(consumer: SimpleConsumer, book: Book, rng: Random) -> None:
    while True:
        try:
            for message in await consumer.receive(8, wait=2):
                book.received(message.body)
                match rng.randrange(10):
                    case 0:
                        await consumer.release(message)
                    case 1:
                        pass  # a consumer that forgot it
                    case _:
                        await consumer.ack(message)
                        book.acked.add(message.body)
        except MQError:
            await asyncio.sleep(0.1)


def test_nothing_is_lost_and_nothing_acknowledged_is_seen_again_when_brokers_are_killed(
    record_property: Callable[[str, object], None],
) -> None:
    promised = 0
    for start in range(0, KILLS, KILLS_OF_A_LIFE):
        kills, rng, book = min(KILLS_OF_A_LIFE, KILLS - start), Random(start), Book()

        async def live(world: World, kills: int = kills, rng: Random = rng, book: Book = book) -> None:
            def listen(message: ReceivedMessage) -> None:
                book.seen[PUSH][message.body] += 1

            simple = [
                SimpleConsumer(world.nameserver, group=SIMPLE, topics=TOPIC, start="earliest", invisible=5)
                for _ in range(2)
            ]
            push = PushConsumer(
                world.nameserver, group=PUSH, topics=TOPIC, listener=listen, start="earliest", mode="pop", threads=2
            )
            async with simple[0], simple[1], push:
                consuming = [asyncio.create_task(receive_on(each, book, rng)) for each in simple]
                sending = asyncio.create_task(send_on(world, book, rng))
                for _ in range(kills):
                    await asyncio.sleep(0.5 + rng.random() * 3)
                    await world.broker.crash(rng.choice(list(CrashMode)))
                sending.cancel()
                for _ in range(60):
                    await asyncio.sleep(2)
                    if not book.missing(SIMPLE) and not book.missing(PUSH) and book.sent <= book.acked:
                        break
                await asyncio.sleep(20)  # nothing more may come
                for task in consuming:
                    task.cancel()
                await asyncio.gather(sending, *consuming, return_exceptions=True)

        store = replace(SMALL_FILES_IN_MEMORY, flush=Flush.SYNC)
        in_world(live, settings=BrokerSettings(store=store), disk=FaultyDisk())
        context = f"seed {start}, {kills} kills, {len(book.sent)} sent"
        assert len(book.sent) > 3 * kills, context
        for group in (SIMPLE, PUSH):
            assert not book.missing(group), f"{context}: {group} lost {sorted(book.missing(group))[:5]}"
        assert not book.after_ack, f"{context}: acknowledged and seen again {book.after_ack[:5]}"
        assert book.sent <= book.acked, context
        promised += len(book.sent) + len(book.acked)
    record_property("kills with popped messages", KILLS)
    record_property("promises checked", promised)
