"""``mirror()``: topics of one cluster, kept in another: rounds of copying, each followed by the progress of groups.

Queue goes to queue: a target queue that has copies goes on with the queue they came from, and the other queues get the
target queues that are left, in order. So order within a queue is kept, and an offset has one translation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import sleep
from typing import Final, TypedDict, Unpack

import msgspec

from pyromq.client.core.tasks import gather
from pyromq.errors import GroupNotFoundError, TopicNotFoundError
from pyromq.model.names import retry_topic
from pyromq.model.queue import QueueId
from pyromq.model.route import TopicRoute
from pyromq.operate.admin import Admin
from pyromq.pipeline.core.connections import Connected, connect
from pyromq.pipeline.core.errors import DataLossError
from pyromq.pipeline.core.keywords import settings_from
from pyromq.pipeline.core.offsets import HeldRange
from pyromq.pipeline.core.options import SourceOptions, Use, parse_options, with_nameservers_known_here
from pyromq.pipeline.mirroring.copying import QueueCopier
from pyromq.pipeline.mirroring.errors import TargetTopicError
from pyromq.pipeline.mirroring.groups import MirroredGroup, ensure_group, translate
from pyromq.pipeline.mirroring.target import Copy, TargetQueue
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.pipeline.reading.plan import shown

GROUP: Final = "pyromq-mirror"
_QUEUES_AT_ONCE: Final = 8
_NEW_TOPIC_S_MAX: Final = 30


class MirrorRound(msgspec.Struct, frozen=True, kw_only=True):
    """What a mirror did so far: ``lag`` are messages here that are not there yet."""

    topics: tuple[str, ...]
    queues: int
    copied: int
    repeated: int
    lag: int
    groups: tuple[MirroredGroup, ...] = ()


def round_text(done: MirrorRound) -> str:
    """A round in a few words: the lag of the mirror, and how far groups are behind over there."""
    groups = (f"{each.group} {each.behind:,} behind{'' if each.is_exact else ' (not exact)'}" for each in done.groups)
    return ", ".join((f"lag {done.lag:,}", *groups))


class MirrorOptions(TypedDict, total=False):
    """Keywords of ``mirror``; ``MirrorSettings`` has their defaults."""

    groups: Sequence[str]
    follow_s: float | None
    name: str
    options: Mapping[str, str] | None
    to_options: Mapping[str, str] | None
    progress: Callable[[int, int | None], None]
    on_round: Callable[[MirrorRound], None]
    on_step: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """How a mirror runs."""

    groups: Sequence[str] = ()  # whose progress is translated, and whose retries are mirrored
    follow_s: float | None = None  # seconds between two rounds; None: one round over what there is
    name: str = GROUP  # consumer group that shows the mirror's lag where it reads
    options: Mapping[str, str] | None = None  # of the cluster that is read: those of the Spark source
    to_options: Mapping[str, str] | None = None  # of the other one
    progress: Callable[[int, int | None], None] = lambda done, total: None
    on_round: Callable[[MirrorRound], None] = lambda done: None
    on_step: Callable[[str], None] = lambda step: None  # for tests


def mirror(topics: Sequence[str], nameservers: str, to: str, **settings: Unpack[MirrorOptions]) -> MirrorRound:
    """Copy the messages of topics to the topics of the same names in the cluster of the name servers ``to``.

    A run goes on where the copies end, however the run before it ended. With ``follow_s`` it looks for new messages
    again and again until Ctrl-C. Raises ConfigError, TopicNotFoundError, GroupNotFoundError, DataLossError,
    MirrorConflictError, what connecting raises, and TypeError for a keyword that does not exist.
    """
    chosen = settings_from(MirrorSettings, settings, "mirror")
    work = Mirroring(tuple(topics), nameservers, to, chosen)
    try:
        work.round()
        while chosen.follow_s is not None:
            sleep(chosen.follow_s)
            work.round()
    except KeyboardInterrupt:
        if chosen.follow_s is None:
            raise
    return work.state()


class Mirroring:
    """One run. Copiers are kept by the queue that they read."""

    def __init__(self, topics: tuple[str, ...], nameservers: str, to: str, settings: MirrorSettings) -> None:
        self._topics = topics
        self._settings = settings
        self._options = _options(topics, nameservers, settings.options)
        self._to_options = _options(topics, to, settings.to_options)
        self._cluster = Cluster(self._options, asks_anew=True)
        self._connected: Connected
        self._target: Connected
        self._copiers: dict[QueueId, QueueCopier] = {}
        self._lag = 0
        self._groups: tuple[MirroredGroup, ...] = ()
        self._has_groups = False

    def round(self) -> None:
        """Copy what topics hold now, then bring the progress of groups over."""
        self._connected, self._target = connect(self._options), connect(self._to_options)
        held = {**self._cluster.held(), **self._retries()}
        self._connected.call(self._prepare(held))
        self._refuse_shorter(held)
        self._lag = sum(max(0, there.end - self._copiers[queue].next) for queue, there in held.items())
        self._connected.call(self._copy_all(held))
        self._lag = sum(max(0, there.end - self._copiers[queue].next) for queue, there in held.items())
        self._groups = tuple(self._connected.call(self._translate_all()))
        self._settings.on_round(self.state())

    def state(self) -> MirrorRound:
        return MirrorRound(
            topics=self._topics, queues=len(self._copiers), lag=self._lag, groups=self._groups,
            copied=sum(each.copied for each in self._copiers.values()),
            repeated=sum(each.repeated for each in self._copiers.values()),
        )  # fmt: skip

    def _retries(self) -> dict[QueueId, HeldRange]:
        """What the retry topics of the groups hold, where there are any."""
        found: dict[QueueId, HeldRange] = {}
        for group in self._settings.groups:
            options = _options((retry_topic(group),), self._options.nameserver, self._settings.options)
            found |= Cluster(options, asks_anew=True).held(missing_ok=True)
        return found

    def _refuse_shorter(self, held: Mapping[QueueId, HeldRange]) -> None:
        """A queue that ends before what was copied is another one. Raises DataLossError."""
        losses = [
            f"{shown(queue)} ends at {there.end} now, and offset {self._copiers[queue].next - 1} of it was copied: was "
            "the topic deleted, or a tail lost? Mirror it to a new topic"
            for queue, there in held.items()
            if there.end < self._copiers[queue].next
        ]
        if losses:
            raise DataLossError(losses)

    # --- on the loop ---

    async def _prepare(self, held: Mapping[QueueId, HeldRange]) -> None:
        """Groups and topics are there; every queue has its copier. Raises GroupNotFoundError, TargetTopicError."""
        admin, target = self._admins()
        if not self._has_groups:
            for group in self._settings.groups:
                await ensure_group(admin, target, group)
            try:
                await admin.groups.require(self._settings.name)
            except GroupNotFoundError:
                await admin.groups.create(self._settings.name)
            self._has_groups = True
        new = [queue for queue in held if queue not in self._copiers]
        for topic in dict.fromkeys(queue.topic for queue in new):
            queues = sorted(queue for queue in held if queue.topic == topic)
            await self._pair(topic, queues, held)

    async def _pair(self, topic: str, queues: Sequence[QueueId], held: Mapping[QueueId, HeldRange]) -> None:
        plain = self._connected.client.plain_name(topic)
        targets = await self._target_queues(plain, len(queues))
        newest = {each.queue: await each.newest() for each in targets}
        owners: dict[QueueId, TargetQueue] = {each.queue: each.target for each in self._copiers.values()}
        for each in targets:
            copy = newest[each.queue]
            owner = next((queue for queue in queues if copy is not None and copy.source.is_of(queue)), None)
            if owner is not None:
                owners.setdefault(owner, each)
        taken = {each.queue for each in owners.values()}
        free = iter([each for each in targets if each.queue not in taken])
        for queue in queues:
            if queue not in self._copiers:
                target = owners.get(queue) or next(free)
                copy = newest[target.queue]
                own = copy if copy is not None and copy.source.is_of(queue) else None
                self._copiers[queue] = await self._copier(queue, target, own, held[queue])

    async def _copier(self, queue: QueueId, target: TargetQueue, newest: Copy | None, held: HeldRange) -> QueueCopier:
        """Goes on behind the newest copy; where none is left, at the mirror's progress, or at the first message."""
        admin, _ = self._admins()
        known = newest.source.offset + 1 if newest is not None else None
        if known is None:
            known = await admin.offsets.committed(self._settings.name, queue)
        start = held.first if known is None else known
        if start < held.first:
            loss = f"{shown(queue)} begins at {held.first} now, offsets {start} to {held.first} are gone"
            if self._options.fail_on_data_loss:
                raise DataLossError([loss])
            start = held.first
        return QueueCopier(
            (self._connected.client, self._options, queue), (self._target.client, self._to_options, target),
            start=start, newest=newest, on_step=self._settings.on_step,
        )  # fmt: skip

    async def _target_queues(self, topic: str, count: int) -> list[TargetQueue]:
        """Queues of the topic over there, which is created if need be. Raises TargetTopicError."""
        _, target = self._admins()
        try:
            route = await target.topics.route(topic)
        except TopicNotFoundError:
            brokers = len(await target.requests.directory.masters())
            await target.topics.create(topic, queues=-(-count // max(1, brokers)))
            route = await self._new_route(target, topic)
        name = self._target.client.wire_name(topic)
        queues = sorted(set(route.readable_queues(name)) & set(route.publishable_queues(name)))
        if len(queues) < count:
            raise TargetTopicError(
                f"topic {topic} has {count} queues here and {len(queues)} there: each needs one of its own. "
                f"Give it more: pyromq topic update {topic} --queues {count}"
            )
        return [TargetQueue(self._target.client, self._to_options, queue) for queue in queues]

    async def _new_route(self, target: Admin, topic: str) -> TopicRoute:
        """Brokers report a new topic to name servers a moment later."""
        for _ in range(10 * _NEW_TOPIC_S_MAX):
            try:
                return await target.topics.route(topic)
            except TopicNotFoundError:
                await asyncio.sleep(0.1)
        return await target.topics.route(topic)

    async def _copy_all(self, held: Mapping[QueueId, HeldRange]) -> None:
        places = asyncio.Semaphore(_QUEUES_AT_ONCE)
        admin, _ = self._admins()
        total = self.state().copied + self._lag

        async def copy(queue: QueueId, end: int) -> None:
            copier = self._copiers[queue]
            async with places:
                await copier.copy(end)
                await admin.offsets.commit(self._settings.name, queue, copier.next)
                self._settings.on_step("committed")
                done = sum(each.copied for each in self._copiers.values())
                self._settings.progress(done, total)

        behind = [(queue, there.end) for queue, there in held.items() if there.end > self._copiers[queue].next]
        await gather([copy(queue, end) for queue, end in behind])

    async def _translate_all(self) -> list[MirroredGroup]:
        admin, target = self._admins()
        return [
            await translate(admin, target, group, _read_by(self._copiers.values(), group))
            for group in self._settings.groups
        ]

    def _admins(self) -> tuple[Admin, Admin]:
        return Admin(client=self._connected.client), Admin(client=self._target.client)


def _read_by(copiers: Iterable[QueueCopier], group: str) -> list[QueueCopier]:
    """Those of topics, and of the group's own retries."""
    return [each for each in copiers if not each.queue.topic.startswith("%") or each.queue.topic == retry_topic(group)]


def _options(topics: Sequence[str], nameservers: str, given: Mapping[str, str] | None) -> SourceOptions:
    texts = {**(given or {}), "topic": ",".join(topics), **({"nameserver": nameservers} if nameservers else {})}
    return with_nameservers_known_here(parse_options(texts, Use.BATCH))
