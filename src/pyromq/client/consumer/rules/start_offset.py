"""Start offset: where a consumer begins with a queue. A plan, which takes one request or none to carry out.

    stored offset              known ──▶ there          could not be read ──▶ not now, next rebalance
    none stored                ordinary topic           retry topic of the group
      LAST_OFFSET              end                      0
      FIRST_OFFSET             0                        0
      TIMESTAMP                search by time           end

A broker answers "none stored" only for queues that are not young: a new group reads a young queue from its beginning,
whatever it asked for. The start 0 is corrected by the first pull where retention has removed the beginning already.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import Enum
from typing import Final

from pyromq.errors import ConfigError
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.queue import Offset
from pyromq.wire.json.heartbeat import ConsumeFromWhere

_TIME_FORMAT: Final = "%Y%m%d%H%M%S"


@dataclass(frozen=True, slots=True)
class StartAt:
    """No request needed."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class AskEnd:
    """30 GET_MAX_OFFSET."""


@dataclass(frozen=True, slots=True)
class AskBegin:
    """31 GET_MIN_OFFSET."""


@dataclass(frozen=True, slots=True)
class AskByTime:
    """29 SEARCH_OFFSET_BY_TIMESTAMP."""

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


def plan_start(topic: str, stored: int | Stored, from_where: ConsumeFromWhere, consume_from_ms: int) -> StartPlan:
    """How to find the first offset of a queue; negative offsets (some clients commit −1) count as none."""
    if stored is Stored.UNREADABLE:
        return NotNow()
    if isinstance(stored, int) and stored >= 0:
        return StartAt(Offset(stored))
    retries = topic.startswith(RETRY_PREFIX)
    if from_where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
        return AskEnd() if retries else AskByTime(consume_from_ms)
    if retries or from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
        return StartAt(Offset(0))
    return AskEnd()  # also what RocketMQ makes of its three outdated choices


@dataclass(frozen=True, slots=True)
class OpenedAt:
    """When a broadcasting member was opened, and which of its topics there were then, and which were not."""

    time_ms: int
    known: frozenset[str]
    absent: frozenset[str]


def plan_broadcast_start(topic: str, opened: OpenedAt | None) -> StartPlan:
    """Where a member that wants the newest messages starts in a queue that it has no offset of.

    ``opened`` is None while it opens: then the end of the queue is where it starts. What is found later may have been
    written to since: a topic that did not exist has nothing older; in a queue that could not be seen the time tells.
    """
    if opened is None:
        return AskEnd()
    if topic in opened.absent:
        return AskBegin()
    return AskByTime(opened.time_ms) if topic in opened.known else AskEnd()


def parse_consume_time(text: str, zone: tzinfo | None = None) -> int:
    """RocketMQ's ``yyyyMMddHHmmss`` in the given zone (the machine's own when None), as milliseconds."""
    if not (len(text) == 14 and text.isascii() and text.isdigit()):
        raise ConfigError(f"consume timestamp {text[:40]!r} is not of the form yyyyMMddHHmmss")
    try:
        moment = datetime.strptime(text, _TIME_FORMAT).replace(tzinfo=zone)
    except ValueError as error:
        raise ConfigError(f"consume timestamp {text!r} is not a moment in time: {error}") from error
    return int(moment.timestamp() * 1000)
