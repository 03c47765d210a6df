"""Start offset: where a consumer begins with a queue. A plan, which takes one request or none to carry out.

    stored offset              known ──▶ there          could not be read ──▶ not now, next rebalance
    none stored                ordinary topic                                      retry topic of the group
      FIRST_OFFSET             0                                                   0
      TIMESTAMP                search by time                                      0
      LAST_OFFSET              while the member subscribes      end                0
                               the topic was absent then        beginning          0
                               anything that is found later     search by the time of subscribing, less CLOCK_SKEW_MS

Found later are queues that were added since, and brokers that were away or could not be asked: what was stored since
the member subscribed is read, so nothing is missed. The start is committed before the queue is pulled, so a member that
restarts, and one that takes the queue over, go on from there (``OffsetKeeper.keep_start``). Before that it is planned
again: while the broker was asked another member may have committed a start, or the consumer may have become open.

Brokers are asked not to answer 0 for a queue that lost no message yet, as RocketMQ's broker does for a new group: it
would replay up to 8 GiB. The start 0 is corrected by the first pull where retention has removed the beginning already.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyromq.model.names import RETRY_PREFIX
from pyromq.model.queue import Offset
from pyromq.wire.json.heartbeat import ConsumeFromWhere

CLOCK_SKEW_MS: Final = 60_000
"""How far the clock of a client may be ahead of a broker's without missing messages of a queue that it finds later."""


@dataclass(frozen=True, slots=True)
class StartAt:
    """Start at this offset; no request is needed."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class AskEnd:
    """Ask the broker for the end of the queue (30 GET_MAX_OFFSET)."""


@dataclass(frozen=True, slots=True)
class AskBegin:
    """Ask the broker for the beginning of the queue (31 GET_MIN_OFFSET)."""


@dataclass(frozen=True, slots=True)
class AskByTime:
    """Ask the broker for the offset of a time (29 SEARCH_OFFSET_BY_TIMESTAMP)."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class NotNow:
    """The stored offset could not be read: starting anywhere could skip or repeat messages."""


StartPlan = StartAt | AskEnd | AskBegin | AskByTime | NotNow


class Stored(Enum):
    """What an offset store says when it has no offset to give."""

    NONE = "none"
    UNREADABLE = "unreadable"


class SeekTo(Enum):
    """Ends of a queue that a user may jump to."""

    BEGIN = "begin"
    END = "end"


@dataclass(frozen=True, slots=True)
class Subscribed:
    """When a member subscribed a topic, and whether the topic did not exist then."""

    time_ms: int
    was_absent: bool = False


def plan_start(
    topic: str,
    stored: int | Stored,
    from_where: ConsumeFromWhere,
    consume_from_ms: int,
    subscribed: Subscribed | None = None,
) -> StartPlan:
    """How to find the first offset of a queue; negative offsets (some clients commit −1) count as none.

    ``subscribed`` is None while the member subscribes, which is when queues have their ends.
    """
    if stored is Stored.UNREADABLE:
        return NotNow()
    if isinstance(stored, int) and stored >= 0:
        return StartAt(Offset(stored))
    if topic.startswith(RETRY_PREFIX) or from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
        return StartAt(Offset(0))
    if from_where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
        return AskByTime(consume_from_ms)
    if subscribed is None:  # the newest: also what RocketMQ makes of its three outdated choices
        return AskEnd()
    return AskBegin() if subscribed.was_absent else AskByTime(max(0, subscribed.time_ms - CLOCK_SKEW_MS))
