"""What the tests here build on: tables on a disk in memory, heartbeats, connections that only write down."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, cast

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.state.filters import Filters
from pyromq.broker.state.groups import Groups
from pyromq.broker.state.locks import QueueLocks
from pyromq.broker.state.members import Members
from pyromq.broker.state.progress import Progress
from pyromq.broker.state.tables import Tables
from pyromq.broker.state.topics import Topics
from pyromq.clock import Clock
from pyromq.net import Connection
from pyromq.store.tables.filter_table import FilterTable
from pyromq.store.tables.groups import GroupTable
from pyromq.store.tables.offsets import OffsetTable
from pyromq.store.tables.topics import TopicTable
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.command import Command, decode_command
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.json.heartbeat import ConsumerData, Heartbeat, ProducerData, Subscription
from pyromq.wire.received import CommandFlag, Received

ROOT = Path("/data")


class Wire:
    """A connection that keeps what is sent on it."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def send(self, frame: bytes) -> None:
        self.frames.append(frame)

    def queue(self, frames: bytes, count: int = 1) -> bool:
        self.send(frames)
        return False

    def send_now(self, frames: bytes, count: int = 1) -> None:
        self.send(frames)

    def flush(self) -> None:
        return

    @property
    def as_connection(self) -> Connection:
        return cast(Connection, self)

    @property
    def responses(self) -> list[Command]:
        return [decode_command(frame) for frame in FrameDecoder().feed(b"".join(self.frames))]

    @property
    def codes(self) -> list[int]:
        return [response.code for response in self.responses]


def request(number: int = 0, *, oneway: bool = False, header: Any = None) -> Received[Any]:
    flag = int(CommandFlag.ONEWAY) if oneway else 0
    return Received(code=310, header=header, correlation_id=number, flag=flag)


def topics(settings: BrokerSettings | None = None, *, disk: FaultyDisk | None = None) -> tuple[Topics, list[str]]:
    """The topics of a new broker, and a list that grows with every change it is told of."""
    changes: list[str] = []
    table = TopicTable.load(disk or FaultyDisk(), ROOT)
    made = Topics(table, settings or BrokerSettings(), ManualClock())
    made.create_system_topics()
    made.on_change = lambda: changes.append("changed")
    return made, changes


def groups(settings: BrokerSettings | None = None, *, disk: FaultyDisk | None = None) -> Groups:
    return Groups(GroupTable.load(disk or FaultyDisk(), ROOT), settings or BrokerSettings(), ManualClock())


def progress(*, disk: FaultyDisk | None = None) -> Progress:
    return Progress(OffsetTable.load(disk or FaultyDisk(), ROOT), ManualClock())


def tables(**known: Any) -> Tables:
    """Those of a new broker, except for those given."""
    clock = ManualClock()
    empty: dict[str, Any] = {
        "topics": topics()[0],
        "groups": groups(),
        "progress": progress(),
        "filters": Filters(FilterTable.load(FaultyDisk(), ROOT), clock),
        "members": Members(clock),
        "locks": QueueLocks(clock),
    }
    return Tables(**empty | known)


def environment(
    settings: BrokerSettings | None = None, clock: Clock | None = None, disk: FaultyDisk | None = None
) -> Environment:
    return Environment(
        settings=settings or BrokerSettings(), clock=clock or ManualClock(), disk=disk or FaultyDisk(), rng=Random(0)
    )


def heartbeat(client_id: str, *topics: str, group: str = "readers", version: int = 1, **fields: Any) -> Heartbeat:
    """Of a consumer; ``topic:expression`` subscribes to a part of it."""
    pairs = [topic.partition(":") for topic in topics]
    wanted = tuple(Subscription(topic=name, sub_string=text or "*", sub_version=version) for name, _, text in pairs)
    data = ConsumerData(group_name=group, subscription_data_set=wanted)
    return Heartbeat(client_id=client_id, consumer_data_set=(data,), **fields)


def producer_heartbeat(client_id: str, *names: str) -> Heartbeat:
    return Heartbeat(client_id=client_id, producer_data_set=tuple(ProducerData(group_name=name) for name in names))
