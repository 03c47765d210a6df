"""Rates of single queues, which brokers do not tell: from how far their ends were at earlier looks. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Final

from pyromq.clock import Clock
from pyromq.model.queue import QueueId

WINDOW_MS: Final = 60_000
_TOPICS_MAX: Final = 200  # those that were looked at last
_LOOKS_MAX: Final = 40
_SPAN_MS_MIN: Final = 1_000


class QueueRates:
    """Remembers looks at a topic for a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looks: OrderedDict[str, deque[tuple[int, dict[QueueId, int]]]] = OrderedDict()

    def look(self, topic: str, ends: Mapping[QueueId, int]) -> dict[QueueId, float | None]:
        """Messages a second of each queue since the oldest look that is remembered; None at the first look.

        A queue whose end went back was made anew: it has no rate until the next look.
        """
        now_ms = self._clock.monotonic_ms()
        looks = self._looks.pop(topic, None) or deque(maxlen=_LOOKS_MAX)
        while looks and now_ms - looks[0][0] > WINDOW_MS:
            looks.popleft()
        then_ms, before = looks[0] if looks else (now_ms, {})
        span_ms = now_ms - then_ms
        rates = {queue: _rate(before.get(queue), end, span_ms) for queue, end in ends.items()}
        if any(before.get(queue, end) > end for queue, end in ends.items()):
            looks.clear()
        if not looks or now_ms - looks[-1][0] >= _SPAN_MS_MIN:
            looks.append((now_ms, dict(ends)))
        self._looks[topic] = looks
        while len(self._looks) > _TOPICS_MAX:
            self._looks.popitem(last=False)
        return rates


def _rate(before: int | None, end: int, span_ms: int) -> float | None:
    if before is None or before > end or span_ms < _SPAN_MS_MIN:
        return None
    return (end - before) * 1000 / span_ms
