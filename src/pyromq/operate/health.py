"""Health check of a whole cluster: what is wrong, or will be soon, and what settles it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.consumer.rules.flow_control import Hold
from pyromq.errors import MQError
from pyromq.metrics.health import BROKER, Finding, broker_findings, disk_percent
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.queue import QueueId
from pyromq.operate.consumers.group_state import GroupState
from pyromq.operate.groups import GroupFacet
from pyromq.operate.lists import GroupRow, ListQuestion
from pyromq.operate.replication import ReplicationFacet, judge_copies
from pyromq.operate.subjects import Subject, SubjectKind, broker_subject
from pyromq.operate.sweep import BrokerProcess, ClusterSweep, Sweeper
from pyromq.operate.transactions import TransactionFacet
from pyromq.wording import counted, shown_span, times

_SHARED_MS: Final = 60_000  # one examination is made from one read
_TRANSACTION_WARN_MS: Final = 10 * 60_000
_LAG_WARN_MS: Final = 60_000  # several times longer than members take to commit what they have done
_NAMED_MAX: Final = 5  # members in one finding
_PRESSURE: Final = frozenset((Hold.MESSAGES.name, Hold.BYTES.name, Hold.SPAN.name))
_HELD_UP_MAX: Final = 16  # queues in findings about one group
_RECEIVED_OFTEN: Final = 3  # attempts, counted from 0


class ClusterSeverity(StrEnum):
    OK = "ok"
    WARNING = "warning"
    BAD = "bad"


class ClusterFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at. ``about`` names it, ``text`` says what is the matter and what to do.

    ``command`` is what an operator types to settle it, ``page`` is what the console shows for that, and ``action``
    what to do there.
    """

    severity: ClusterSeverity
    about: str
    text: str
    command: str = ""
    page: Subject | None = None
    action: str = ""

    @property
    def words(self) -> list[str]:
        """The command without the program: ``["dlq", "ls", "billing"]``."""
        return shlex.split(self.command)[1:]


def command_of(*words: str) -> str:
    """Return the command of these words as a shell takes it."""
    return shlex.join(("pyromq", *words))


def about_broker(about: str, broker: str, finding: Finding) -> ClusterFinding:
    """Return what is wrong with a broker as a finding of its cluster."""
    words = [broker if word == BROKER else word for word in finding.command]
    return ClusterFinding(
        severity=ClusterSeverity(finding.severity.value),
        about=about,
        text=finding.text,
        command=command_of(*words) if words else "",
        page=broker_subject(finding.page, broker),
        action=finding.action,
    )


def about_group(
    severity: ClusterSeverity, group: str, text: str, *words: str, action: str, page: Subject | None = None
) -> ClusterFinding:
    """Return a finding about a group; ``words`` are those of its command, its page is the group's own by default."""
    return ClusterFinding(
        severity=severity,
        about=f"group {group}",
        text=text,
        command=command_of(*words),
        page=page or Subject(kind=SubjectKind.GROUP, name=group),
        action=action,
    )


