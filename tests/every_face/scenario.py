"""The scenario: groups in every state that operators ask about, on any cluster.

    CID_orders   19 of 20 messages consumed, one failed and due again, seven came since; its only member is away
    bills        five dead letters, two of them redriven; the member consumed the two
    news         broadcasts: one member consumed all six messages, the other stands at the fifth
    parcels      paused, with a member connected and three messages left
    mixed        two members with different tags: whoever gets a queue, some messages are lost to them
    steps        orderly, held up: the first of three messages fails again and again
    slow         flow control holds back its pulls: its listener has stood at the first of ten messages from the start
    picky        consumed ten messages with its tag; the last of the other ten, which it does not want, came after them
    pair         a consumer that is pushed to and one that polls, with the same topic and tag: they agree

Two messages wait for their time, one transaction is open. Numbers are known by construction: ``truth``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyromq import (
    Admin,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    TransactionOutcome,
    TransactionProducer,
)
from pyromq.errors import BrokerError
from pyromq.model.topic import GroupConfig
from pyromq.settings import FlowLimits, PushConsumerSettings
from pyromq.wire.trace import ConsumeEnded
from tests.integration.waiting import until_on_thread

TOPICS: Final = {
    **{"Orders": 2, "Bills": 1, "News": 1, "Parcels": 1, "Mixed": 2, "Steps": 1, "Slow": 1, "Picky": 1, "Pairs": 2},
    **{"Later": 1, "Promises": 1},
}
QUICK: Final = PushConsumerSettings(start="earliest", persist_ms=100, rebalance_ms=200)
DELAY_MS: Final = 3_600_000
ERROR: Final = "ValueError: no such customer"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTruth:
    """What is true of a group. Retries are a part of ``lag``; where members broadcast, the slowest counts."""

    members: int
    lag: int
    retrying: int = 0
    dead_letters: int = 0  # not redriven
    is_enabled: bool = True
    is_broadcast: bool = False
    disagreeing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is true of the whole cluster: groups, dead letters by group, delays, transactions."""

    groups: dict[str, GroupTruth]
    letters_total: dict[str, int]
    lag_of_members: dict[str, int]  # of the group that broadcasts, by instance name
    delayed: int = 2
    open_transactions: int = 1


TRUTH: Final = Truth(
    groups={
        "CID_orders": GroupTruth(members=0, lag=8, retrying=1),
        "bills": GroupTruth(members=1, lag=0, dead_letters=3),
        "news": GroupTruth(members=2, lag=2, is_broadcast=True),
        "parcels": GroupTruth(members=1, lag=3, is_enabled=False),
        "mixed": GroupTruth(members=2, lag=0, disagreeing=1),
        "steps": GroupTruth(members=1, lag=3),
        "slow": GroupTruth(members=1, lag=10),
        "picky": GroupTruth(members=1, lag=0),
        "pair": GroupTruth(members=2, lag=0),
    },
    letters_total={"bills": 5},
    lag_of_members={"reader": 0, "stuck": 2},
)


@dataclass(slots=True)
class Scene:
    """The running scenario; ids of messages that are looked at one by one."""

    nameserver: str
    admin: Admin
    folder: Path
    redriven_id: str = ""  # a bill whose dead letter was redriven
    twice_id: str = ""  # news that both members consumed
    held_up_id: str = ""  # the step that fails
    delayed_id: str = ""
    prepared_id: str = ""
    _stack: ExitStack = field(default_factory=ExitStack)

    def push(self, group: str, topic: str, listener: Callable[[ReceivedMessage], Any], **options: Any) -> PushConsumer:
        """A member that runs until the scenario is over, or until it is closed."""
        options = {"settings": QUICK, "topics": topic, "threads": 1, "instance_name": f"{group}-1", **options}
        return self._stack.enter_context(PushConsumer(self.nameserver, group=group, listener=listener, **options))

    def send(self, topic: str, count: int, *, tags: str = "", **options: Any) -> list[str]:
        with Producer(self.nameserver, group="shop", **options) as producer:
            messages = [Message(topic, b"%d" % n, keys=f"{topic}-{n}", tags=tags) for n in range(count)]
            return [producer.send(message).message_id for message in messages]

    def lag(self, group: str) -> int:
        """As brokers know it."""
        held = self.admin.groups.lag(group).values()
        return sum(each.broker_offset - each.consumer_offset for each in held)

    def close(self) -> None:
        self._stack.close()


