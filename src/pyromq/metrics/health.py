"""Health: whether a server does its work, and what is wrong with it; probes and the doctor use the same words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

_DISK_WARN_PERCENT: Final = 75
_DISK_BAD_PERCENT: Final = 85
_DISPATCH_BEHIND_BYTES: Final = 64 << 20
BROKER: Final = "BROKER"
_RETENTION: Final = ("settings", "set", BROKER, "fileReservedTime=HOURS")
_LEASES: Final = ("cluster", "leases", BROKER)
_QUOTA_KINDS: Final = ("Sends", "Pulls", "Connections", "Creations")


class Severity(StrEnum):
    OK = "ok"
    WARNING = "warning"
    BAD = "bad"


class Finding(NamedTuple):
    """One thing that was looked at.

    ``command`` are the words of the ``pyromq`` command that settles it, ``page`` the page of the console that does
    (a kind of ``operate.subjects``, behind a colon one of its parts), ``action`` what to do there. ``BROKER`` among
    the words stands for the broker that it is about.
    """

    severity: Severity
    text: str
    command: tuple[str, ...] = ()
    page: str = ""
    action: str = ""


class Startup(NamedTuple):
    """How far a server is with its start; may be asked from any thread."""

    is_done: bool
    text: str


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Health of one server: ``reasons`` keep it from being ready; ``findings`` do not, and should be looked at."""

    reasons: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_ready(self) -> bool:
        return not self.reasons


def broker_findings(told: Mapping[str, str]) -> list[Finding]:
    """From what a broker says about itself in its run-time information; empty when nothing is wrong."""
    found = []
    if trouble := told.get("storeTrouble", ""):
        found.append(Finding(Severity.BAD, trouble, ("cluster", "replication"), "store", "Look at the store"))
    if damage := told.get("storeDamage", ""):
        text = f"{damage}: replace the disk; a replica mends itself from its master"
        found.append(Finding(Severity.BAD, text, ("cluster", "replication"), "store", "See the damage"))
    percent = disk_percent(told)
    if percent >= _DISK_WARN_PERCENT:
        severity = Severity.BAD if percent >= _DISK_BAD_PERCENT else Severity.WARNING
        text = f"its disk is {percent:.0f} % full: old messages go early, then it takes none"
        found.append(Finding(severity, text, _RETENTION, "settings:fileReservedTime", "Keep messages for less time"))
    if unread := int(_number(told.get("unreadMessagesDeleted", ""))):
        messages = "1 message" if unread == 1 else f"{unread} messages"
        text = f"it deleted {messages} that groups had not read: its log names them"
        found.append(Finding(Severity.BAD, text, _RETENTION, "settings:fileReservedTime", "Keep messages for longer"))
    refused = [(kind.lower(), int(_number(told.get(f"quotaRefused{kind}", "")))) for kind in _QUOTA_KINDS]
    if any(count for _, count in refused):
        counts = ", ".join(f"{count} {kind}" for kind, count in refused if count)
        text = f"it refused {counts} because a quota was used up: see its setting quotas"
        command = ("settings", "ls", BROKER, "--containing", "quota")
        found.append(Finding(Severity.WARNING, text, command, "settings", "See its settings"))
    behind = _number(told.get("dispatchBehindBytes", ""))
    if behind > _DISPATCH_BEHIND_BYTES:
        text = f"its queues are {behind / (1 << 20):.0f} MiB behind its log: consumers see messages late"
        found.append(Finding(Severity.WARNING, text, ("cluster", "ls"), "store", "Look at the store"))
    if taken := _number(told.get("nameTaken", "")):
        holder = told.get("nameTakenBy", "")
        text = f"another process registered under its name {taken:.0f} times, last from {holder}: stop it or rename it"
        found.append(Finding(Severity.BAD, text, ("cluster", "ls"), "broker", "Look at the broker"))
    found += failover_findings(told)
    if stalls := _number(told.get("loopStalls", "")):
        worst = f"the worst of {told.get('loopStallWorstMs', '')} ms by {told.get('loopStallCode', '')}"
        text = f"{stalls:.0f} times it served nobody for more than 100 ms, {worst}: see its log"
        found.append(Finding(Severity.WARNING, text, ("cluster", "ls"), "broker", "Look at the broker"))
    return found


def missing_since(member: str, since_ms: int) -> str:
    """The sentence about a member of a lease that is not in sync."""
    moment = datetime.fromtimestamp(since_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{member} is missing since {moment}"


def failover_findings(told: Mapping[str, str]) -> list[Finding]:
    """What is wrong with a broker under a failover agent: no lease, members that are away, messages that were cut."""
    found = []
    away = [each.rpartition("=") for each in told.get("failoverAway", "").split()]
    if away:
        texts = [missing_since(member, int(_number(since_ms))) for member, _, since_ms in away]
        text = f"{', '.join(texts)}: it cannot take over; start it, or pyromq cluster forget it"
        found.append(Finding(Severity.BAD, text, _LEASES, "replication", "See the members"))
    if "failoverLease" in told and told.get("replicationRole") != "replica" and told.get("failoverGrantedMs") == "0":
        why = told.get("failoverWaiting") or "look at its agent, and at the lease store"
        text = f"it is a master without a lease, and acknowledges nothing: {why}"
        found.append(Finding(Severity.BAD, text, _LEASES, "replication", "See its lease"))
    elif waiting := told.get("failoverWaiting"):
        found.append(Finding(Severity.BAD, waiting, _LEASES, "replication", "See its lease"))
    if cut := int(_number(told.get("failoverCutMessages", ""))):
        messages = "1 message" if cut == 1 else f"{cut} messages"
        text = f"{messages} that it had alone when another became master are in cut/ of its data folder: look at them, "
        text = f"{text}then delete the folder"
        found.append(Finding(Severity.WARNING, text, _LEASES, "replication", "See the members"))
    return found


def disk_percent(told: Mapping[str, str]) -> float:
    return _number(told.get("commitLogDiskRatio", "")) * 100


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
