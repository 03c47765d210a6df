"""The witness: judges a promise at the very moment at which it is made, with what only the simulator can see.

acknowledged    every member that the lease names has the record on its disk, flushed, when its sender hears SEND_OK
read            likewise when a consumer gets it: whoever may be master next gives that offset to no other message
promises        no member cuts a lease that was acknowledged under, unless an operator said so
progress        a committed offset passes no message that a listener of the group has begun, and nobody has ended

Power lost at any other moment could show the same, by luck; looks of the other judges are seconds apart.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from pyromq.aio import ReceivedMessage
from pyromq.wire.json.membership import Epoch
from pyromq.wire.message_id import decode_offset_id
from tests.sim.clients import GROUPS, READS, body_of
from tests.sim.cluster import FOLDER, Cluster, Member, World, store_of
from tests.sim.history import Sent

if TYPE_CHECKING:
    from tests.sim.faults import Faults
    from tests.sim.judges import Verdict

Place = tuple[str, str, str, int]  # group, topic, broker, queue
_LOG: Final = (FOLDER / "commitlog").parts[1:]


class Witness:
    """Made when the cluster is whole; clients call it."""

    def __init__(self, world: World, cluster: Cluster, faults: Faults, verdict: Verdict) -> None:
        self._world = world
        self._cluster = cluster
        self._faults = faults
        self._verdict = verdict
        self._begun: dict[Place, set[int]] = defaultdict(set)  # offsets that listeners have, or had when they died
        self._ended: dict[Place, set[int]] = defaultdict(set)
        self._promised: dict[tuple[str, int], Epoch] = {}  # by member and disk: the newest that it had noted

    def acknowledged(self, sent: Sent, offset_message_id: str, broker: str) -> None:
        position = int(decode_offset_id(offset_message_id)[1])
        for member in self._named(broker):
            if not self._has(member, position, sent.key):
                now_s = self._world.loop.true_s
                self._verdict.fail(f"{sent.key} was acknowledged at {now_s:.3f} s, {member.name} has not flushed it")

    def read(self, key: str, group: str, message: ReceivedMessage) -> None:
        position = message.position
        if message.body != body_of(key):
            self._verdict.fail(f"{key} was read by {group} with another body than it was sent with")
        for member in self._named(message.broker):
            if not self._has(member, position, key) and not self._was_read(group, message):
                now_s = self._world.loop.true_s
                self._verdict.fail(f"{key} was read at {now_s:.3f} s, {member.name} has not flushed it")

    def _was_read(self, group: str, message: ReceivedMessage) -> bool:
        """Whether a reset brought it again: where files expire, one that a group had passed may be gone."""
        return bool(self._world.plan.keeps_ms) and message.offset in self._ended[_place(group, message)]

    def begun(self, group: str, message: ReceivedMessage) -> None:
        """A listener has it."""
        place = _place(group, message)
        if message.offset not in self._ended[place]:
            self._begun[place].add(message.offset)

    def ended(self, group: str, message: ReceivedMessage) -> None:
        """The listener returns now, or fails."""
        place = _place(group, message)
        self._begun[place].discard(message.offset)
        self._ended[place].add(message.offset)
        self.look()

    def look_at_promises(self) -> None:
        for member in self._cluster.members:
            broker = member.serving
            lease = broker._environment.lease if broker is not None else None
            if lease is None:
                continue
            state, disk = lease.state, (member.name, member.disks)
            before = self._promised.get(disk)
            if before is not None and before.number > state.decided:
                if not any(before.is_same(each) for each in state.epochs):
                    self._verdict.fail(f"{member.name} has cut lease {before.number}, under which it had acknowledged")
            if state.promised is not None:
                self._promised[disk] = state.promised
            else:
                self._promised.pop(disk, None)

    def look(self) -> None:
        """At progress, as masters have it now."""
        if self._faults.was_set_back:
            return
        for name in self._world.plan.sets:
            for member in self._cluster.masters(name):
                self._look_at(member, name)

    def _look_at(self, member: Member, name: str) -> None:
        tenure = member.broker._tenure if member.broker is not None else None
        if tenure is None:
            return
        progress = tenure.parts.tables.progress
        for (group, topic, broker, queue_id), begun in self._begun.items():
            committed = progress.committed(group, topic, queue_id) if broker == name else None
            if committed is not None and begun and min(begun) < committed:
                place = f"{topic}/{name}/{queue_id}"
                self._verdict.fail(f"group {group} has committed {committed} of {place}, {min(begun)} is not finished")

    def _named(self, set_name: str) -> list[Member]:
        """Who may be master next, by the record; nobody when a store that was set back says it."""
        members = self._cluster.of_set(set_name)
        if len(members) == 1:
            return members
        record = self._cluster.record_of(set_name)
        if record is None or self._faults.was_set_back:
            return []
        return [each for each in members if each.address in record.in_sync and not each.is_damaged]

    def _has(self, member: Member, position: int, key: str) -> bool:
        size = store_of(self._world.plan).segment_bytes
        base, at = position - position % size, position % size
        log = member.disk.durable_at((*_LOG, f"{base:020d}"))
        length = int.from_bytes(log[at : at + 4], "big")
        if f"{key}|".encode() in bytes(log[at : at + length]):
            return True
        return may_be_gone(self._world, self._world.history.sent[key])


def may_be_gone(world: World, sent: Sent) -> bool:
    """Whether retention may have taken it: every group that reads it is done with it, or has lost its retry."""
    if not world.plan.keeps_ms:
        return False
    history = world.history
    if sent.outcome == "rollback" or sent.key in history.retries_cut:
        return True
    groups = {GROUPS[each.kind] for each in world.plan.clients if sent.topic in READS.get(each.kind, ())}
    return all(sent.key in history.consumed[each] for each in groups)


def _place(group: str, message: ReceivedMessage) -> Place:
    return group, message.queue.topic, message.queue.broker, message.queue.number
