"""What operators are shown after the last fault: leases, doctor, lists and metrics say what the simulator knows.

`pyromq cluster leases`   the master holds the lease, every member is in sync, none has a problem
`pyromq doctor`           finds nothing bad
groups, metrics           nothing lags, and there are as many dead letters as lie in the logs
`pyromq message find`     what was acknowledged is found by its key, where its sender was told that it is
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pyromq.aio import Admin, ReceivedMessage
from pyromq.cli.nouns.leases import lease_rows
from pyromq.errors import MQError
from pyromq.metrics import broker_table
from pyromq.model.names import dead_letter_topic
from pyromq.operate.health import ClusterFinding, ClusterSeverity
from pyromq.operate.lists import GroupRow
from pyromq.settings import ClientSettings
from pyromq.store.message_store import MessageStore
from tests.crash.script import log_records
from tests.sim.clients import GROUPS
from tests.sim.cluster import LEASES_AT, Cluster, Member, World
from tests.sim.history import Sent
from tests.sim.witness import may_be_gone

SETTLE_S: Final = 8.0  # offsets are committed and saved every two seconds, routes asked for every five
USUAL_SETTLE_S: Final = 40.0  # by default brokers register every thirty seconds, also with a new name server
_COMMITTED_S: Final = 6.0  # what was delivered before that is committed
COMMITTED: Final = ("push", "orderly")  # consumers whose progress is committed by itself
_ASKED_FOR: Final = 12  # messages, about
_NAME_TAKEN: Final = "another process registered under its name"


@dataclass
class Seen:
    leases: list[dict[str, Any]] = field(default_factory=list)
    findings: list[ClusterFinding] = field(default_factory=list)
    groups: tuple[GroupRow, ...] = ()
    found: dict[str, list[tuple[str, str, int, int]]] = field(default_factory=dict)  # by key: places of messages
    error: str = ""


async def look(world: World, cluster: Cluster, seen: Seen) -> None:
    """As an operator, from a machine of their own."""
    settings = ClientSettings(nameservers=cluster.nameserver, instance_name="doctor", client_ip="10.0.4.1")
    managed = [name for name in world.plan.sets if world.plan.is_managed(name)]
    try:
        async with Admin(client_settings=settings) as admin:
            if managed:
                seen.leases = await lease_rows(admin, LEASES_AT[world.plan.lease_store], None, managed)
            seen.findings = await admin.health.findings()
            seen.groups = (await admin.groups.list()).rows
            for sent in _asked_for(world):
                messages = await admin.messages.find(sent.topic, sent.key)
                seen.found[sent.key] = [_place_of(each) for each in messages]
    except MQError as error:
        seen.error = f"{type(error).__name__}: {error}"


def _asked_for(world: World) -> list[Sent]:
    """Some of those that have a place, from the first to the last."""
    has_place = (each for each in world.history.sent.values() if each.status == "ok" and each.queue is not None)
    promised = [each for each in has_place if not may_be_gone(world, each)]
    return promised[:: max(1, len(promised) // _ASKED_FOR)]


def _place_of(message: ReceivedMessage) -> tuple[str, str, int, int]:
    return message.queue.topic, message.queue.broker, message.queue.number, message.offset


def compare(
    world: World, cluster: Cluster, seen: Seen, *, was_redriven: bool = False, was_set_back: bool = False
) -> list[str]:
    """What they were shown, and is not so.

    When a lease store was set back two members may have been promoted: the one that went on says so until it restarts.
    """
    if seen.error:
        return [f"operators get an error from a cluster that is whole: {seen.error}"]
    wrong = _leases(world, cluster, seen)
    for key, places in seen.found.items():
        sent = world.history.sent[key]
        assert sent.queue is not None
        if (*sent.queue, sent.offset) not in places:
            wrong.append(f"{key} is at {sent.queue}, offset {sent.offset}; by its key operators find {places}")
    bad = [each for each in seen.findings if each.severity is ClusterSeverity.BAD]
    wrong += [f"doctor: {each.about} {each.text}" for each in bad if not (was_set_back and _NAME_TAKEN in each.text)]
    for kind in sorted({each.kind for each in world.plan.clients} & set(COMMITTED)):
        retried = _just_retried(world, GROUPS[kind])
        wrong += _group(cluster, GROUPS[kind], seen, retried, was_redriven=was_redriven)
    return wrong


def _leases(world: World, cluster: Cluster, seen: Seen) -> list[str]:
    wrong = [f"cluster leases: {row['member']} {row['problem']}" for row in seen.leases if row["problem"]]
    shown = {row["member"]: (row["role"] == "master", row["in_sync"]) for row in seen.leases}
    for member in cluster.members:
        truth = member.is_master, True
        if member.is_managed and shown.get(member.address) != truth:
            wrong.append(f"cluster leases show {shown.get(member.address)} for {member.name}, which is {truth}")
    return wrong


def _just_retried(world: World, group: str) -> int:
    """Letters that were sent again, or messages that a reset brought again, and that fail again.

    After everything is consumed these are still delivered, and become letters while operators look.
    """
    since_s, history = world.loop.true_s - _COMMITTED_S, world.history
    return sum(each.group == group and each.attempt > 0 and each.at_s > since_s for each in history.deliveries)


def _group(cluster: Cluster, group: str, seen: Seen, retried: int, *, was_redriven: bool) -> list[str]:
    dead = dead_letter_topic(group).encode()
    masters = [each for each in cluster.members if each.is_master and each.broker is not None]
    letters = sum(record.topic == dead for each in masters for record in log_records(_whole_copy(cluster, each)))
    row = next((each for each in seen.groups if each.group == group), None)
    wrong = []
    if was_redriven:  # letters that were sent again still lie in the logs, and wait no longer
        letters = row.dead_letters or 0 if row is not None else 0
    if row is not None and ((row.lag or 0) > retried or abs((row.dead_letters or 0) - letters) > retried):
        wrong.append(f"group {group} is listed with lag {row.lag} and {row.dead_letters} letters, not 0 and {letters}")
    lag = counted = 0
    for member in masters:
        assert member.broker is not None and member.broker._tenure is not None
        for family in member._in_process(lambda tenure=member.broker._tenure: _drained(tenure.collect())):
            for labels, value in family.samples:
                if family.metric is broker_table.LAG_MESSAGES and labels[0] == group:
                    lag += int(value)
                if family.metric is broker_table.DEAD_LETTERS and labels == (group, "left"):
                    counted += int(value)
    if lag > retried or abs(counted - letters) > retried:
        wrong.append(f"metrics of group {group} say lag {lag} and {counted} letters, not 0 and {letters}")
    return wrong


def _whole_copy(cluster: Cluster, master: Member) -> MessageStore:
    """What the master has; where its disk has changed something that nobody read since, as another member has it."""
    members = [each for each in (master, *cluster.of_set(master.set_name)) if each.broker is not None]
    whole = next((each for each in members if not each.is_damaged), master)
    assert whole.broker is not None
    return whole.broker.store


def _drained(steps: Any) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
