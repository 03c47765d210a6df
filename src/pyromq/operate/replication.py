"""Copies of brokers: who is master, who follows, how far behind, and what about that is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.errors import BrokerError, MQError
from pyromq.metrics.health import Finding, Severity, failover_findings
from pyromq.operate.sweep import BrokerProcess, Sweeper, bytes_behind
from pyromq.wire.json.bodies import ReplicationState
from pyromq.wire.json.membership import BrokerStatus
from pyromq.wording import counted

_FOLLOWING: Final = "following"
_BEHIND_WARN_BYTES: Final = 64 << 20


class BrokerCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A broker process and its copy of the log; what it did not tell is None, or empty.

    Apache's brokers say less about themselves than PyroMQ's: of their roles, for example, what name servers know.
    """

    cluster: str
    broker: str
    number: int  # as name servers have it: 0 is the master
    address: str
    role: str = ""  # alone, async-master, sync-master, replica; of Apache's: master, replica
    end: int | None = None  # of its log
    confirmed: int | None = None  # of a master: as many copies as it waits for have everything before it
    in_sync: int | None = None  # of a master: replicas that are
    behind_bytes: int | None = None  # of a replica: what its master's log has beyond its own
    state: str = ""  # of a replica: what it is doing
    reason: str = ""  # of a replica that does not follow
    metadata_version: str = ""
    has_metadata: bool | None = None  # of a replica: its topics and groups are those of its master
    unconfirmed_sends: int = 0  # of a sync master: answered although replicas had not confirmed them, since its start
    lease: int | None = None  # under a failover agent: the number under which it is master, or follows
    granted_ms: int | None = None  # under one: how long a master may still acknowledge
    problem: str = ""  # why it did not answer
    findings: tuple[str, ...] = ()  # what is wrong, in words

    @property
    def is_master(self) -> bool:
        """Whether the broker sees itself as master; if it did not say, whether name servers do."""
        return self.role != "replica" if self.role else self.number == 0

    @property
    def name(self) -> str:
        return f"broker {self.broker}" if self.number == 0 else f"replica {self.number} of {self.broker}"


_Copies: TypeAlias = list[BrokerCopy]  # the facet has a method ``list``


class ReplicationFacet:
    """``admin.replication``: masters and replicas."""

    def __init__(self, requests: AdminRequests, sweeper: Sweeper) -> None:
        self._requests = requests
        self._sweeper = sweeper

    async def list(self, *, max_age_ms: int = 0) -> _Copies:
        """Return every broker process that name servers know, masters before their replicas."""
        processes = await self._sweeper.processes(max_age_ms=max_age_ms)
        return with_findings(beside_their_masters(await asyncio.gather(*map(self._copy, processes))))

    async def state(self, broker: str) -> ReplicationState:
        """Return a master (its name, or its address) with its replicas as it sees them, or how a replica follows."""
        return await self._requests.brokers.replication_state(broker)

    async def status(self, broker: str) -> BrokerStatus | None:
        """Return role, lease, positions and replicas of a broker (its name: of its master; or its address).

        None for Apache RocketMQ, which says nothing of the kind.
        """
        return await self._requests.brokers.status(broker)

    async def _copy(self, process: BrokerProcess) -> BrokerCopy:
        state = None
        if not isinstance(process.told, MQError) and "replicationRole" not in process.told:  # Apache's
            with suppress(BrokerError):
                state = await self._requests.brokers.replication_state(process.address)
        return copy_of(process, state)


