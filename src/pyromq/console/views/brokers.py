"""A broker: its run-time information in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from pyromq.console.desk import Desk
from pyromq.errors import NotFoundError
from pyromq.operate.brokers import capacity, first_number
from pyromq.wire.codes import ResponseCode
from pyromq.wording import ago, shown_span, shown_time

_MISSING: Final = ("", "-1", "NaN")


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """``key`` is the broker's own word for it."""

    key: str
    label: str
    text: str


class FactGroup(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    facts: tuple[Fact, ...]


async def require_broker(desk: Desk, name: str) -> None:
    """Check that a broker of this name exists. Raises NotFoundError: a name from a browser must not become an address
    that the console connects to.
    """
    if name not in (await desk.admin.brokers.cluster()).broker_addr_table:
        raise NotFoundError(code=ResponseCode.BROKER_NOT_EXIST, remark=f"name servers know no broker {name[:80]}")


# --- run-time information in words ---------------------------------------------------------------------------------

Show = Callable[[str, int], str]


def _count(text: str, _now_ms: int) -> str:
    return f"{int(first_number(text)):,}".replace(",", "\u2009")


def _rates(text: str, _now_ms: int) -> str:
    words = [f"{first_number(word):,.1f}".replace(",", "\u2009") for word in text.split()]
    periods = ("10 s", "1 min", "10 min")
    named = [f"{word}/s over {period}".replace(" ", "\u00a0") for word, period in zip(words, periods, strict=False)]
    return ", ".join(named) or text


def _bytes(text: str, _now_ms: int) -> str:
    left, units = first_number(text), iter(("B", "KiB", "MiB", "GiB", "TiB", "PiB"))
    unit = next(units)
    while left >= 1024 and unit != "PiB":
        left, unit = left / 1024, next(units)
    return f"{left:,.1f} {unit}" if unit != "B" else f"{left:.0f} B"


def _time(text: str, now_ms: int) -> str:
    time_ms = int(first_number(text))
    return f"{shown_time(time_ms)}, {ago(time_ms, now_ms)}" if time_ms > 0 else "never"


def _span(text: str, _now_ms: int) -> str:
    return shown_span(int(first_number(text)))


def _seconds(text: str, _now_ms: int) -> str:
    return shown_span(int(first_number(text)) * 1_000)


def _share(text: str, _now_ms: int) -> str:
    return f"{first_number(text) * 100:.0f} %"


def _capacity(text: str, now_ms: int) -> str:
    total, free = capacity(text)
    return f"{_bytes(str(total), now_ms)}, {_bytes(str(free), now_ms)} free" if total else text


def _plain(text: str, _now_ms: int) -> str:
    return text


def _yes_or_no(text: str, _now_ms: int) -> str:
    return {"true": "yes", "false": "no"}.get(text, text)


RUNTIME: Final[dict[str, tuple[tuple[str, str, Show], ...]]] = {
    "Broker": (
        ("brokerVersionDesc", "Protocol version", _plain),
        ("bootTimestamp", "Started", _time),
        ("runtime", "Running for", _plain),
        ("brokerActive", "Active", _yes_or_no),
    ),
    "Traffic": (
        ("putTps", "Messages in", _rates),
        ("getTransferredTps", "Messages out", _rates),
        ("getFoundTps", "Pulls that found something", _rates),
        ("getMissTps", "Pulls that found nothing", _rates),
        ("putMessageTimesTotal", "Messages in since the start", _count),
        ("putMessageSizeTotal", "Bytes in since the start", _bytes),
        ("putMessageAverageSize", "Average message", _bytes),
        ("putMessageFailedTimes", "Sends that failed", _count),
    ),
    "Disk": (
        ("commitLogDiskRatio", "Disk used", _share),
        ("commitLogDirCapacity", "Capacity", _capacity),
        ("commitLogMinOffset", "First position of the log", _count),
        ("commitLogMaxOffset", "End of the log", _count),
        ("earliestMessageTimeStamp", "Oldest message", _time),
        ("remainHowManyDataToFlush", "Not flushed yet", _bytes),
        ("dispatchBehindBytes", "Queues behind the log", _bytes),
        ("unreadMessagesDeleted", "Unread messages deleted", _count),
    ),
    "Replication": (
        ("replicationRole", "Role", _plain),
        ("replicationState", "State", _plain),
        ("replicationReason", "Why", _plain),
        ("replicationAddress", "Port for replicas", _plain),
        ("replicationInSync", "Replicas in sync", _count),
        ("replicationConfirmed", "Confirmed position", _count),
        ("replicationFlushed", "On disk up to", _count),
        ("replicationWaitingSends", "Sends that wait for replicas", _count),
        ("replicationLateSends", "Sends that waited too long", _count),
        ("replicationUnconfirmedSends", "Sends without enough replicas", _count),
        ("replicationMetadataRounds", "Looks at the master's topics and groups", _count),
    ),
    "Waiting": (
        ("sendThreadPoolQueueSize", "Sends that wait for the disk", _count),
        ("sendThreadPoolQueueCapacity", "Sends that may wait", _count),
        ("sendThreadPoolQueueHeadWaitTimeMills", "The oldest waits for", _span),
        ("pullThreadPoolQueueSize", "Pulls that wait for a message", _count),
        ("pullThreadPoolQueueCapacity", "Pulls that may wait", _count),
        ("pageCacheLockTimeMills", "Disk stuck for", _span),
    ),
    "Delays": (
        ("delayLevelsPending", "Waiting at levels", _count),
        ("delayLevelsDelivered", "Delivered from levels", _count),
        ("timersPending", "Waiting for a time", _count),
        ("timersDelivered", "Delivered at their time", _count),
        ("timersCancelled", "Cancelled", _count),
        ("timerReadBehind", "Timer behind", _seconds),
        ("delayLateMillisMax", "Latest delivery was late by", _span),
    ),
    "Refused": (
        ("flowControlRejectRequest", "Requests, broker busy", _count),
        ("flowControlOverload", "Sends, overloaded", _count),
        ("flowControlTimeoutCleanQueue", "Sends that waited too long", _count),
        ("flowControlPcBusyCleanQueue", "Sends that waited for a stuck disk", _count),
        ("flowControlPcSynchronized", "Sends, disk stuck", _count),
        ("quotaRefusedSends", "Sends over a quota", _count),
        ("quotaRefusedPulls", "Pulls over a quota", _count),
        ("quotaRefusedConnections", "Connections over a quota", _count),
        ("quotaRefusedCreations", "Topics and groups over a quota", _count),
    ),
}
"""What a page shows first, by heading: the broker's key, our words, how the value is shown."""


def in_words(told: Mapping[str, str], now_ms: int) -> list[FactGroup]:
    """Known facts under their headings, what is left under the last one; nothing that was told is missing."""
    groups, known = [], set[str]()
    for title, entries in RUNTIME.items():
        facts = tuple(
            Fact(key=key, label=label, text=show(told[key], now_ms))
            for key, label, show in entries
            if told.get(key, "") not in _MISSING
        )
        known |= {key for key, _, _ in entries}
        if facts:
            groups.append(FactGroup(title=title, facts=facts))
    rest = tuple(Fact(key=key, label=key, text=told[key]) for key in sorted(told) if key not in known)
    return [*groups, FactGroup(title="Everything else", facts=rest)] if rest else groups
