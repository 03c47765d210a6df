"""What an app costs beside the bare PushConsumer: CPU of the consuming process per message, a broker beside it.

Messages of 100 bytes of JSON are consumed from the first to the last by a new group for each run; the best of some
rounds counts, and rounds of all variants are interleaved. What an annotation costs beside decoding by hand is a line
of its own: a bare consumer has annotations, too.
``python -m benchmarks.bench_app`` prints the difference and the goal.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec

from benchmarks.measure import Row, machine, print_rows
from pyromq import App, ReceivedMessage, aio
from pyromq.testing import ServerProcess

MESSAGES = 15_000
ROUNDS = 3
GOAL_US = 1.5
TOPIC = "bench"


class Order(msgspec.Struct):
    id: int
    customer: str
    items: list[str]
    total: float


BODY = msgspec.json.encode(Order(42, "somebody@example.org", ["apple", "pear", "plum"], 12.5)).ljust(100)
decode = msgspec.json.Decoder(Order).decode


class Counter:
    """CPU of this process from the first message to the last."""

    def __init__(self) -> None:
        self.count, self.began, self.cpu = 0, 0.0, 0.0
        self.done = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def tick(self) -> None:
        self.count += 1
        if self.count == 1:
            self.began = time.process_time()
        elif self.count == MESSAGES:
            self.cpu = time.process_time() - self.began
            self._loop.call_soon_threadsafe(self.done.set)


Variant = Callable[[str, str, Counter], Any]


def bare(listener: Callable[[Counter], Callable[..., Any]]) -> Variant:
    def start(nameserver: str, group: str, counter: Counter) -> Any:
        return aio.PushConsumer(
            nameserver, group=group, topics=TOPIC, start="earliest", listener=listener(counter), threads=1
        )

    return start


def with_app(listener: Callable[[Counter], Callable[..., Any]]) -> Variant:
    def start(nameserver: str, group: str, counter: Counter) -> Any:
        app = App(nameserver, name="bench")
        app.consume(TOPIC, group=group, start="earliest", threads=1)(listener(counter))
        return app

    return start


def by_hand(counter: Counter) -> Callable[..., Awaitable[None]]:
    async def listen(message: ReceivedMessage) -> None:
        decode(message.body)
        counter.tick()

    return listen


def typed(counter: Counter) -> Callable[..., Awaitable[None]]:
    async def listen(order: Order) -> None:
        counter.tick()

    return listen


def typed_and_more(counter: Counter) -> Callable[..., Awaitable[None]]:
    async def listen(order: Order, message: ReceivedMessage, producer: aio.Producer) -> None:
        counter.tick()

    return listen


def message_alone(counter: Counter) -> Callable[..., Awaitable[None]]:
    async def listen(message: ReceivedMessage) -> None:
        counter.tick()

    return listen


def function_typed(counter: Counter) -> Callable[..., None]:
    def listen(order: Order) -> None:
        counter.tick()

    return listen


VARIANTS: dict[str, Variant] = {
    "bare consumer, message": bare(message_alone),
    "app, message": with_app(message_alone),
    "bare consumer, body decoded by hand": bare(by_hand),
    "bare consumer, typed body": bare(typed),
    "app, typed body": with_app(typed),
    "app, typed body, message and producer": with_app(typed_and_more),
    "bare consumer, function on threads": bare(function_typed),
    "app, function on threads, typed body": with_app(function_typed),
}
BESIDE = {
    "app, message": "bare consumer, message",
    "app, typed body": "bare consumer, typed body",
    "app, typed body, message and producer": "bare consumer, typed body",
    "app, function on threads, typed body": "bare consumer, function on threads",
}


async def consume(nameserver: str, variant: Variant, group: str) -> float:
    counter = Counter()
    gc.collect()
    async with variant(nameserver, group, counter):
        await asyncio.wait_for(counter.done.wait(), 60)
    return counter.cpu / (MESSAGES - 1) * 1e6


@contextmanager
def server() -> Iterator[str]:
    with ServerProcess("up", "--set", "broker.store.flush=async") as broker:
        yield broker.nameserver


@asynccontextmanager
async def filled() -> AsyncIterator[str]:
    with server() as nameserver:
        async with aio.Admin(nameserver) as admin, aio.Producer(nameserver, group="makers") as producer:
            await admin.topics.create(TOPIC, queues=4)
            for _ in range(MESSAGES // 500):
                await producer.send_batch([aio.Message(TOPIC, BODY)] * 500)
        yield nameserver


async def costs() -> dict[str, float]:
    found: dict[str, float] = {}
    async with filled() as nameserver:
        for turn in range(ROUNDS):
            for at, (name, variant) in enumerate(VARIANTS.items()):
                cost = await consume(nameserver, variant, f"bench-{turn}-{at}")
                found[name] = min(cost, found.get(name, cost))
    return found


def rows() -> list[Row]:
    return [Row(name, cost, 1e6 / cost) for name, cost in asyncio.run(costs()).items()]


def main() -> None:
    found = rows()
    print(machine())
    print_rows((__doc__ or "").strip().splitlines()[0], found)
    by_name = {row.name: row.cpu_us for row in found}
    print(f"\nover the bare consumer (goal: at most {GOAL_US} µs)")
    for name, other in BESIDE.items():
        more = by_name[name] - by_name[other]
        ratio, verdict = by_name[name] / by_name[other], "ok" if more <= GOAL_US else "missed"
        print(f"  {name:42} {more:+6.2f} µs, {ratio:5.2f} times  {verdict}")
    hand = by_name["bare consumer, body decoded by hand"]
    print("\nan annotation beside decoding by hand, which an app and a bare consumer pay alike")
    for name in ("bare consumer, typed body", "app, typed body"):
        print(f"  {name:42} {by_name[name] - hand:+6.2f} µs")


if __name__ == "__main__":
    main()