class HealthFacet:
    """``admin.health``: the health of a cluster."""

    def __init__(
        self,
        requests: AdminRequests,
        sweeper: Sweeper,
        groups: GroupFacet,
        transactions: TransactionFacet,
        replication: ReplicationFacet,
    ) -> None:
        self._client = requests.client
        self._sweeper = sweeper
        self._groups = groups
        self._transactions = transactions
        self._replication = replication

    async def findings(self) -> list[ClusterFinding]:
        """Look at name servers, brokers, groups, letters and transactions; the worst first. Raises TransportError."""
        processes = await self._sweeper.processes()
        found = [*await self._examine_nameservers(), *judge_processes(processes)]
        masters = {each.broker for each in processes if each.number == 0}
        if any(each.number or each.broker not in masters for each in processes):
            found += await self._examine_replication()
        for about, examine in (("groups", self._examine_groups), ("transactions", self._examine_transactions)):
            try:
                found += await examine() if masters else ()
            except MQError as error:  # of a broker that is down, which a finding above says
                found.append(_unanswered(about, f"could not be examined: {error}"))
        worst_first = [ClusterSeverity.BAD, ClusterSeverity.WARNING, ClusterSeverity.OK]
        return sorted(found, key=lambda finding: worst_first.index(finding.severity))

    async def _examine_nameservers(self) -> list[ClusterFinding]:
        found = []
        timeout_ms = self._client.settings.request_timeout_ms
        for link in self._client.nameservers.links:
            about = f"name server {link.address}"
            try:
                await link.connection(timeout_ms=timeout_ms)
                found.append(ClusterFinding(severity=ClusterSeverity.OK, about=about, text="answers"))
            except MQError as error:
                found.append(_unanswered(about, f"does not answer: {error}"))
        return found

    async def _examine_replication(self) -> list[ClusterFinding]:
        copies = await self._replication.list(max_age_ms=_SHARED_MS)
        found = [about_broker(about, "", each) for about, each in judge_copies(copies)]
        if found:
            return found
        behind = max((each.behind_bytes or 0 for each in copies), default=0)
        text = "replicas follow their masters" + (f", the last is {behind:,} bytes behind" if behind else "")
        return [ClusterFinding(severity=ClusterSeverity.OK, about="replication", text=text)]

    async def _examine_groups(self) -> list[ClusterFinding]:
        sweep = await self._sweeper.read()
        page = await self._groups.list(ListQuestion(max_age_ms=_SHARED_MS))
        found, problems = list[ClusterFinding](), list(page.problems)
        for row in page.rows:
            try:
                if row.members and len(problems) == len(page.problems):  # the others would wait for the same broker
                    found += await self._examine_members(await self._groups.describe(row.group), sweep)
            except MQError as error:
                problems.append(f"members of {row.group} and others were not asked: {error}")
            found += judge_row(row)
        if problems:
            found.append(_unanswered("groups", f"were not examined as a whole: {'; '.join(problems)}"))
        return found or [ClusterFinding(severity=ClusterSeverity.OK, about="groups", text="none has work left undone")]

    async def _examine_members(self, state: GroupState, sweep: ClusterSweep) -> list[ClusterFinding]:
        """Whether they agree and keep up with what arrives, and whether there is work for each of them."""
        found = [*judge_subscriptions(state), *judge_flow(state)]
        if state.is_paused:
            return [*judge_paused(state), *found]
        found += judge_popped(state)
        if (
            not state.is_broadcasting and state.in_flight is None
        ):  # there, and where it pops, each member has all queues
            wire_name, plain_name = self._client.wire_name, self._client.plain_name
            topics = [topic for topic in state.subscriptions if not topic.startswith(RETRY_PREFIX)]
            queues = {topic: sweep.queues_of(wire_name(plain_name(topic))) for topic in topics}
            found += judge_members(state.group, len(state.members), queues)
        held_up = judge_heads(state)
        oldest = [(each.age_ms, each.queue) for each in state.queues if each.lag > 0 and each.offset is not None]
        return found + (held_up or judge_lag(state.group, len(state.members), state.lag, oldest))

    async def _examine_transactions(self) -> list[ClusterFinding]:
        now_ms = self._client.clock.now_ms()
        late = [place for place in await self._transactions.list() if now_ms - place.born_ms > _TRANSACTION_WARN_MS]
        if not late:
            return [ClusterFinding(severity=ClusterSeverity.OK, about="transactions", text="none is open for long")]
        groups = ", ".join(sorted({place.producer_group for place in late}))
        text = f"{len(late)} are open for more than ten minutes (producers: {groups})"
        return [
            ClusterFinding(
                severity=ClusterSeverity.WARNING,
                about="transactions",
                text=text,
                command=command_of("tx", "ls"),
                page=Subject(kind=SubjectKind.TRANSACTIONS),
                action="See who has not answered",
            )
        ]