@contextmanager
def running_scenario(nameserver: str, folder: Path) -> Iterator[Scene]:
    """Everything has happened, and every number stands still, inside the block."""
    with Admin(nameserver) as admin:
        scene = Scene(nameserver, admin, folder)
        try:
            for topic, queues in TOPICS.items():
                admin.topics.create(topic, queues=queues)
            for group in TRUTH.groups:
                admin.groups.create(GroupConfig(group_name=group, retry_queue_nums=1))
            for step in (_orders, _bills, _news, _parcels, _mixed, _steps, _slow, _picky, _pair, _delays, _promise):
                step(scene)
            yield scene
        finally:
            scene.close()


def _orders(scene: Scene) -> None:
    seen: list[int] = []

    def fail_one(message: ReceivedMessage) -> None:
        seen.append(1)
        if message.keys == ("Orders-3",) and not message.delivery_attempt:
            raise ValueError("no such customer")

    scene.send("Orders", 20)
    consumer = scene.push("CID_orders", "Orders", fail_one)
    until_on_thread(lambda: len(seen) >= 20, "all orders are seen")
    until_on_thread(lambda: scene.lag("CID_orders") == 0, "orders are committed")
    consumer.close()
    scene.send("Orders", 7)
    until_on_thread(lambda: scene.lag("CID_orders") == 8, "the failed order is due again")


def _bills(scene: Scene) -> None:
    group, fails, seen = "bills", threading.Event(), list[str]()
    fails.set()

    def refuse(message: ReceivedMessage) -> None:
        seen.append(message.message_id)
        if fails.is_set():
            raise ValueError("no such customer")

    ids = scene.send("Bills", 5)
    scene.push(group, "Bills", refuse, attempts_max=0)
    letters = scene.admin.dead_letters
    until_on_thread(lambda: letters.count(group).total == 5, "five bills are dead")
    fails.clear()
    assert len(letters.redrive(group, count_max=2)) == 2
    until_on_thread(lambda: len(seen) == 7 and scene.lag(group) == 0, "two bills came again")
    redriven = {letter.message_id for letter in letters.list(group) if letter.is_redriven}
    scene.redriven_id = next(each for each in ids if each in redriven)


def _news(scene: Scene) -> None:
    seen: dict[str, int] = {"reader": 0, "stuck": 0}
    release = threading.Event()

    def reader(_: ReceivedMessage) -> None:
        seen["reader"] += 1

    def stuck(_: ReceivedMessage) -> None:
        seen["stuck"] += 1
        if seen["stuck"] == 5:
            release.wait()

    settings = PushConsumerSettings(
        start="earliest", persist_ms=100, rebalance_ms=200, broadcast=True, offsets_folder=scene.folder
    )
    options: dict[str, Any] = {"settings": settings, "trace": True}
    scene.push("news", "News", reader, instance_name="reader", **options)
    scene.push("news", "News", stuck, instance_name="stuck", **options)
    scene._stack.callback(release.set)  # before consumers are closed: they wait for their listeners
    scene.twice_id = scene.send("News", 6, trace=True)[0]
    until_on_thread(lambda: seen == {"reader": 6, "stuck": 5}, "all news are read, and one reader is stuck")
    until_on_thread(lambda: _times_traced(scene) == 2, "the trace tells of both readers")


def _times_traced(scene: Scene) -> int:
    """How often the trace says that the first news were consumed; packs of records leave every five seconds."""
    try:
        records = scene.admin.messages.trace(scene.twice_id)
    except BrokerError:
        return 0
    return sum(isinstance(record, ConsumeEnded) and record.is_success for record in records)