def copy_of(process: BrokerProcess, state: ReplicationState | None = None) -> BrokerCopy:
    """Make a row of what a process says about itself; ``state`` is what Apache's say of replication."""
    told = process.told
    copy = BrokerCopy(cluster=process.cluster, broker=process.broker, number=process.number, address=process.address)
    if isinstance(told, MQError):
        return msgspec.structs.replace(copy, problem=str(told))
    role = told.get("replicationRole", "")
    in_sync = _number(told, "replicationInSync")
    if state is not None:
        role = "master" if state.master else "replica"
        in_sync = state.in_sync_slave_nums if state.master else None
    return msgspec.structs.replace(
        copy,
        role=role,
        end=_number(told, "commitLogMaxOffset"),
        confirmed=_number(told, "replicationConfirmed") if role in ("sync-master", "async-master") else None,
        in_sync=in_sync,
        state=told.get("replicationState", "").lower(),
        reason=told.get("replicationReason", ""),
        metadata_version=told.get("replicationMetadataVersion", ""),
        lease=_number(told, "failoverLease"),
        granted_ms=_number(told, "failoverGrantedMs"),
        findings=tuple(each.text for each in failover_findings(told)),
        unconfirmed_sends=sum(
            _number(told, key) or 0 for key in ("replicationLateSends", "replicationUnconfirmedSends")
        ),
    )


def beside_their_masters(copies: Sequence[BrokerCopy]) -> list[BrokerCopy]:
    """Add to each replica what only a comparison with its master shows."""
    masters = {each.broker: each for each in copies if each.number == 0 and not each.problem}
    found = []
    for each in copies:
        master = masters.get(each.broker)
        if each.is_master or each.problem or master is None or master is each:
            found.append(each)
            continue
        behind = bytes_behind(each.end, master.end)
        knows_both = bool(each.metadata_version and master.metadata_version)
        has = each.metadata_version == master.metadata_version if knows_both else None
        found.append(msgspec.structs.replace(each, behind_bytes=behind, has_metadata=has))
    return found


def judge_copies(copies: Sequence[BrokerCopy]) -> list[tuple[str, Finding]]:
    """What is wrong with roles, replicas and metadata, each with the name of the process that it is about."""
    found: list[tuple[str, Finding]] = []
    for each in copies:
        if not each.problem:
            found += [(each.name, finding) for finding in (_judge_role(each) or _judge_copying(each))]
    return found


def with_findings(copies: Sequence[BrokerCopy]) -> list[BrokerCopy]:
    """Add what is wrong to what each says of its lease."""
    judged = judge_copies(copies)
    return [
        msgspec.structs.replace(
            each, findings=(*each.findings, *(finding.text for about, finding in judged if about == each.name))
        )
        for each in copies
    ]


def _finding(severity: Severity, text: str) -> Finding:
    return Finding(severity, text, ("cluster", "replication"), "replication", "See masters and replicas")


def _judge_role(copy: BrokerCopy) -> list[Finding]:
    if copy.is_master == (copy.number == 0):
        return []
    known_as = "master" if copy.number == 0 else "a replica"
    text = f"name servers have {copy.address} as {known_as}, and it acts as {copy.role}: two masters may take messages"
    if copy.number == 0:
        text = f"name servers have {copy.address} as {known_as}, and it is a replica: nothing can be sent to it"
    return [_finding(Severity.BAD, f"{text}; stop the one that should not be")]


def _judge_copying(copy: BrokerCopy) -> list[Finding]:
    found = []
    if copy.role == "sync-master" and not copy.in_sync:
        text = "is a sync master and no replica is in sync: sends are stored here alone (SLAVE_NOT_AVAILABLE)"
        found.append(_finding(Severity.BAD, text))
    if copy.unconfirmed_sends:
        sends = counted(copy.unconfirmed_sends, "send")
        text = f"answered {sends} since its start before replicas had confirmed them, and said so in the response"
        found.append(_finding(Severity.WARNING, text))
    if copy.state and copy.state != _FOLLOWING:
        severity = Severity.BAD if copy.state == "refused" else Severity.WARNING
        found.append(_finding(severity, f"does not follow its master ({copy.state}): {copy.reason or '?'}"))
    elif (copy.behind_bytes or 0) > _BEHIND_WARN_BYTES:
        text = f"is {(copy.behind_bytes or 0) / (1 << 20):,.0f} MiB behind its master: a failover would wait for it"
        found.append(_finding(Severity.WARNING, text))
    elif copy.has_metadata is False:
        text = "has other topics or groups than its master: it asks every few seconds; if this stays, see its log"
        found.append(_finding(Severity.WARNING, text))
    return found


def _number(told: Mapping[str, str], key: str) -> int | None:
    try:
        return int(told[key])
    except (KeyError, ValueError):
        return None