def _unanswered(
    about: str, text: str, command: str = "", page: Subject | None = None, action: str = "See the brokers"
) -> ClusterFinding:
    """Return a finding about a server that is not there."""
    return ClusterFinding(
        severity=ClusterSeverity.BAD,
        about=about,
        text=text,
        command=command or command_of("cluster", "ls"),
        page=page or Subject(kind=SubjectKind.BROKER),
        action=action,
    )


def judge_processes(processes: Sequence[BrokerProcess]) -> list[ClusterFinding]:
    """From what brokers say about themselves, and which of them name servers know."""
    if not processes:
        text = "no broker is registered: start one, and tell it where the name servers are"
        return [msgspec.structs.replace(_unanswered("brokers", text), command=command_of("broker", "--help"))]
    found: list[ClusterFinding] = []
    for name in sorted({each.broker for each in processes} - {each.broker for each in processes if each.number == 0}):
        text = "has no master: nothing can be sent to it"
        page, command = broker_subject("replication", name), command_of("cluster", "replication")
        found.append(_unanswered(f"broker {name}", text, command, page, "See masters and replicas"))
    for each in processes:
        if isinstance(each.told, MQError):
            found.append(_unanswered(each.name, f"{each.address} does not answer: {each.told}"))
        else:
            found += judge_broker(each.name, each.told, each.broker)
    return found


def judge_broker(about: str, told: dict[str, str], broker: str = "") -> list[ClusterFinding]:
    """From what a broker says about itself."""
    found = [about_broker(about, broker, each) for each in broker_findings(told)]
    percent = disk_percent(told)
    runs = f", {told['compiledCore']}" if "compiledCore" in told else ""  # only brokers of ours say so
    return found or [
        ClusterFinding(
            severity=ClusterSeverity.OK, about=about, text=f"answers, its disk is {percent:.0f} % full{runs}"
        )
    ]


def judge_row(row: GroupRow) -> list[ClusterFinding]:
    """What waits for somebody: messages without a member, and dead letters; what is not known is no finding."""
    group, found = row.group, list[ClusterFinding]()
    if row.members == 0 and row.lag:
        text = f"{counted(row.lag, 'message')} left, and no member is connected"
        text += "; the group is paused" if row.is_paused else ": start one"
        words = ("group", "describe", group)
        found.append(about_group(ClusterSeverity.WARNING, group, text, *words, action="See what is left"))
    if row.dead_letters:
        text = f"{counted(row.dead_letters, 'dead letter')}: see why, mend the cause, and redrive them"
        page = Subject(kind=SubjectKind.DEAD_LETTERS, name=group)
        words = ("dlq", "ls", group)
        action = "See why, redrive"
        found.append(about_group(ClusterSeverity.WARNING, group, text, *words, action=action, page=page))
    return found


def judge_paused(state: GroupState) -> list[ClusterFinding]:
    """A paused group with members: somebody runs it, and gets nothing."""
    if not state.is_paused:
        return []
    text = f"paused, with {counted(len(state.members), 'member')} connected and {counted(state.lag, 'message')} left"
    words = ("group", "create", state.group, "--enabled")
    return [about_group(ClusterSeverity.WARNING, state.group, text, *words, action="Resume it")]


def judge_subscriptions(state: GroupState) -> list[ClusterFinding]:
    """Who subscribes to something else than the others, and to what."""
    odd = [member for member in state.members if member.agrees is False]
    if not odd:
        return []
    usual = next((member.subscribes_to for member in state.members if member.agrees and member.subscriptions), "")
    told = "; ".join(f"{each.client_id} subscribes to {each.subscribes_to}" for each in odd[:_NAMED_MAX])
    more = f" and {len(odd) - _NAMED_MAX} more" if len(odd) > _NAMED_MAX else ""
    text = f"{told}{more}, the others to {usual}: messages get lost; give all members the same subscription"
    words = ("group", "describe", state.group)
    return [about_group(ClusterSeverity.BAD, state.group, text, *words, action="Compare its members")]


