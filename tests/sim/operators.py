"""Operators of a simulation: what they do by seed, through ``Admin``, while clients work and machines fail.

reset         a group goes back to an earlier time: repeats are allowed, and nothing else changes (queues in which it is
              further behind than that stay as they are: what a reset passes over is lost to the group, as it says)
redrive       dead letters are sent again: each that was reported as sent comes to its group once more
topics        topics are made, written to, and deleted: what was confirmed is so at the end, also after a failover
pause group   members of a group get nothing for a while; afterwards everything is consumed

An operation that fails is left as it is; of one that was confirmed while every member that the lease names knew of it,
the effect is promised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from pyromq.aio import Admin, Message, MQError, Producer
from pyromq.operate.resend.outcomes import ItemStatus
from pyromq.results import SendStatus
from pyromq.settings import ClientSettings, ProducerSettings
from tests.sim.clients import GROUPS, READS, body_of
from tests.sim.cluster import Cluster, World
from tests.sim.history import Sent
from tests.sim.loop import Process
from tests.sim.patches import WALL_MS

IP: Final = "10.0.4.1"
RESET_KINDS: Final = ("push", "orderly")
REDRIVEN_KIND: Final = "push"
_SENDS: Final = 3  # to a new topic
_AGAIN_S: Final = 1.0
_TRY_S: Final = 20.0

End = Callable[[], None]


def _nothing() -> None:
    """It is over by itself."""


@dataclass
class Deeds:
    """What operators were told is done."""

    topics: dict[str, bool] = field(default_factory=dict)  # whether it is there; not in it: nobody knows
    redriven: list[tuple[str, float]] = field(default_factory=list)  # keys, and since when they have to come again
    paused: set[str] = field(default_factory=set)  # groups that somebody has paused, now or before


class Operators:
    """One method for each kind of the plan; ``Faults`` calls them."""

    def __init__(self, world: World, cluster: Cluster, process: Process) -> None:
        self._world = world
        self._cluster = cluster
        self._process = process
        self._numbers = 0
        self._resuming: set[str] = set()
        self.deeds = Deeds()

    def begin(self, kind: str, rng: Random) -> tuple[str, End] | None:
        found: tuple[str, End] | None = getattr(self, "_begin_" + kind.replace(" ", "_"))(rng)
        return found

    def _spawn(self, what: str, work: Callable[[Admin], Awaitable[None]]) -> None:
        self._world.loop.spawn(self._process, self._tried(what, work), what)

    async def _tried(self, what: str, work: Callable[[Admin], Awaitable[None]]) -> bool:
        try:
            async with asyncio.timeout(_TRY_S), Admin(client_settings=self._settings()) as admin:
                await work(admin)
        except (MQError, TimeoutError) as error:
            self._world.history.note("operator failed", what, type(error).__name__)
            return False
        self._world.history.note("operator did", what)
        return True

    def _settings(self) -> ClientSettings:
        self._numbers += 1
        return ClientSettings(
            nameservers=self._cluster.nameserver, instance_name=f"operator{self._numbers}", client_ip=IP
        )

    def _kinds(self, wanted: tuple[str, ...]) -> list[str]:
        return sorted({each.kind for each in self._world.plan.clients} & set(wanted))

    # --- groups ---

    def _begin_reset(self, rng: Random) -> tuple[str, End] | None:
        kinds = self._kinds(RESET_KINDS)
        if not kinds:
            return None
        kind = rng.choice(kinds)
        group, topic, back_s = GROUPS[kind], rng.choice(READS[kind]), rng.choice((2.0, 10.0, 1000.0))
        to_ms = WALL_MS + round(1000 * max(0.0, self._world.loop.true_s - back_s))

        async def reset(admin: Admin) -> None:
            moves = await admin.offsets.plan_reset(group, topic, to_ms=to_ms)
            await admin.offsets.carry_out(group, [each for each in moves if each.new <= (each.old or 0)])

        self._spawn(f"reset of {group} in {topic}", reset)
        return f"{group} {topic} {back_s:g} s", _nothing

    def _begin_pause_group(self, rng: Random) -> tuple[str, End] | None:
        kinds = self._kinds(RESET_KINDS)
        if not kinds:
            return None
        group = GROUPS[rng.choice(kinds)]

        async def pause(admin: Admin) -> None:
            await admin.groups.pause(group)

        self.deeds.paused.add(group)
        self._spawn(f"pause of {group}", pause)
        return group, lambda: self.resume(group)

    def resume(self, group: str) -> None:
        """Until a cluster says so."""
        if group not in self._resuming:
            self._resuming.add(group)
            self._world.loop.spawn(self._process, self._resume(group), f"resume of {group}")

    async def _resume(self, group: str) -> None:
        async def resume(admin: Admin) -> None:
            if await admin.groups.resume(group):
                self._world.history.note("resumed", group)

        while not await self._tried(f"resume of {group}", resume):  # noqa: ASYNC110 - an operator is patient
            await asyncio.sleep(_AGAIN_S)
        self._resuming.discard(group)

    # --- dead letters ---

    def _begin_redrive(self, rng: Random) -> tuple[str, End] | None:
        group = GROUPS[REDRIVEN_KIND]
        if not self._kinds((REDRIVEN_KIND,)):
            return None

        async def redrive(admin: Admin) -> None:
            async for outcome in admin.dead_letters.redriving(group, count_max=5):
                self._world.history.note("redriven", outcome.keys, outcome.status.value)
                self._world.history.redriven.add(outcome.keys)
                if outcome.status is ItemStatus.SENT and outcome.stored is SendStatus.SEND_OK:
                    self.deeds.redriven.append((outcome.keys, self._world.loop.true_s))

        self._spawn(f"redrive of {group}", redrive)
        return group, _nothing

    # --- topics ---

    def _begin_topics(self, rng: Random) -> tuple[str, End] | None:
        there = [topic for topic, is_there in self.deeds.topics.items() if is_there]
        if there and rng.random() < 0.5:
            topic = rng.choice(there)
            self._spawn(f"deletion of {topic}", lambda admin: self._delete(admin, topic))
        else:
            again = [topic for topic, is_there in self.deeds.topics.items() if not is_there]
            self._numbers += 1
            topic = rng.choice(again) if again and rng.random() < 0.5 else f"temporary{self._numbers}"
            self._spawn(f"making of {topic}", lambda admin: self._make(admin, topic))
        return topic, _nothing

    async def _make(self, admin: Admin, topic: str) -> None:
        self.deeds.topics.pop(topic, None)
        are_told = self.are_told()
        await admin.topics.create(topic, queues=2)
        are_known = are_told and self.are_known()
        await self._send(topic)
        if are_known:
            self.deeds.topics[topic] = True

    async def _delete(self, admin: Admin, topic: str) -> None:
        self.deeds.topics.pop(topic, None)
        for sent in self._world.history.sent.values():
            if sent.topic == topic:
                sent.status = "deleted"  # out of the ledger: its place is given to another if the topic is made again
        are_told = self.are_told()
        await admin.topics.delete(topic)
        if are_told and self.are_known():
            self.deeds.topics[topic] = False

    async def _send(self, topic: str) -> None:
        history = self._world.history
        settings = ProducerSettings(timeout_ms=6_000, attempt_timeout_ms=2_500)
        async with Producer(client_settings=self._settings(), group="operators", settings=settings) as producer:
            for _ in range(_SENDS):
                self._numbers += 1
                sent = Sent(f"{topic}-{self._numbers}", topic, "operator", self._world.loop.true_s)
                history.sent[sent.key] = sent
                with suppress(MQError):
                    receipt = await producer.send(Message(topic, body_of(sent.key), keys=[sent.key]))
                    if receipt.status is SendStatus.SEND_OK:
                        sent.status, sent.offset, sent.done_s = "ok", receipt.offset, self._world.loop.true_s
                        sent.queue = (receipt.queue.topic, receipt.queue.broker, receipt.queue.number)
                        self._world.witness.acknowledged(sent, receipt.offset_message_id, receipt.queue.broker)
                history.note("sent", sent.key, sent.status)

    # --- what only the simulator sees ---

    def are_told(self) -> bool:
        """Whether whoever asks a name server now hears of all masters; one that is new does not know all sets yet."""
        return all(each.knows(name) for each in self._cluster.names for name in self._world.plan.sets)

    def are_known(self) -> bool:
        """Whether name servers know all masters, and members that a lease names what their masters have."""
        if not self.are_told():
            return False
        for name in self._world.plan.sets:
            masters = self._cluster.masters(name)
            if len(masters) != 1:
                return False
            record = self._cluster.record_of(name)
            named = set(record.in_sync) if record is not None else {masters[0].address}
            numbers = [_metadata(each) for each in self._cluster.of_set(name) if each.address in named]
            if None in numbers or min(numbers) < _metadata(masters[0]):  # type: ignore[type-var]
                return False
        return True

    def left(self) -> list[str]:
        """What was promised, and is not so. A request to pause may arrive late: who looks again resumes again."""
        found = []
        for group in sorted(self.deeds.paused):
            if self._is_paused(group):
                found.append(f"group {group} is paused")
                self.resume(group)
        found += [
            f"redriven {key} did not come again" for key, at_s in self.deeds.redriven if not self._came(key, at_s)
        ]
        return found

    def _is_paused(self, group: str) -> bool:
        for name in self._world.plan.sets:
            for master in self._cluster.masters(name):
                assert master.broker is not None and master.broker._tenure is not None
                config = master.broker._tenure.parts.tables.groups.find(group)
                if config is not None and not config.consume_enable:
                    return True
        return False

    def _came(self, key: str, at_s: float) -> bool:
        group = GROUPS[REDRIVEN_KIND]
        for each in reversed(self._world.history.deliveries):  # the newest ones first: of thousands, few are looked at
            if each.at_s < at_s:
                return False
            if each.key == key and each.group == group:
                return True
        return False

    def lost(self, set_name: str) -> list[str]:
        """Topics that are there though their deletion was confirmed, or the other way round."""
        found = []
        for topic, is_there in self.deeds.topics.items():
            for master in self._cluster.masters(set_name):
                assert master.broker is not None and master.broker._tenure is not None
                has = master.broker._tenure.parts.tables.topics.get(topic) is not None
                if has is not is_there:
                    confirmed = "made" if is_there else "deleted"
                    found.append(f"topic {topic} was {confirmed}, {master.name} {'has' if has else 'lacks'} it")
        return found


def _metadata(member: Any) -> int | None:
    broker = member.serving
    tenure = broker._tenure if broker is not None else None
    return None if tenure is None else int(tenure.parts.replication.metadata_number)
