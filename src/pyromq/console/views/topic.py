"""One topic: its queues, who produces and consumes, its configuration on each broker, and changes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from pyromq.console.desk import NUMBERS_MS, Desk
from pyromq.console.views.brokers import require_broker
from pyromq.errors import BrokerError, GroupOfflineError, MQError, TopicNotFoundError, printable
from pyromq.model.names import dead_letter_topic
from pyromq.model.system_names import MESSAGE_TYPE, TopicKind, kind_of_topic, names_of_servers
from pyromq.model.topic import Perm, TopicConfig
from pyromq.operate.consumers.group_state import version_text
from pyromq.operate.topics import TopicTraffic

_MESSAGE_KINDS: Final = (
    *(TopicKind.NORMAL, TopicKind.FIFO, TopicKind.DELAY),
    *(TopicKind.TRANSACTION, TopicKind.MIXED),
)
GROUPS_SHOWN_MAX: Final = 20  # of one topic
QUEUES_MAX: Final = 65_536
QUEUES_DEFAULT: Final = 8
MESSAGE_TYPES: Final = ("", *(kind.value.upper() for kind in _MESSAGE_KINDS))


class TopicQueueView(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue holds: offsets of [first, end)."""

    broker: str
    queue: int
    first: int
    end: int
    messages: int
    rate: float | None
    """Messages a second, lately; None until the console has looked twice."""
    last_stored_ms: int


class ConsumerView(msgspec.Struct, frozen=True, kw_only=True):
    """A group that consumes the topic, or did. ``subscription`` is empty while no member is connected."""

    group: str
    lag: int = 0
    members: int = 0
    subscription: str = ""
    mismatch: bool = False
    broadcasts: bool = False
    dead_letters: int = 0
    problem: str = ""


class ProducerView(msgspec.Struct, frozen=True, kw_only=True):
    """A producer that is connected to the cluster. Brokers do not tell which topics it sends to."""

    group: str
    client_id: str
    address: str
    language: str
    version: int

    @property
    def version_text(self) -> str:
        return version_text(self.version)


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of a topic, as one may change it; what is left out has its default."""

    read_queues: Annotated[int, msgspec.Meta(ge=1, le=QUEUES_MAX)] = QUEUES_DEFAULT
    write_queues: Annotated[int, msgspec.Meta(ge=1, le=QUEUES_MAX)] = QUEUES_DEFAULT
    readable: bool = True
    writable: bool = True
    ordered: bool = False
    message_type: Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(MESSAGE_TYPES)})$")] = ""

    @property
    def perm(self) -> Perm:
        return (Perm.READ if self.readable else Perm.NONE) | (Perm.WRITE if self.writable else Perm.NONE)


class TopicView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: TopicKind
    put_rate: float
    messages: int
    queues: list[TopicQueueView]
    consumers: list[ConsumerView]
    consumer_count: int
    settings: dict[str, TopicSettings]
    """By broker."""


class TopicHead(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in a few numbers: what every page of it begins with."""

    name: str
    kind: TopicKind
    put_rate: float
    messages: int
    queues: int
    last_stored_ms: int


async def topic_head(desk: Desk, topic: str) -> TopicHead:
    """Return a topic in a few numbers. Raises TopicNotFoundError."""
    traffic, kind = await asyncio.gather(topic_traffic(desk, topic), _kind(desk, topic))
    return TopicHead(
        name=topic,
        kind=kind,
        put_rate=traffic.put_rate,
        messages=traffic.messages,
        queues=len(traffic.queues),
        last_stored_ms=traffic.last_stored_ms,
    )


async def topic_traffic(desk: Desk, topic: str) -> TopicTraffic:
    """Return what a topic holds and takes, as brokers said a moment ago. Raises TopicNotFoundError."""
    return await desk.cache.get(("traffic", topic), NUMBERS_MS, lambda: desk.admin.topics.traffic(topic))


async def _configs(desk: Desk, topic: str) -> dict[str, TopicConfig]:
    return await desk.cache.get(("config", topic), NUMBERS_MS, lambda: desk.admin.topics.config(topic))


async def _kind(desk: Desk, topic: str) -> TopicKind:
    """Return the kind of a topic, without a look at others; by its name where brokers do not tell its configuration."""
    try:
        configs = await _configs(desk, topic)
    except BrokerError:
        configs = {}
    cluster = await desk.cluster()
    servers = names_of_servers(cluster.cluster_addr_table, cluster.broker_addr_table)
    return kind_of_topic(desk.admin.client.wire_name(topic), servers, next(iter(configs.values()), None))