def judge_heads(state: GroupState) -> list[ClusterFinding]:
    """Orderly queues that are held up: their first message has failed, and is tried again and again."""
    found = []
    for queue in [each for each in state.queues if each.stage and each.attempt and each.story][:_HELD_UP_MAX]:
        where = f"{queue.queue.topic}, {queue.queue.broker} queue {queue.queue.number}, offset {queue.offset}"
        text = f"a queue is held up by a message that failed {times(queue.attempt)} ({where}): {queue.error};"
        text += f" {counted(queue.lag, 'message')} left in it"
        words = ("group", "describe", state.group)
        found.append(about_group(ClusterSeverity.BAD, state.group, text, *words, action="See what holds it up"))
    return found


def judge_popped(state: GroupState) -> list[ClusterFinding]:
    """Messages of a popping group that were received again and again, and never acknowledged."""
    found = []
    often = [each for each in state.queues if each.in_flight is not None and each.attempt >= _RECEIVED_OFTEN]
    for queue in often[:_HELD_UP_MAX]:
        where = f"{queue.queue.topic}, {queue.queue.broker} queue {queue.queue.number}, offset {queue.offset}"
        text = (
            f"a message was received {times(queue.attempt + 1)} and never acknowledged ({where}): consumers fail with"
        )
        text += " it, or need longer than it is invisible"
        words = ("message", "explain", queue.message_id, "--topic", queue.queue.topic)
        page = Subject(kind=SubjectKind.MESSAGE, name=queue.message_id, within=queue.queue.topic)
        action = "See what became of it"
        found.append(about_group(ClusterSeverity.WARNING, state.group, text, *words, action=action, page=page))
    return found


def judge_flow(state: GroupState) -> list[ClusterFinding]:
    """Members whose pulls flow control holds back while they lag: listeners are slower than what arrives."""
    held = {each.client_id: _pressing(each.held_pulls) for each in state.members if _pressing(each.held_pulls)}
    if not held or not state.lag:
        return []
    told = "; ".join(f"{member}: {', '.join(rules)}" for member, rules in list(held.items())[:_NAMED_MAX])
    text = f"flow control holds back pulls of {counted(len(held), 'member')} ({told}): listeners are slower than what"
    text += f" arrives; {counted(state.lag, 'message')} left"
    words = ("group", "describe", state.group)
    return [about_group(ClusterSeverity.WARNING, state.group, text, *words, action="See its members")]


def _pressing(held_pulls: Mapping[str, int]) -> list[str]:
    """Rules that say that a buffer is full; a pause is no pressure."""
    return [f"{name.lower()} {count}" for name, count in held_pulls.items() if count and name in _PRESSURE]


def judge_members(group: str, members: int, queues: Mapping[str, int]) -> list[ClusterFinding]:
    """From the number of queues of each topic that a group subscribes to; 0 where it is not known."""
    most = max(queues.values(), default=0)
    if not most or members <= most:
        return []
    topic = max(queues, key=lambda name: queues[name])
    idle = counted(members - most, "member")
    text = f"{members} members share {counted(most, 'queue')} of topic {topic}, so {idle} can get no messages"
    text += ": run fewer, or add queues"
    words = ("topic", "create", topic, "--queues", str(members))
    page = Subject(kind=SubjectKind.TOPIC, name=topic, within="configuration")
    return [about_group(ClusterSeverity.WARNING, group, text, *words, action="Add queues", page=page)]


def judge_lag(group: str, members: int, lag: int, oldest: Sequence[tuple[int, QueueId]]) -> list[ClusterFinding]:
    """From the ages of the first messages that a group with members has not consumed, in milliseconds."""
    age_ms, queue = max(oldest, default=(0, QueueId("", "", 0)))
    if age_ms < _LAG_WARN_MS:
        return []
    where = f"{queue.topic}, {queue.broker} queue {queue.number}"
    text = f"{counted(lag, 'message')} left with {counted(members, 'member')} connected, the oldest for"
    text += f" {shown_span(age_ms)} ({where}): a listener is stuck, or the group is slower than what arrives"
    words = ("group", "describe", group)
    return [about_group(ClusterSeverity.WARNING, group, text, *words, action="See who has it")]
