"""Judges of a simulation: what was promised to clients, compared with what the simulator knows.

one log         an offset of a queue that was acknowledged, or read, is never another message
nothing lost    what was answered SEND_OK is on the disk of whoever may be master next
ledger          after the last fault: acknowledged = consumed + dead, by id and group, within a bound of time
one master      at no moment two brokers of a set may acknowledge
order           ordered sends come in their order
no ghosts       what was rolled back, or never sent, reaches nobody
not early       a delayed message is not seen before its time
not twice       without faults every attempt is delivered once
not again       what a popping consumer has acknowledged, and was told so, is not handed out any more
facts           the lease, the brokers' own words and their metrics say what is true
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from pyromq.errors import MQError
from pyromq.model.names import dead_letter_topic
from pyromq.store.message_store import MessageStore
from pyromq.testing.faulty_disk import CrashMode
from pyromq.wire.record import FIXED, MAGIC_BLANK, MAGIC_V1, PREFIX, SYS_FLAG_AT
from tests.sim.clients import GROUPS, READS, SimClient, body_of, key_of
from tests.sim.cluster import FOLDER, Cluster, Member, World, store_of
from tests.sim.history import History, Sent
from tests.sim.witness import may_be_gone

_FAILURES_MAX: Final = 20
_TOLD: Final = 5
_EARLY_S: Final = 0.02
Place = tuple[str, int, int]  # topic, queue, offset
_MEET_S: Final = 2.0  # from the first message of a group until its members know each other


@dataclass
class Verdict:
    failures: list[str] = field(default_factory=list)

    def fail(self, text: str) -> None:
        if len(self.failures) < _FAILURES_MAX and text not in self.failures:
            self.failures.append(text)


@dataclass
class Stored:
    """What one log has, by key: topics and places."""

    places: dict[str, list[Place]] = field(default_factory=lambda: defaultdict(list))

    def has(self, key: str) -> bool:
        return key in self.places

    def in_topic(self, topic: str) -> set[str]:
        return {key for key, places in self.places.items() if any(place[0] == topic for place in places)}


def stored_on(member: Member, mode: CrashMode) -> Stored:
    """As recovery finds it. Raises MQError."""
    copied = member.disk.after(mode, member.world.rng("judge"))
    with MessageStore.open(FOLDER, store_of(member.world.plan), disk=copied) as store:
        return _known_log(member).stored_in(store)


def _known_log(member: Member) -> KnownLog:
    known: KnownLog = member.world.known_logs.setdefault(member.name, KnownLog())
    return known


class KnownLog:
    """The log of one member, as it was looked at last: of what has the same bytes now, nothing is read again."""

    def __init__(self) -> None:
        self._files: dict[int, tuple[bytes, list[tuple[str, Place]]]] = {}  # by base: what was read, and was in it

    def stored_in(self, store: MessageStore) -> Stored:
        """Every record, as recovery or the broker has found it good: where it lies, and the key in its body."""
        found = Stored()
        for segment in store.log.segments:
            data = bytes(segment.open_once().map_once()[: max(0, store.end_position - segment.base)])
            read, records = self._files.get(segment.base, (b"", []))
            if not data.startswith(read):
                read, records = b"", []
            at, new = _records_of(data, len(read), segment.base)
            records = records + new if new else records
            self._files[segment.base] = data[:at], records
            for key, place in records:
                found.places[key].append(place)
        return found


def _records_of(data: bytes, at: int, base: int) -> tuple[int, list[tuple[str, Place]]]:
    """Where the last record ends, and those from ``at`` on: keys and places."""
    found = []
    while at < len(data):
        total, magic = PREFIX.unpack_from(data, at)
        if magic == MAGIC_BLANK:
            break
        assert total, f"nothing at {base + at}, before the end of the log"
        fixed = FIXED[int.from_bytes(data[at + SYS_FLAG_AT : at + SYS_FLAG_AT + 4], "big") >> 4 & 3]
        fields, body = fixed.unpack_from(data, at), at + fixed.size
        names = body + fields[14]
        size = 1 if magic == MAGIC_V1 else 2
        topic = names + size
        end = topic + int.from_bytes(data[names:topic], "big")
        name = data[topic:end].decode(errors="replace")  # a disk may have changed it
        found.append((key_of(data[body:names]), (name, fields[3], fields[5])))
        at += total
    return at, found


# --- all the time ----------------------------------------------------------------------------------------------------


def look_now(world: World, cluster: Cluster, verdict: Verdict) -> None:
    for member in cluster.members:
        member.supervise()
    for name in world.plan.sets:
        masters = cluster.masters(name)
        if len(masters) > 1:
            verdict.fail(f"two masters at {world.loop.true_s:.3f} s: {', '.join(each.name for each in masters)}")


def what_is_left(world: World, cluster: Cluster, clients: list[SimClient], faults: Any) -> list[str]:
    """What is not as it must be, some time after the last fault."""
    found: list[str] = []
    for name in world.plan.sets:
        members, masters = cluster.of_set(name), cluster.masters(name)
        if len(masters) != 1:
            found.append(f"set {name} has {len(masters)} masters; {_words_of(members)}")
        elif len(members) > 1:
            record = cluster.record_of(name)
            missing = {each.address for each in members} - set(record.in_sync if record else ())
            if missing:
                found.append(f"not in sync: {', '.join(sorted(missing))}; {_words_of(members)}")
    if found:
        return found
    busy = [each.plan.name for each in clients if each.is_producer and each.under_way]
    if busy:
        return [f"sends of {', '.join(busy)} are under way"]
    return _not_consumed(world, cluster, clients, was_set_back=faults.was_ever_set_back)


def _words_of(members: list[Member]) -> str:
    words = []
    for member in members:
        broker = member.serving
        lease = broker._environment.lease if broker is not None else None
        text = f"lease {lease.state.number} {lease.state.role} {lease.waiting}" if lease else member.start_error
        words.append(f"{member.name}: {'serving' if broker else 'down'} {text}".strip())
    return "; ".join(words)


def _cut_alone(world: World, cluster: Cluster) -> bytes:
    """What members have cut off their logs that was stored by a master alone, and keep aside.

    One of two that comes to a lease store that was set back goes on alone after a while, and stores retries of failed
    messages, unconfirmed; when the other one has a newer lease, these are cut, counted and reported, and come no more.
    So are those of a master of more members that was alone in sync, as receipts of kept messages say, if an operator
    chooses another one after a store was set back.
    """
    was_decided, found = bool(world.history.counts["an operator decides"]), b""
    for set_name, size in world.plan.sets.items():
        for member in cluster.of_set(set_name):
            for folder in (FOLDER / "cut" / name for name in member.disk.names(FOLDER / "cut")):
                cut = b"".join(member.disk.read(folder / name) for name in member.disk.names(folder))
                was_alone = was_decided and any(body_of(each) in cut for each in world.history.alone)
                found += cut if size == 2 or was_alone else b""
    return found


def _not_consumed(world: World, cluster: Cluster, clients: list[SimClient], *, was_set_back: bool) -> list[str]:
    """If a lease store was set back, less is promised of what a master alone had stored."""
    history, found = world.history, []
    cut, alone = (_cut_alone(world, cluster), history.alone) if was_set_back else (b"", set[str]())
    dead: dict[str, set[str]] = {}
    for client in clients:
        kind = client.plan.kind
        if kind not in GROUPS:
            continue
        group = GROUPS[kind]
        if group not in dead:
            dead[group] = _dead_letters(cluster, world, group) if kind == "push" and world.plan.fail_percent else set()
        done = history.consumed[group]
        missing = [
            each.key
            for each in history.sent.values()
            if each.topic in READS[kind]
            and _is_promised(each)
            and each.key not in done
            and each.key not in dead[group]
            and each.due_s <= world.loop.true_s
        ]
        missing = [each for each in missing if each not in alone]
        if missing and cut:  # a retry is one of a message that was delivered
            delivered = {read.key for read in history.deliveries if read.group == group}
            history.retries_cut |= {each for each in missing if each in delivered and body_of(each) in cut}
            missing = [each for each in missing if each not in history.retries_cut]
        if missing and was_set_back:
            missing = [each for each in missing if not _is_passed_over(history, group, history.sent[each])]
        if missing:
            found.append(f"group {group} did not consume {len(missing)}: {', '.join(missing[:_TOLD])}")
    return found


def _is_passed_over(history: History, group: str, sent: Sent) -> bool:
    """Whether the group had read another message at its place, which a master alone had stored, and others cut."""
    there = [read.key for read in history.deliveries if (read.queue, read.offset) == (sent.queue, sent.offset)]
    mine = {read.key for read in history.deliveries if read.group == group}
    return any(key != sent.key and key in mine and history.sent[key].status != "ok" for key in there)


def last_due_s(history: History) -> float:
    """When the last of the delayed messages that must come is due."""
    return max((each.due_s for each in history.sent.values() if _is_promised(each)), default=0.0)


def _is_promised(sent: Sent) -> bool:
    if sent.kind == "transactions":
        return sent.status == "ok" and sent.outcome == "commit"
    return sent.status in ("ok", "kept")


def _dead_letters(cluster: Cluster, world: World, group: str) -> set[str]:
    """Keys, as the logs of masters have them."""
    found: set[str] = set()
    for name in world.plan.sets:
        for member in cluster.masters(name):
            found |= _log_of(member).in_topic(dead_letter_topic(group))
    return found


def _log_of(member: Member) -> Stored:
    assert member.broker is not None
    return _known_log(member).stored_in(member.broker.store)


# --- at the end ------------------------------------------------------------------------------------------------------


def judge_at_the_end(world: World, cluster: Cluster, clients: list[SimClient], faults: Any, verdict: Verdict) -> None:
    _one_log(world, faults, verdict)
    _nothing_lost(world, cluster, faults, verdict)
    _order(world, verdict)
    _no_ghosts(world, verdict)
    if not world.plan.clocks and "clock jumps" not in world.plan.kinds:
        _not_early(world, verdict)
    _not_twice(world, faults.first_s, verdict)
    _not_after_the_ack(world, verdict)
    _facts(world, cluster, verdict)


def _one_log(world: World, faults: Any, verdict: Verdict) -> None:
    """A store that was set back may replace what one of two members had alone: it was read, and never promised.

    So it is of retries, and of dead letters that were sent again. Receipts of delayed and prepared messages name the
    place where these wait, not that of the copy that is read.
    """
    known: dict[tuple[Any, ...], str] = {}
    promised: dict[str, tuple[Any, ...]] = {}
    for sent in world.history.sent.values():
        if sent.status == "ok" and sent.queue is not None:
            place = promised[sent.key] = (*sent.queue, sent.offset)
            if known.setdefault(place, sent.key) != sent.key:
                verdict.fail(f"{place} was acknowledged to {known[place]} and to {sent.key}")
    for read in world.history.deliveries:
        place = (*read.queue, read.offset)
        is_copy = read.queue[0] != read.topic or (
            read.key in world.history.redriven and place != promised.get(read.key)
        )
        if faults.was_ever_set_back and (is_copy or read.key not in promised):
            continue
        if known.setdefault(place, read.key) != read.key:
            verdict.fail(f"{place} was {known[place]}, and {read.key} when {read.member} read it")


def on_disk_now(world: World, cluster: Cluster, faults: Any, verdict: Verdict) -> None:
    """If all power went off at this moment: every member that the lease names has all that was acknowledged."""
    promised = [each for each in world.history.sent.values() if each.status == "ok"]
    for name in world.plan.sets:
        members = cluster.of_set(name)
        if len(members) > 1:
            record = cluster.record_of(name)
            if record is None or faults.was_set_back:
                continue  # who may be master is not decided by the record alone
            members = [each for each in members if each.address in record.in_sync]
        for member in members:
            if not member.is_damaged:
                _has_all(world, cluster, member, [each for each in promised if _set_of(each, world) == name], verdict)


def _nothing_lost(world: World, cluster: Cluster, faults: Any, verdict: Verdict) -> None:
    if world.plan.mode != "liveness":
        on_disk_now(world, cluster, faults, verdict)
        return
    promised = [each for each in world.history.sent.values() if each.status == "ok"]
    for name in world.plan.sets:
        for member in cluster.masters(name):
            _has_all(world, cluster, member, [each for each in promised if _set_of(each, world) == name], verdict)


def _has_all(world: World, cluster: Cluster, member: Member, promised: list[Sent], verdict: Verdict) -> None:
    if not promised:
        return
    try:
        stored = stored_on(member, CrashMode.FORGET)
    except (MQError, AssertionError) as error:
        verdict.fail(f"the store of {member.name} does not open: {error}")
        return
    lost = [each.key for each in promised if not stored.has(each.key) and not may_be_gone(world, each)]
    if lost and world.plan.keeps_ms:  # a copy of one that failed may have gone to another set
        others = [other for other in cluster.members if other.set_name != member.set_name]
        elsewhere = [stored_on(other, CrashMode.FORGET) for other in others]
        lost = [key for key in lost if not any(each.has(key) for each in elsewhere)]
    if lost:
        keys = ", ".join(lost[:_TOLD])
        verdict.fail(f"{len(lost)} acknowledged messages are not on the disk of {member.name}: {keys}")
    for each in promised:  # of those that retention took a retry may be left, and a damaged disk may say another topic
        if each.queue is not None and stored.has(each.key):
            place = each.queue[0], each.queue[2], each.offset
            if place not in stored.places[each.key] and not (world.plan.keeps_ms or member.is_damaged):
                verdict.fail(f"{each.key} was acknowledged at {place}, {member.name} has it elsewhere")


def _set_of(sent: Sent, world: World) -> str:
    if sent.queue is not None:
        return sent.queue[1]
    sets = list(world.plan.sets)
    return sets[0] if len(sets) == 1 else ""


def _order(world: World, verdict: Verdict) -> None:
    highest: dict[str, tuple[int, str]] = {}
    seen: set[str] = set()
    for read in world.history.deliveries:
        sent = world.history.sent.get(read.key)
        if sent is None or not sent.lane or read.group != GROUPS["orderly"] or read.key in seen:
            continue
        seen.add(read.key)
        if sent.status != "ok":
            continue
        number, key = highest.get(sent.lane, (-1, ""))
        if sent.number < number:
            verdict.fail(f"order of {sent.lane}: {sent.key} came after {key}")
        highest[sent.lane] = max((number, key), (sent.number, sent.key))


def _no_ghosts(world: World, verdict: Verdict) -> None:
    for read in world.history.deliveries:
        sent = world.history.sent.get(read.key)
        if sent is None:
            verdict.fail(f"{read.member} read {read.key!r}, which nobody sent")
        elif sent.kind == "transactions" and sent.outcome == "rollback":
            verdict.fail(f"{read.member} read {read.key}, which was rolled back")


def _not_early(world: World, verdict: Verdict) -> None:
    for read in world.history.deliveries:
        sent = world.history.sent.get(read.key)
        if sent is not None and sent.due_s and read.at_s < sent.due_s - _EARLY_S:
            verdict.fail(f"{read.key} came {sent.due_s - read.at_s:.3f} s early")


def _not_twice(world: World, until_s: float, verdict: Verdict) -> None:
    """Before the first fault. While the members of a group meet, one may hand a queue to another amid a message."""
    reads = [each for each in world.history.deliveries if each.at_s < until_s and each.group != GROUPS["broadcast"]]
    met_s: dict[str, float] = {}
    readers: dict[tuple[str, str], set[str]] = {}
    for each in reads:
        if each.at_s < met_s.setdefault(each.group, each.at_s + _MEET_S):
            readers.setdefault((each.group, each.key), set()).add(each.member)
    for (group, key, attempt), count in Counter((each.group, each.key, each.attempt) for each in reads).items():
        if count > 1 and len(readers.get((group, key), ())) < 2:
            verdict.fail(f"group {group} got {key} {count} times as attempt {attempt}, before any fault")


def _not_after_the_ack(world: World, verdict: Verdict) -> None:
    for each in world.history.pops.seen_again:
        verdict.fail(each)


def _facts(world: World, cluster: Cluster, verdict: Verdict) -> None:
    if world.plan.mode != "liveness" or verdict.failures:
        return
    for name in world.plan.sets:
        members = cluster.of_set(name)
        if len(members) == 1:
            continue
        record, master = cluster.record_of(name), cluster.masters(name)[0]
        assert record is not None
        if record.holder != master.address:
            verdict.fail(f"the lease says {record.holder}, the master is {master.address}")
        for member in members:
            broker = member.serving
            if broker is None:
                continue
            lease = broker._environment.lease
            if lease is not None and lease.state.number != record.number:
                verdict.fail(f"{member.name} knows lease {lease.state.number}, the store has {record.number}")
