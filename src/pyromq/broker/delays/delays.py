"""Delayed messages: where a message waits for its time, if it has to.

    DELAY = 3                        ─▶ SCHEDULE_TOPIC_XXXX, queue 2, until its level has passed
    TIMER_DELAY_SEC/MS, _DELIVER_MS  ─▶ rmq_sys_wheel_timer, queue 0, until TIMER_OUT_MS

Where it belongs is kept in REAL_TOPIC and REAL_QID. A level wins over a time.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.clock import Clock
from pyromq.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from pyromq.model.property_names import (
    DELAY,
    REAL_QUEUE,
    REAL_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    UNIQUE_KEY,
)
from pyromq.model.property_names import TIMER_DELETED_KEY as CANCEL
from pyromq.model.property_names import TIMER_OUT_MS as DUE
from pyromq.wire.codes import ResponseCode
from pyromq.wire.property_text import number_of, value_of, with_values, without

_TIMES: Final = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
_NOTHING: Final[Mapping[str, str]] = {}
_SLOT_MS: Final = 1_000
_DAY_MS: Final = 86_400_000


class Detour(NamedTuple):
    """Where a message goes first, and the properties it takes along."""

    topic: str
    queue_id: int
    properties: str


class Delays:
    """Decides for messages on their way into the store; the services that release them are others."""

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def place(self, topic: str, queue_id: int, text: str) -> Detour:
        """Decide where a message with this delivery time waits. Raises RefusedError for a time that is none, or too far
        away.
        """
        level = number_of(text, DELAY) or 0
        if level > 0:
            return self.place_at_level(topic, queue_id, text, level)
        due_ms = self._due_ms(text)
        if due_ms is None or value_of(text, DUE):  # the latter has waited already
            return Detour(topic, queue_id, text)
        return self._place_at(topic, queue_id, text, due_ms)

    def place_after(self, topic: str, queue_id: int, text: str, delay_ms: int) -> Detour:
        """The delay counts, not what the message says about its time, or said before it was delivered the last time."""
        text = without(text, (*_TIMES, DELAY, DUE, CANCEL))
        delay_ms = min(delay_ms, self._settings.timer_delay_ms_max)
        return self._place_at(topic, queue_id, text, self._clock.now_ms() + delay_ms)

    def _place_at(self, topic: str, queue_id: int, text: str, due_ms: int) -> Detour:
        now_ms = self._clock.now_ms()
        if due_ms <= now_ms:
            if value_of(text, CANCEL):
                raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, "it is too late to cancel this message")
            return Detour(topic, queue_id, text)
        if due_ms - now_ms > self._settings.timer_delay_ms_max:
            days = self._settings.timer_delay_ms_max / _DAY_MS
            allowed = f"at most {days:g} days are allowed (timerMaxDelaySec)"
            problem = f"the message is due in {(due_ms - now_ms) / _DAY_MS:.1f} days; {allowed}"
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, problem)
        home = {DUE: str(due_ms), REAL_TOPIC: topic, REAL_QUEUE: str(queue_id)}
        return Detour(TIMER_TOPIC, 0, with_values(text, home))

    def place_at_level(
        self, topic: str, queue_id: int, text: str, level: int, more: Mapping[str, str] = _NOTHING
    ) -> Detour:
        """A level above the last one counts as the last one; ``more`` are properties to be set on the way."""
        level = min(level, len(self._settings.store.delay_ladder_ms))
        home = {**more, DELAY: str(level), REAL_TOPIC: topic, REAL_QUEUE: str(queue_id)}
        return Detour(SCHEDULE_TOPIC, level - 1, with_values(text, home, drop=_TIMES))

    def _due_ms(self, text: str) -> int | None:
        for name in _TIMES:
            if not (value := value_of(text, name)):
                continue
            number = number_of(text, name)
            if number is None:
                problem = f"property {name} is {value!r}, which is not a whole number"
                raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, problem)
            if name == TIMER_DELIVER_MS:
                return number
            return self._clock.now_ms() + number * (1_000 if name == TIMER_DELAY_SEC else 1)
        return None


def recall_handle(place: Detour, broker_name: str) -> str | None:
    """What its sender needs to cancel it; None when it does not wait for a time."""
    if place.topic != TIMER_TOPIC:
        return None
    due_ms = int(value_of(place.properties, DUE))
    in_slot_ms = min(due_ms + 1, due_ms - due_ms % _SLOT_MS + _SLOT_MS - 1)  # RocketMQ: the cancellation joins its slot
    topic, key = value_of(place.properties, REAL_TOPIC), value_of(place.properties, UNIQUE_KEY)
    return urlsafe_b64encode(f"v1 {topic} {broker_name} {in_slot_ms} {key}".encode()).decode()
