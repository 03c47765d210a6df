"""Copies of brokers: who is master, who follows, how far behind, and what about that is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.errors import BrokerError, MQError
from pyromq.metrics.health import Finding, Severity, failover_findings
from pyromq.wire.json.bodies import ReplicationState
from pyromq.wire.json.membership import BrokerStatus
from pyromq.wording import counted

_FOLLOWING: Final = "FOLLOWING"
_BEHIND_WARN_BYTES: Final = 64 << 20


class BrokerCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A broker process and its copy of the log; what it did not tell is None, or empty.

    Apache's brokers tell less about themselves than PyroMQ's: of their roles, for example, what name servers know.
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
    lease_findings: tuple[str, ...] = ()  # under a failover agent: what is wrong with its lease

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

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def list(self) -> _Copies:
        """Return every broker process that name servers know, masters before their replicas."""
        info = await self._requests.nameservers.cluster()
        asked = [
            self._copy_at(data.cluster, name, number, address)
            for name, data in sorted(info.broker_addr_table.items())
            for number, address in sorted(data.broker_addrs.items())
        ]
        return beside_their_masters(await asyncio.gather(*asked))

    async def state(self, broker: str) -> ReplicationState:
        """Return a master (its name, or its address) with its replicas as it sees them, or how a replica follows."""
        return await self._requests.brokers.replication_state(await self._requests.directory.address(broker))

    async def status(self, broker: str) -> BrokerStatus | None:
        """Return role, lease, positions and replicas of a broker (its name: of its master; or its address).

        None for Apache RocketMQ, which tells nothing of the kind.
        """
        return await self._requests.brokers.status(await self._requests.directory.address(broker))

    async def _copy_at(self, cluster: str, name: str, number: int, address: str) -> BrokerCopy:
        try:
            told = await self._requests.brokers.runtime(address)
        except MQError as error:
            return BrokerCopy(cluster=cluster, broker=name, number=number, address=address, problem=str(error))
        state = None
        if "replicationRole" not in told:  # Apache's
            try:
                state = await self._requests.brokers.replication_state(address)
            except BrokerError:
                state = None
        return copy_of((cluster, name, number, address), told, state)


def copy_of(
    place: tuple[str, str, int, str], told: Mapping[str, str], state: ReplicationState | None = None
) -> BrokerCopy:
    """``place`` is cluster, broker, number and address; ``told`` run-time information, ``state`` Apache's own."""
    cluster, name, number, address = place
    role = told.get("replicationRole", "")
    in_sync = _number(told, "replicationInSync")
    if state is not None:
        role = "master" if state.master else "replica"
        in_sync = state.in_sync_slave_nums if state.master else None
    return BrokerCopy(
        cluster=cluster,
        broker=name,
        number=number,
        address=address,
        role=role,
        end=_number(told, "commitLogMaxOffset"),
        confirmed=_number(told, "replicationConfirmed") if role in ("sync-master", "async-master") else None,
        in_sync=in_sync,
        state=told.get("replicationState", ""),
        reason=told.get("replicationReason", ""),
        metadata_version=told.get("replicationMetadataVersion", ""),
        lease=_number(told, "failoverLease"),
        granted_ms=_number(told, "failoverGrantedMs"),
        lease_findings=tuple(each.text for each in failover_findings(told)),
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
        behind = None if each.end is None or master.end is None else max(0, master.end - each.end)
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


def troubles_of(copies: Sequence[BrokerCopy]) -> dict[str, list[str]]:
    """What is wrong in words, by the name of the process; with what the doctor says of leases elsewhere."""
    found = {each.name: list(each.lease_findings) for each in copies if each.lease_findings}
    for about, finding in judge_copies(copies):
        found.setdefault(about, []).append(finding.text)
    return found


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
        severity = Severity.BAD if copy.state == "REFUSED" else Severity.WARNING
        found.append(_finding(severity, f"does not follow its master ({copy.state.lower()}): {copy.reason or '?'}"))
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