async def topic_view(desk: Desk, topic: str) -> TopicView:
    """Facts about a topic. Raises TopicNotFoundError."""
    traffic, groups, configs = await asyncio.gather(
        topic_traffic(desk, topic), desk.admin.topics.groups(topic), _configs(desk, topic)
    )
    rates = desk.queue_rates.look(topic, {queue: held.max_offset for queue, held in traffic.queues.items()})
    consumers = await asyncio.gather(*(_consumer(desk, group, topic) for group in groups[:GROUPS_SHOWN_MAX]))
    return TopicView(
        name=topic,
        kind=await _kind(desk, topic),
        put_rate=traffic.put_rate,
        messages=traffic.messages,
        queues=[
            TopicQueueView(
                broker=queue.broker,
                queue=queue.number,
                first=held.min_offset,
                end=held.max_offset,
                messages=max(0, held.max_offset - held.min_offset),
                rate=rates[queue],
                last_stored_ms=held.last_update_timestamp,
            )
            for queue, held in traffic.queues.items()
        ],
        consumers=list(consumers),
        consumer_count=len(groups),
        settings={broker: settings_of(config) for broker, config in sorted(configs.items())},
    )


def settings_of(config: TopicConfig) -> TopicSettings:
    told = config.attributes.get(MESSAGE_TYPE, "").upper()
    return TopicSettings(
        read_queues=config.read_queue_nums,
        write_queues=config.write_queue_nums,
        readable=bool(config.perm & Perm.READ),
        writable=bool(config.perm & Perm.WRITE),
        ordered=config.order,
        message_type=told if told in MESSAGE_TYPES else "",
    )


async def _consumer(desk: Desk, group: str, topic: str) -> ConsumerView:
    view = ConsumerView(group=group)
    try:
        lag, letters = await group_lag(desk, group, topic), await waiting_letters(desk, group)
        view = ConsumerView(group=group, lag=lag, dead_letters=letters)
        connected = await desk.admin.members.connections(group)
    except GroupOfflineError:
        return view
    except MQError as error:
        return msgspec.structs.replace(view, problem=printable(str(error)))
    found = connected.subscription_table.get(desk.admin.client.wire_name(topic))
    return msgspec.structs.replace(
        view,
        members=len(connected.connection_set),
        subscription=f"{found.expression_type} {found.sub_string}" if found else "",
        mismatch=bool(connected.disagreeing_client_ids),
        broadcasts=connected.is_broadcast,
    )


async def group_lag(desk: Desk, group: str, topic: str) -> int:
    progress = await desk.admin.groups.lag(group, topic)
    return sum(max(0, each.broker_offset - each.consumer_offset) for each in progress.values())


async def waiting_letters(desk: Desk, group: str) -> int:
    """Return how many dead letters of a group wait; 0 where nobody answers."""
    try:
        return (await desk.letter_counts(group)).waiting if dead_letter_topic(group) in await desk.topic_names() else 0
    except MQError:
        return 0


async def producer_views(desk: Desk) -> list[ProducerView]:
    found = await desk.cache.get("producers", NUMBERS_MS, desk.admin.members.producers)
    return [
        ProducerView(
            group=group,
            client_id=each.client_id,
            address=each.address.lstrip("/"),
            language=each.language,
            version=each.version,
        )
        for group, members in found.items()
        for each in members
    ]


# --- changes ---


async def save_topic(desk: Desk, topic: str, settings: TopicSettings, *, broker: str = "") -> None:
    """Creates or changes it on one broker, or on all. Raises InvalidNameError, BrokerError."""
    if broker:
        await require_broker(desk, broker)
    attributes: Mapping[str, str] = {MESSAGE_TYPE: settings.message_type} if settings.message_type else {}
    await desk.admin.topics.create(
        topic,
        broker=broker,
        read_queues=settings.read_queues,
        write_queues=settings.write_queues,
        perm=settings.perm,
        ordered=settings.ordered,
        attributes=dict(attributes),
    )
    forget_topic(desk, topic)


class Affected(msgspec.Struct, frozen=True, kw_only=True):
    """What deleting a topic would take away, and from whom."""

    topic: str
    messages: int
    unread: int
    """Messages that some group has not consumed yet."""
    consumers: list[ConsumerView]
    producing: bool
    """Whether it took messages during the last minute."""


async def affected_by_deletion(desk: Desk, topic: str) -> Affected:
    """What the deletion of a topic would affect. Raises TopicNotFoundError."""
    view = await topic_view(desk, topic)
    unread = max((each.lag for each in view.consumers), default=0)
    return Affected(
        topic=topic, messages=view.messages, unread=unread, consumers=view.consumers, producing=view.put_rate > 0
    )


async def delete_topic(desk: Desk, topic: str) -> None:
    """Delete a topic. Raises TopicNotFoundError."""
    if topic not in await desk.admin.topics.names():
        raise TopicNotFoundError(topic)
    await desk.admin.topics.delete(topic)
    forget_topic(desk, topic)


def forget_topic(desk: Desk, topic: str) -> None:
    """What is kept about it is no longer true."""
    desk.changed("topics", ("traffic", topic), ("config", topic))
