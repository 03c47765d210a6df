"""Numbers of a report without Spark: the questions of ``questions`` and ``lags``, asked of lists in memory.

A report of ten thousand messages is made in less time than a JVM needs to start. Both give the same numbers; a
percentile of many values is Spark's estimate there, and exact here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyromq.pipeline.jobs.common.bars import Step
from pyromq.pipeline.jobs.common.selection import Selection
from pyromq.pipeline.jobs.reporting import plain_reading as reading_of
from pyromq.pipeline.jobs.reporting.numbers import (
    AttemptCount,
    DeadCause,
    Duplicate,
    HandledTwice,
    Lag,
    Latency,
    SlowKey,
    Throughput,
    bucket_width,
    filled,
    lag_of,
)
from pyromq.pipeline.jobs.reporting.plain_reading import Delivery, StoredMessage
from pyromq.pipeline.jobs.reporting.questions import TOP, Span
from pyromq.pipeline.jobs.reporting.reading import CAUSES_MAX, Committed, committed_offsets

_PERCENTS: Final = (50, 90, 99)
Pair = tuple[str, str]


class _Outcome(NamedTuple):
    """What became of a message in a group; None where the trace does not say."""

    stored_ms: int
    queueing: int
    end_to_end: int | None
    done_ms: int | None
    successes: int


class PlainFacts:
    """What a report asks, answered from lists."""

    def __init__(self, reading: Selection, trace_topic: str) -> None:
        """Read messages and trace. Raises what the source raises, and TooLargeForMemoryError."""
        self._reading = reading
        self._messages = reading_of.messages_of(reading)
        self._deliveries = reading_of.deliveries_of(self._messages, reading, trace_topic)
        self.has_trace = self._deliveries is not None

    def about_messages(self, step: Step) -> tuple[dict[str, Any], Span]:
        step(1, "throughput")
        by_topic: dict[str, list[StoredMessage]] = defaultdict(list)
        for each in self._messages:
            by_topic[each.topic].append(each)
        begin = min((each.stored_ms for each in self._messages), default=0)
        end = max((each.stored_ms for each in self._messages), default=0)
        span = Span(begin, end, bucket_width(end - begin)) if self._messages else Span()
        step(2, "duplicates")
        duplicates, count = _duplicates(self._messages)
        return {
            "throughput": tuple(_throughput(topic, by_topic[topic], span) for topic in sorted(by_topic)),
            "latencies": tuple(
                _latency("storing", topic, "", [each.stored_ms - each.born_ms for each in by_topic[topic]])
                for topic in sorted(by_topic)
            ),
            "duplicates": duplicates,
            "duplicate_keys": count,
        }, span

    def about_consumers(self, topics: Collection[str], span: Span, step: Step) -> dict[str, Any]:
        deliveries = self._deliveries or []
        outcomes = _outcomes(deliveries)
        step(3, "latencies")
        latencies, twice = _consuming(deliveries, outcomes)
        step(4, "lag")
        committed = committed_offsets(self._reading, sorted({each.group for each in latencies}), topics)
        pairs = {(each.group, each.topic) for each in latencies} | {(each.group, each.topic) for each in committed}
        return {
            "latencies": latencies,
            "handled_twice": twice,
            "attempts": _attempts((each.group, each.attempt) for each in deliveries),
            "slow_keys": _slow_keys(deliveries),
            "lags": _lags(self._messages, outcomes, sorted(pairs), committed, span),
        }

    def retried(self, groups: Sequence[str]) -> tuple[AttemptCount, ...]:
        sent_back = reading_of.retried_of(self._reading, groups)
        return _attempts((each.group, each.attempt + 1) for each in sent_back if each.attempt > 0)

    def dead_causes(self, groups: Collection[str]) -> tuple[DeadCause, ...]:
        """By error, the most frequent first; many of them end with one for all the others."""
        found: dict[tuple[str, ...], list[reading_of.LetterCause]] = defaultdict(list)
        for letter in reading_of.dead_of(self._reading, groups):
            cause = reading_of.cause_of(letter)
            key = (letter.group, letter.topic, cause.error_class, cause.stack, "" if cause.stack else cause.cause)
            found[key].append(cause)
        causes = sorted(
            (_dead_cause(key[0], key[1], letters) for key, letters in found.items()),
            key=lambda each: (-each.count, each.group, each.cause),
        )
        named, others = causes[:CAUSES_MAX], causes[CAUSES_MAX:]
        if not others:
            return tuple(named)
        rest = DeadCause(
            group="", topic="", cause="all other causes", count=sum(each.count for each in others),
            first_ms=min(each.first_ms for each in causes), last_ms=max(each.last_ms for each in causes),
        )  # fmt: skip
        return (*named, rest)


def _dead_cause(group: str, topic: str, letters: Sequence[reading_of.LetterCause]) -> DeadCause:
    newest = max(letters, key=lambda each: each.last_ms)
    return DeadCause(
        group=group, topic=topic, cause=newest.cause, count=len(letters), last_ms=newest.last_ms,
        first_ms=min(each.first_ms for each in letters), error_class=newest.error_class, stack=newest.stack,
    )  # fmt: skip


def _throughput(topic: str, messages: Sequence[StoredMessage], span: Span) -> Throughput:
    times = [each.stored_ms for each in messages]
    first_ms, last_ms = min(times), max(times)
    per_second = {at: count * 1000 / span.bucket_ms for at, count in _per_bucket(times, span).items()}
    span_s = max(1_000, last_ms - first_ms) / 1000  # in less time there is no rate
    return Throughput(
        topic=topic, messages=len(times), first_ms=first_ms, last_ms=last_ms,
        per_second=round(len(times) / span_s, 3), points=filled(per_second, *span),
    )  # fmt: skip


def _per_bucket(times_ms: Iterable[int], span: Span) -> Counter[int]:
    return Counter(at - at % span.bucket_ms for at in times_ms)


def _duplicates(messages: Iterable[StoredMessage]) -> tuple[tuple[Duplicate, ...], int]:
    """The most frequent, and how many there are."""
    counts = Counter((each.topic, key) for each in messages if each.keys for key in each.keys.split(" "))
    several = sorted((-count, *place) for place, count in counts.items() if count > 1)
    return tuple(Duplicate(topic=topic, key=key, count=-count) for count, topic, key in several[:TOP]), len(several)


def _outcomes(deliveries: Iterable[Delivery]) -> dict[tuple[str, str, str], _Outcome]:
    """By group, topic and message."""
    found: dict[tuple[str, str, str], list[Delivery]] = defaultdict(list)
    for each in deliveries:
        found[each.group, each.topic, each.message_id].append(each)
    return {key: _outcome(some) for key, some in found.items()}


def _outcome(deliveries: Sequence[Delivery]) -> _Outcome:
    done = [each.ended_ms for each in deliveries if each.is_success and each.ended_ms is not None]
    stored_ms = min(each.stored_ms for each in deliveries)
    done_ms = min(done, default=None)
    born_ms = min(each.born_ms for each in deliveries)
    return _Outcome(
        stored_ms=stored_ms,
        queueing=min(each.began_ms for each in deliveries) - stored_ms,
        end_to_end=None if done_ms is None else done_ms - born_ms,
        done_ms=done_ms,
        successes=len(done),
    )


def _consuming(
    deliveries: Iterable[Delivery], outcomes: Mapping[tuple[str, str, str], _Outcome]
) -> tuple[tuple[Latency, ...], tuple[HandledTwice, ...]]:
    """Queueing, handling and end to end; and how many messages were handled with success more than once."""
    whole: dict[Pair, list[_Outcome]] = defaultdict(list)
    for (group, topic, _), outcome in outcomes.items():
        whole[group, topic].append(outcome)
    costs: dict[Pair, list[int]] = defaultdict(list)
    for each in deliveries:
        if each.cost_ms is not None:
            costs[each.group, each.topic].append(each.cost_ms)
    asked: tuple[tuple[str, dict[Pair, list[int]]], ...] = (
        ("queueing", {pair: [each.queueing for each in some] for pair, some in whole.items()}),
        ("handling", costs),
        ("end to end", {pair: _known(each.end_to_end for each in some) for pair, some in whole.items()}),
    )
    latencies = tuple(
        _latency(what, topic, group, values[group, topic])
        for what, values in asked for group, topic in sorted(values) if values[group, topic]
    )  # fmt: skip
    twice = {pair: sum(each.successes > 1 for each in some) for pair, some in sorted(whole.items())}
    return latencies, tuple(
        HandledTwice(group=group, topic=topic, messages=count) for (group, topic), count in twice.items() if count
    )


def _known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _latency(what: str, topic: str, group: str, values: Iterable[int]) -> Latency:
    """Clocks of different machines differ: what seems to have taken less than no time took none."""
    found = sorted(max(0, value) for value in values)
    p50, p90, p99 = (found[-(-percent * len(found) // 100) - 1] for percent in _PERCENTS)
    return Latency(
        what=what, topic=topic, group=group, count=len(found), p50_ms=p50, p90_ms=p90, p99_ms=p99, max_ms=found[-1]
    )


def _attempts(found: Iterable[tuple[str, int]]) -> tuple[AttemptCount, ...]:
    counts = sorted(Counter(found).items())
    return tuple(AttemptCount(group=group, attempt=attempt, count=count) for (group, attempt), count in counts)


def _slow_keys(deliveries: Iterable[Delivery]) -> tuple[SlowKey, ...]:
    """Those that took a moment at least."""
    costs: dict[Pair, list[int]] = defaultdict(list)
    for each in deliveries:
        if each.cost_ms and each.cost_ms > 0 and each.keys:
            for key in each.keys.split(" "):
                costs[each.group, key].append(each.cost_ms)
    found = [
        SlowKey(group=group, key=key, count=len(some), avg_ms=sum(some) / len(some), max_ms=max(some))
        for (group, key), some in costs.items()
    ]
    return tuple(sorted(found, key=lambda each: (-each.max_ms, -each.avg_ms, each.key, each.group))[:TOP])


def _lags(
    messages: Sequence[StoredMessage],
    outcomes: Mapping[tuple[str, str, str], _Outcome],
    pairs: Sequence[Pair],
    committed: Iterable[Committed],
    span: Span,
) -> tuple[Lag, ...]:
    """Lag over time, as ``lags.lags`` gives it: what came and what was done, in the same buckets."""
    came: dict[Pair, list[int]] = defaultdict(list)
    done: dict[Pair, list[int]] = defaultdict(list)
    handled: set[Pair] = set()
    for (group, topic, message_id), outcome in outcomes.items():
        if outcome.done_ms is not None:
            handled.add((group, message_id))
            came[group, topic].append(outcome.stored_ms)
            done[group, topic].append(max(outcome.done_ms, span.begin_ms))
    passed = {(each.group, each.topic, each.place): each.offset for each in committed}
    for pair, stored_ms in _waiting(messages, pairs, passed, handled):
        came[pair].append(stored_ms)
    buckets = {pair: (_per_bucket(came[pair], span), _per_bucket(done[pair], span)) for pair in {*came, *done}}
    end_ms = max([span.end_ms, *(at for both in buckets.values() for counts in both for at in counts)])
    whole = span._replace(end_ms=end_ms)
    nothing = (Counter[int](), Counter[int]())
    return tuple(
        lag_of(*pair, stored=filled(stored, *whole), handled=filled(ended, *whole))
        for pair in pairs for stored, ended in (buckets.get(pair, nothing),)
    )  # fmt: skip


def _waiting(
    messages: Iterable[StoredMessage],
    pairs: Iterable[Pair],
    passed: Mapping[tuple[str, str, str], int],
    handled: Collection[Pair],
) -> Iterator[tuple[Pair, int]]:
    """Messages that a group neither handled nor passed."""
    groups: dict[str, list[str]] = defaultdict(list)
    for group, topic in pairs:
        groups[topic].append(group)
    for each in messages:
        for group in groups.get(each.topic, ()):
            is_ahead = each.offset >= passed.get((group, each.topic, each.place), 0)
            if is_ahead and (group, each.message_id) not in handled:
                yield (group, each.topic), each.stored_ms