def _parcels(scene: Scene) -> None:
    scene.push("parcels", "Parcels", lambda _: None)
    until_on_thread(lambda: scene.admin.members.connections_if_any("parcels"), "the member of parcels is there")
    scene.admin.groups.pause("parcels")
    scene.send("Parcels", 3)
    until_on_thread(lambda: scene.lag("parcels") == 3, "parcels wait")


def _mixed(scene: Scene) -> None:
    scene.push("mixed", "", lambda _: None, topics={"Mixed": "a"}, instance_name="mixed-a")
    scene.push("mixed", "", lambda _: None, topics={"Mixed": "b"}, instance_name="mixed-b")
    until_on_thread(lambda: _members(scene, "mixed") == 2, "both members of mixed are there")


def _steps(scene: Scene) -> None:
    tries: list[int] = []

    def refuse(message: ReceivedMessage) -> None:
        tries.append(message.offset)
        raise ValueError("no such customer")

    scene.held_up_id = scene.send("Steps", 3)[0]
    settings = PushConsumerSettings(start="earliest", persist_ms=100, rebalance_ms=200, orderly=True, rest_ms=1_000)
    scene.push("steps", "Steps", refuse, settings=settings)
    until_on_thread(lambda: len(tries) >= 3, "the first step failed three times")


def _slow(scene: Scene) -> None:
    begun, release = threading.Event(), threading.Event()

    def stand_still(_: ReceivedMessage) -> None:
        begun.set()
        release.wait()

    scene.send("Slow", 10)
    settings = PushConsumerSettings(
        start="earliest", persist_ms=100, rebalance_ms=200, limits=FlowLimits(messages_max=2)
    )
    scene.push("slow", "Slow", stand_still, settings=settings)
    scene._stack.callback(release.set)
    until_on_thread(begun.is_set, "the first message is with its listener")
    until_on_thread(lambda: _held_pulls(scene, "slow"), "flow control holds back pulls")


def _picky(scene: Scene) -> None:
    seen: list[str] = []
    scene.push("picky", "", lambda message: seen.append(message.tags), topics={"Picky": "a"})
    with Producer(scene.nameserver, group="shop") as producer:
        for number in range(20):
            producer.send(Message("Picky", b"%d" % number, tags="ab"[number % 2]))
    until_on_thread(lambda: seen == ["a"] * 10 and scene.lag("picky") == 0, "what does not match is passed over")


def _pair(scene: Scene) -> None:
    scene.push("pair", "", lambda _: None, topics={"Pairs": "a"})
    polls = PullConsumer(scene.nameserver, group="pair", topics={"Pairs": "a"}, instance_name="pair-2")
    scene._stack.enter_context(polls)
    until_on_thread(lambda: _members(scene, "pair") == 2, "both members of the pair are there")


def _held_pulls(scene: Scene, group: str) -> int:
    return sum(sum(member.held_pulls.values()) for member in scene.admin.groups.describe(group).members)


def _delays(scene: Scene) -> None:
    with Producer(scene.nameserver, group="shop") as producer:
        sent = [producer.send(Message("Later", b"%d" % n, delay_ms=DELAY_MS)) for n in range(2)]
    scene.delayed_id = sent[0].message_id
    until_on_thread(lambda: len(scene.admin.delays.list()) == TRUTH.delayed, "both delays are scheduled")


def _promise(scene: Scene) -> None:
    def unknown(_: ReceivedMessage) -> TransactionOutcome:
        return TransactionOutcome.UNKNOWN

    producer = TransactionProducer(scene.nameserver, group="promisers", topics="Promises", check=unknown)
    scene._stack.enter_context(producer)
    receipt = producer.send(Message("Promises", b"1"), lambda *_: TransactionOutcome.UNKNOWN)
    scene.prepared_id = receipt.message_id
    until_on_thread(lambda: len(scene.admin.transactions.list()) == 1, "a transaction is open")


def _members(scene: Scene, group: str) -> int:
    found = scene.admin.members.connections_if_any(group)
    return len(found.connection_set) if found else 0
