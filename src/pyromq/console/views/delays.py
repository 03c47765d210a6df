"""Messages that wait for their time, hour by hour, and calling them back: one outcome for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pyromq.console.desk import Desk
from pyromq.console.views.brokers import require_broker
from pyromq.errors import BrokerError, ConfigError, MQError
from pyromq.operate.delays import DelayedMessage, read_handle
from pyromq.operate.jobs.outcomes import Outcome

HOUR_MS: Final = 3_600_000
READ_MAX: Final = 5_000  # of one broker and kind of delay
CANCELLED_MAX: Final = 500  # in one request


class DelayHour(msgspec.Struct, frozen=True, kw_only=True):
    """What is due in an hour; ``retries`` are failed messages that wait for their next attempt."""

    begin_ms: int
    count: int
    retries: int = 0
    cancellable: int = 0


class DelaysView(msgspec.Struct, frozen=True, kw_only=True):
    """``is_cut``: there are more, which were not read."""

    hours: tuple[DelayHour, ...]
    messages: tuple[DelayedMessage, ...]
    is_cut: bool


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one that was to be cancelled."""

    message_id: str
    topic: str
    outcome: Outcome
    reason: str = ""


async def read_delays(desk: Desk, topic: str = "") -> DelaysView:
    """Soonest first; all topics, or one."""
    found = await desk.admin.delays.list(topic, count_max=READ_MAX)
    kinds = Counter((each.broker, bool(each.level)) for each in found)
    is_cut = any(count >= READ_MAX for count in kinds.values())
    return DelaysView(hours=tuple(by_hour(found)), messages=tuple(found), is_cut=is_cut)


def by_hour(messages: Iterable[DelayedMessage]) -> list[DelayHour]:
    """Hours in which something is due, in their order."""
    hours: dict[int, list[DelayedMessage]] = {}
    for message in messages:
        hours.setdefault(message.due_ms // HOUR_MS * HOUR_MS, []).append(message)
    return [
        DelayHour(
            begin_ms=begin_ms,
            count=len(found),
            retries=sum(1 for each in found if each.group),
            cancellable=sum(1 for each in found if each.handle),
        )
        for begin_ms, found in sorted(hours.items())
    ]


async def cancel(desk: Desk, handles: Sequence[str]) -> list[Cancelled]:
    """Calls messages back, one after the other; a broker that does not answer leaves the rest alone.

    Raises ConfigError for what is no handle, NotFoundError for a broker that the cluster does not have: then nothing
    was done.
    """
    if not handles:
        raise ConfigError("choose the messages to cancel")
    if len(handles) > CANCELLED_MAX:
        raise ConfigError(f"{len(handles)} messages at once: {CANCELLED_MAX} are the most")
    places = [read_handle(handle) for handle in handles]
    for broker in sorted({place[1] for place in places}):
        await require_broker(desk, broker)
    outcomes: list[Cancelled] = []
    silent = ""
    for handle, (topic, _, _, message_id) in zip(handles, places, strict=True):
        if silent:
            outcome, reason = Outcome.NOT_ATTEMPTED, silent
        else:
            outcome, reason = await _recall(desk, handle)
            silent = "the broker did not answer about the one before" if outcome is Outcome.UNKNOWN else ""
        outcomes.append(Cancelled(message_id=message_id, topic=topic, outcome=outcome, reason=reason))
    return outcomes


async def _recall(desk: Desk, handle: str) -> tuple[Outcome, str]:
    try:
        await desk.admin.delays.recall(handle)
    except BrokerError as error:  # it says no: too late, or it takes none back
        return Outcome.UNCHANGED, str(error)
    except MQError as error:
        return Outcome.UNKNOWN, str(error)
    return Outcome.CONFIRMED, ""
