"""Consume statistics: what a consumer counts, per topic: pulled, consumed, failed, and how long it took.

Totals only grow. A sample of them every ten seconds gives rates over the last minute and failures of the last hour,
as RocketMQ's tools show them. The loop owns the counters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from pyromq.clock import Clock

SAMPLE_MS: Final = 10_000
_MINUTE_SAMPLES: Final = 6
_HOUR_SAMPLES: Final = 360


class TopicRates(msgspec.Struct, frozen=True, kw_only=True):
    """Averages of one topic (RocketMQ: ConsumeStatus): milliseconds, messages a second, failures of the last hour."""

    pull_rt: float = msgspec.field(name="pullRT", default=0.0)
    pull_tps: float = msgspec.field(name="pullTPS", default=0.0)
    consume_rt: float = msgspec.field(name="consumeRT", default=0.0)
    consume_ok_tps: float = msgspec.field(name="consumeOKTPS", default=0.0)
    consume_failed_tps: float = msgspec.field(name="consumeFailedTPS", default=0.0)
    consume_failed_messages: int = msgspec.field(name="consumeFailedMsgs", default=0)


class Totals(NamedTuple):
    """Since the consumer began; times are seconds, added up."""

    pulls: int = 0
    pulled: int = 0
    pull_s: float = 0.0
    ok: int = 0
    failed: int = 0
    consume_s: float = 0.0  # of messages: a batch counts once for each
    timed_out: int = 0  # given up on while a listener had them
    late: int = 0  # verdicts that came after that and count for nothing
    skipped: int = 0  # never handed out: ``skip_when_behind``
    dead: int = 0  # of those that failed: dead letters at once, because no retry can help


class TopicCounts(msgspec.Struct, eq=False):
    """The counters of one topic, named as in ``Totals``, and samples of them with their times."""

    samples: deque[tuple[int, Totals]]
    pulls: int = 0
    pulled: int = 0
    pull_s: float = 0.0
    ok: int = 0
    failed: int = 0
    consume_s: float = 0.0
    timed_out: int = 0
    late: int = 0
    skipped: int = 0
    dead: int = 0

    def pulled_some(self, count: int, seconds: float) -> None:
        self.pulls += 1
        self.pulled += count
        self.pull_s += seconds

    def consumed(self, ok: int, failed: int, seconds: float) -> None:
        """A listener is done with a batch."""
        self.ok += ok
        self.failed += failed
        self.consume_s += seconds * (ok + failed)

    def totals(self) -> Totals:
        return Totals(*[getattr(self, name) for name in Totals._fields])


class ConsumeStats:
    """Counts and times of one consumer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, TopicCounts] = {}

    def sample(self) -> None:
        """Call it every ten seconds."""
        now_ms = self._clock.monotonic_ms()
        for counts in self._topics.values():
            counts.samples.append((now_ms, counts.totals()))

    def totals(self) -> Totals:
        """Counts and times of all topics together."""
        columns = zip(*(counts.totals() for counts in self._topics.values()), strict=True)
        return Totals(*map(sum, columns)) if self._topics else Totals()

    def rates(self) -> Mapping[str, TopicRates]:
        return {topic: self._rates(counts) for topic, counts in sorted(self._topics.items())}

    def _rates(self, counts: TopicCounts) -> TopicRates:
        then_ms, then = counts.samples[max(0, len(counts.samples) - _MINUTE_SAMPLES)]
        now = counts.totals()
        seconds = max(0.001, (self._clock.monotonic_ms() - then_ms) / 1000)
        pulls, consumed = now.pulls - then.pulls, now.ok + now.failed - then.ok - then.failed
        return TopicRates(
            pull_rt=(now.pull_s - then.pull_s) * 1000 / pulls if pulls else 0.0,
            pull_tps=(now.pulled - then.pulled) / seconds,
            consume_rt=(now.consume_s - then.consume_s) * 1000 / consumed if consumed else 0.0,
            consume_ok_tps=(now.ok - then.ok) / seconds,
            consume_failed_tps=(now.failed - then.failed) / seconds,
            consume_failed_messages=now.failed - counts.samples[0][1].failed,
        )

    def of(self, topic: str) -> TopicCounts:
        counts = self._topics.get(topic)
        if counts is None:
            samples = deque([(self._clock.monotonic_ms(), Totals())], maxlen=_HOUR_SAMPLES + 1)
            counts = self._topics[topic] = TopicCounts(samples)
        return counts
